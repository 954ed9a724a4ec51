import type { Random, ScriptedAccount, ScriptedHost } from '@tributary/testkit'
import type { ExactlyOnce } from './exactly-once.ts'

const accountsPerHost = 6
/** Emitted and not yet seen. */
const outstandingMax = 24
const recordChars = 4000
const collection = 'org.impact.collection'

/** Emits really signed commits from some accounts as fast as the consumer sees them, and tells it what to expect. */
export class CheckedEmitter {
  readonly #consumer: ExactlyOnce
  readonly #random: Random
  readonly #hosts: readonly ScriptedHost[]
  readonly #accounts: ScriptedAccount[] = []
  #count = 0

  private constructor(hosts: readonly ScriptedHost[], consumer: ExactlyOnce, random: Random) {
    this.#hosts = hosts
    this.#consumer = consumer
    this.#random = random
  }

  static async create(
    hosts: readonly ScriptedHost[],
    consumer: ExactlyOnce,
    random: Random,
  ): Promise<CheckedEmitter> {
    const emitter = new CheckedEmitter(hosts, consumer, random)
    for (const host of hosts) {
      for (let i = 0; i < accountsPerHost; i++) {
        const account = await host.createAccount({ announce: false })
        emitter.#accounts.push(account)
        emitter.#announce(host, account)
      }
    }
    return emitter
  }

  /** Until `signal` is aborted. @throws what the consumer found. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#consumer.untilOutstanding(outstandingMax, signal)
      this.#emit()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  #emit(): void {
    const n = this.#count++
    const account = this.#random.pick(this.#accounts)
    const host = this.#hosts.find(({ accounts }) => accounts.has(account.did))
    if (n % 50 === 49 && host) return this.#announce(host, account)
    if (n % 50 === 24 && host) return this.#leaveAndReturn(host, account)
    // Ten of them pass in a minute.
    if (n % 200 === 99 && host) return this.#emitPlain(host, '#identity', { did: account.did })
    const record = { title: `${n} ${'.'.repeat(this.#random.below(recordChars))}` }
    // Few records, changed again and again, keep the repository small.
    const rkey = `r${this.#random.below(20)}`
    const isThere = account.records().some(([path]) => path === `${collection}/${rkey}`)
    const action = isThere ? 'update' : 'create'
    const { rev } = account.emitWrites([{ action, collection, rkey, record }])
    this.#consumer.expect(account.did, `commit ${rev}`)
  }

  /** An `#account` event: unlike a commit it has no revision by which a relay could know it again. */
  #announce(host: ScriptedHost, { did }: ScriptedAccount): void {
    this.#emitPlain(host, '#account', { did, active: true })
  }

  /** What a host says of an account that is away for a moment: its `#sync` counts because it was. */
  #leaveAndReturn(host: ScriptedHost, account: ScriptedAccount): void {
    const { did, rev } = account
    this.#emitPlain(host, '#account', { did, active: false, status: 'deactivated' })
    this.#announce(host, account)
    if (rev === undefined) return
    account.announceSync()
    this.#consumer.expect(did, `#sync ${rev}`)
  }

  #emitPlain(
    host: ScriptedHost,
    type: '#account' | '#identity',
    body: { did: string; active?: boolean; status?: string },
  ): void {
    const time = new Date(Date.UTC(2026, 0, 1) + this.#count++).toISOString()
    host.emit(type, { ...body, time })
    this.#consumer.expect(body.did, `${type} ${time}`)
  }
}
