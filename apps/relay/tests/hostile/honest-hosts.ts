/**
 * Three hosts that do what PDSs do, at a modest pace. What they send is in the journals, with the moment at which it
 * was sent.
 */
import {
  freePort,
  sampleRecord,
  ScriptedHost,
  type EventBody,
  type Random,
  type ScriptedAccount,
  type ScriptedHostOptions,
} from '@tributary/testkit'

export interface HonestOptions {
  /** Where its accounts are registered. */
  registryUrl: string
  addresses: readonly string[]
  accountsPerHost: number
  random: Random
  /** An account was created. */
  onAccount: (did: string) => void
  /** An event is about to be sent; `body` has no seq yet. */
  onSend: OnSend
}

export type OnSend = (event: { type: string; did: string; body: EventBody; sentAtMs: number }) => void

const collection = 'org.impact.collection'
const recordKeys = 20
const retainedEvents = 20_000
const tickMs = 10
/** An account comes back this seldom: a stream reads the repository of one that is back, twelve times a day at most. */
const returnEveryMs = 600_000

/** A scripted host that tells what it sends. Each of its events has a time of its own. */
class JournalingHost extends ScriptedHost {
  readonly #onSend: OnSend
  #lastMs = 0

  constructor(options: ScriptedHostOptions & { port: number }, onSend: OnSend) {
    super(options)
    this.#onSend = onSend
  }

  override emit(type: string, body: EventBody): number {
    this.#lastMs = Math.max(Date.now(), this.#lastMs + 1)
    const dated = { time: new Date(this.#lastMs).toISOString(), ...body }
    this.#onSend({ type, did: String(body['repo'] ?? body['did']), body: dated, sentAtMs: performance.now() })
    return super.emit(type, dated)
  }
}

export class HonestHosts implements AsyncDisposable {
  readonly hosts: readonly ScriptedHost[]
  readonly accounts: ScriptedAccount[] = []
  readonly #random: Random
  #timer: NodeJS.Timeout | undefined
  #count = 0
  #sendsChanges = true
  /** When accounts came back last, in milliseconds of `performance.now`. */
  readonly #returnedAtMs = new Map<ScriptedAccount, number>()

  private constructor(hosts: readonly ScriptedHost[], random: Random) {
    this.hosts = hosts
    this.#random = random
  }

  static async start(options: HonestOptions): Promise<HonestHosts> {
    const { registryUrl: plcUrl, addresses, accountsPerHost, random, onAccount, onSend } = options
    const hosts: ScriptedHost[] = []
    for (const address of addresses) {
      const host = new JournalingHost({ plcUrl, address, retainedEvents, port: await freePort() }, onSend)
      await host.start()
      hosts.push(host)
    }
    const honest = new HonestHosts(hosts, random)
    for (const host of hosts) {
      for (let i = 0; i < accountsPerHost; i++) {
        const account = await host.createAccount({ announce: false })
        honest.accounts.push(account)
        onAccount(account.did)
      }
    }
    return honest
  }

  /** Every account speaks for the first time. */
  announceAll(): void {
    for (const account of this.accounts) {
      account.setStatus(undefined)
      this.#write(account)
    }
  }

  /**
   * Sends no `#identity` and no `#account` with a new status from now on: each counts by a document that is read after it
   * came, which a directory that is away does not give (A1). All accounts write, so that their documents are known, to a
   * service that was just started too.
   */
  endChanges(): void {
    this.#sendsChanges = false
    for (const account of this.accounts) this.#write(account)
  }

  beginChanges(): void {
    this.#sendsChanges = true
  }

  /** Sends `perSecond` events a second, evenly, until `pause`. */
  play(perSecond: number): void {
    const startMs = performance.now()
    let sent = 0
    this.#timer = setInterval(() => {
      const due = Math.floor(((performance.now() - startMs) / 1000) * perSecond)
      // A pause of this process is not made up for all at once.
      if (due - sent > perSecond / 2) sent = due - 1
      for (; sent < due; sent++) this.#sendOne()
    }, tickMs)
  }

  pause(): void {
    clearInterval(this.#timer)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.pause()
    await Promise.all(this.hosts.map((host) => host.stop()))
  }

  #sendOne(): void {
    const account = this.#random.pick(this.accounts)
    const chance = this.#random.next()
    if (chance < 0.03) account.setStatus(undefined)
    else if (chance < 0.05 && this.#sendsChanges) account.announceIdentity()
    else if (chance < 0.07 && this.#sendsChanges && this.#mayReturn(account)) this.#leaveAndReturn(account)
    else this.#write(account)
  }

  #mayReturn(account: ScriptedAccount): boolean {
    const nowMs = performance.now()
    if (nowMs - (this.#returnedAtMs.get(account) ?? -Infinity) < returnEveryMs) return false
    this.#returnedAtMs.set(account, nowMs)
    return true
  }

  /** A `#sync` of a revision that was seen counts once, because the account was away. */
  #leaveAndReturn(account: ScriptedAccount): void {
    this.#write(account)
    account.setStatus('deactivated')
    account.setStatus(undefined)
    account.announceSync()
  }

  #write(account: ScriptedAccount): void {
    const rkey = `r${this.#random.below(recordKeys)}`
    const isThere = account.records().some(([path]) => path === `${collection}/${rkey}`)
    const record = sampleRecord(collection, {
      title: `${this.#count++} ${'.'.repeat(this.#random.below(200))}`,
    })
    if (isThere && this.#random.next() < 0.2) account.delete(collection, rkey)
    else if (isThere) account.update(collection, rkey, record)
    else account.create(collection, record, rkey)
  }
}
