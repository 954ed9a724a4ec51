/** A host that is cut off right after the relay has connected to it. Two minutes later the relay must say so. */
import { startScriptedHost, type ScriptedHost } from '@tributary/testkit'
import type { Service } from './service.ts'
import type { Breach } from './witness.ts'

const visibleAfterMs = 120_000
/** For the relay to notice that the connection has ended, and for the question. */
const graceMs = 5000
const leaveTimeoutMs = 30_000

export class LeavingHost implements AsyncDisposable {
  readonly #host: ScriptedHost
  #leftAtMs = Infinity
  #isChecked = false

  private constructor(host: ScriptedHost) {
    this.#host = host
  }

  static async start(plcUrl: string, address: string): Promise<LeavingHost> {
    return new LeavingHost(await startScriptedHost({ plcUrl, address }))
  }

  get host(): string {
    return this.#host.host
  }

  /** Waits for the relay, and is gone. */
  async leave(): Promise<void> {
    await Promise.race([
      this.#host.connection(),
      new Promise<void>((resolve) => void setTimeout(resolve, leaveTimeoutMs).unref()),
    ])
    await this.#host.stop()
    this.#leftAtMs = performance.now()
  }

  /** Once two minutes have passed, what the relay says of the host is looked at, one time. */
  async look({ url, startedAtMs }: Service): Promise<Breach | undefined> {
    const goneMs = performance.now() - Math.max(this.#leftAtMs, startedAtMs)
    if (this.#isChecked || goneMs < visibleAfterMs + graceMs) return undefined
    this.#isChecked = true
    const { status } = await ask(`${url}/xrpc/com.atproto.sync.getHostStatus?hostname=${this.host}`)
    const { sources } = await ask(`${url}/fresh`)
    const { unreachable = 0 } = (sources ?? {}) as { unreachable?: number } // counts by state
    if (status === 'offline' && unreachable > 0) return undefined
    const seconds = (goneMs / 1000).toFixed(0)
    const what = `relay: a host that was cut off ${seconds} s ago is ${String(status)}; /fresh counts ${JSON.stringify(sources)}`
    return { promise: 'A7', what }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#host.stop()
  }
}

async function ask(url: string): Promise<Record<string, unknown>> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(10_000) })
    return (await response.json()) as Record<string, unknown> // every answer is an object
  } catch (error) {
    return { status: `no answer: ${String(error)}` }
  }
}
