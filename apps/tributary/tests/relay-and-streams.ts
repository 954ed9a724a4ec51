/**
 * A relay and two streams behind it as processes: one stream verifies everything again, the other one trusts the relay.
 * All of them can be killed and started again. Consumers of every framing keep what they get.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  eventually,
  freePort,
  startProcess,
  type ScriptedAccount,
  type ScriptedHost,
  type ServiceProcess,
} from '@tributary/testkit'
import { WebSocket } from 'ws'

const collection = 'org.impact.collection'
const firehose = '/xrpc/com.atproto.sync.subscribeRepos?cursor=0'
const events = '/xrpc/network.social.stream.subscribeEvents?cursor=0'
const names = ['relay', 'checking', 'trusting'] as const

type Name = (typeof names)[number]

/** A consumer that comes back from the first event on after each end, and keeps each message. */
class Consumer implements Disposable {
  readonly messages: Buffer[] = []
  readonly #url: string
  readonly #protocol: string | undefined
  #socket: WebSocket | undefined

  constructor(url: string, protocol?: string) {
    this.#url = url.replace('http', 'ws')
    this.#protocol = protocol
  }

  /** Reads all messages from the oldest one on. */
  open(): void {
    this[Symbol.dispose]()
    this.messages.length = 0
    this.#socket = new WebSocket(this.#url, this.#protocol ?? [])
    this.#socket.on('message', (data: Buffer) => this.messages.push(data))
    this.#socket.on('error', () => {})
  }

  /** How many messages hold a text. */
  count(text: string): number {
    return this.messages.filter((message) => message.includes(text)).length
  }

  [Symbol.dispose](): void {
    this.#socket?.terminate()
  }
}

export class RelayAndStreams implements AsyncDisposable {
  readonly consumers: Readonly<
    Record<'v0' | 'xrpc.v1.json' | 'xrpc.v1.cbor' | 'checking' | 'trusting', Consumer>
  >
  readonly #directory = mkdtempSync(join(tmpdir(), 'tributary-hostile-'))
  readonly #processes = new Map<Name, ServiceProcess>()
  readonly #settings: Record<Name, Record<string, string>>
  readonly #url: Record<Name, string>

  private constructor(plcUrl: string, hosts: readonly ScriptedHost[], ports: Record<Name, number>) {
    const address = (name: Name): string => `http://127.0.0.1:${ports[name]}`
    this.#url = { relay: address('relay'), checking: address('checking'), trusting: address('trusting') }
    const hostNames = hosts.map(({ host }) => host).join(',')
    const common = (name: Name): Record<string, string> => ({
      PORT: String(ports[name]),
      PLC_URL: plcUrl,
      LOG_LEVEL: 'warn',
      DATA_DIRECTORY: join(this.#directory, name),
    })
    const stream = (name: Name, verify: 'full' | 'off'): Record<string, string> => ({
      ...common(name),
      RELAY_URL: this.#url.relay.replace('http', 'ws'),
      COLLECTIONS: collection,
      VERIFY: verify,
    })
    this.#settings = {
      relay: { ...common('relay'), SOURCES: hostNames, ALLOWED_PRIVATE_HOSTS: hostNames },
      checking: stream('checking', 'full'),
      trusting: stream('trusting', 'off'),
    }
    this.consumers = {
      v0: new Consumer(this.#url.relay + firehose),
      'xrpc.v1.json': new Consumer(this.#url.relay + firehose, 'xrpc.v1.json'),
      'xrpc.v1.cbor': new Consumer(this.#url.relay + firehose, 'xrpc.v1.cbor'),
      checking: new Consumer(this.#url.checking + events),
      trusting: new Consumer(this.#url.trusting + events),
    }
  }

  static async start(plcUrl: string, hosts: readonly ScriptedHost[]): Promise<RelayAndStreams> {
    const ports = { relay: await freePort(), checking: await freePort(), trusting: await freePort() }
    const services = new RelayAndStreams(plcUrl, hosts, ports)
    await services.#start()
    return services
  }

  get relayUrl(): string {
    return this.#url.relay
  }

  /** Names of the services that have ended by themselves. */
  get ended(): Name[] {
    return names.filter((name) => !this.#processes.get(name)?.isRunning)
  }

  async killAndStart(): Promise<void> {
    for (const process of this.#processes.values()) await process.kill()
    await this.#start()
  }

  /** An account writes a record, and every consumer gets it. */
  async untilDelivered(account: ScriptedAccount, rkey: string): Promise<void> {
    account.create(collection, { title: rkey }, rkey)
    await eventually(
      () => Object.values(this.consumers).every((consumer) => consumer.count(rkey) > 0),
      () => ({
        ended: this.ended,
        got: Object.entries(this.consumers).map(([name, { messages }]) => [name, messages.length]),
      }),
    )
  }

  async #start(): Promise<void> {
    for (const name of names) {
      const env = Object.fromEntries(
        Object.entries(this.#settings[name]).map(([key, value]) => [
          `TRIBUTARY_${name === 'relay' ? 'RELAY' : 'STREAM'}_${key}`,
          value,
        ]),
      )
      const folder = name === 'relay' ? 'relay' : 'stream'
      const entry = join(import.meta.dirname, '..', '..', folder, 'src', 'main.ts')
      this.#processes.set(name, await startProcess(entry, { env }))
    }
    for (const consumer of Object.values(this.consumers)) consumer.open()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const consumer of Object.values(this.consumers)) consumer[Symbol.dispose]()
    for (const name of names.toReversed()) await this.#processes.get(name)?.stop()
    rmSync(this.#directory, { recursive: true, force: true })
  }
}
