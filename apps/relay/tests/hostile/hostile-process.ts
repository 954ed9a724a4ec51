import { setPriority } from 'node:os'
import { startProcess, type ServiceProcess } from '@tributary/testkit'
import type { Victim, Wish } from './stage.ts'

export interface HostileSettings {
  addresses: readonly string[]
  directoryUrl: string
  relayUrl: string
  streamUrl: string
  seed: number
}

export interface ActPlan {
  names: readonly string[]
  seed: number
  ms: number
  victims: readonly Victim[]
}

export interface ActReport {
  /** How often each strategy did what. */
  counts: Record<string, number>
  /** What strategies threw: mistakes of the campaign. */
  faults: string[]
}

/** The attacker shares the machine with those whom it attacks, but is not to be what keeps them from running. */
const niceness = 10

/** The hostile hosts and consumers, in a process of their own. */
export class HostileProcess implements AsyncDisposable {
  readonly #process: ServiceProcess
  readonly hosts: readonly string[]

  private constructor(process: ServiceProcess, hosts: readonly string[]) {
    this.#process = process
    this.hosts = hosts
  }

  /** @param grant does what only the campaign can do. */
  static async start(
    settings: HostileSettings,
    grant: (wish: Wish) => Promise<void>,
  ): Promise<HostileProcess> {
    const process = await startProcess(new URL('./hostile-main.ts', import.meta.url).pathname, {
      args: [JSON.stringify(settings)],
    })
    setPriority(process.pid, niceness)
    process.onMessage((message) => {
      if (!isWish(message)) return
      void grant(message.wish).then(() => process.request('granted', message.number).catch(() => undefined))
    })
    return new HostileProcess(process, await process.request<string[]>('hosts'))
  }

  /** Creates the accounts that strategies start with, and has them speak. */
  async prepare(accountsPerHost: number): Promise<void> {
    await this.#process.request('prepare', accountsPerHost)
  }

  /** Has every host that was cut off ask to be read again, so that each act is played by all of them. */
  async comeBack(): Promise<void> {
    await this.#process.request('comeBack')
  }

  async play(plan: ActPlan): Promise<ActReport> {
    return this.#process.request<ActReport>('play', plan)
  }

  cpuSeconds(): number {
    return this.#process.cpuSeconds()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process.kill()
  }
}

function isWish(message: unknown): message is { wish: Wish; number: number } {
  return typeof message === 'object' && message !== null && 'wish' in message
}
