/** What a relay keeps and a process does not take along when it ends: its disk and its databases. */
import { join } from 'node:path'
import Database from 'better-sqlite3'
import type { PowerDisk, Random } from '@tributary/testkit/disk'
import { SimulatedDisk } from '@tributary/testkit/simulation'
import type { Clock } from '../../src/clock.ts'
import { PolicyStore } from '../../src/policy/policy-store.ts'
import type { RelayLimits } from '../../src/policy/relay-limits.ts'
import { rowWriter } from '../../src/state/row-writer.ts'
import { prepare } from '../../src/state/schema.ts'
import type { StateDatabase } from '../../src/state/state-store.ts'
import type { RelayConditions } from './conditions.ts'

export class Storage implements Disposable {
  readonly policy: PolicyStore
  readonly #random: Random
  readonly #conditions: RelayConditions
  readonly disk: SimulatedDisk
  /** That of the process that began last. */
  #database: Database.Database | undefined
  /** The state database when it was synced and after each write since, the newest last. */
  #written: Buffer[] = []

  /** @param accountQuota how many accounts of a source may be active at first. */
  constructor(random: Random, conditions: RelayConditions, accountQuota = 1000) {
    this.#random = random
    this.#conditions = conditions
    this.disk = new SimulatedDisk({ name: 'relay-simulator', random, waitMs: () => this.#waitMs('disk') })
    this.policy = new PolicyStore(':memory:', { ...limits, accountQuota })
  }

  /** What a process is given that begins. */
  open(clock: Clock): { disk: PowerDisk; directory: string; database: StateDatabase } {
    const { disk, root } = this.disk.open(clock)
    return { disk, directory: join(root, 'log'), database: this.#openDatabase(clock) }
  }

  /** The disk fails whoever calls it. */
  get hasFailed(): boolean {
    return this.disk.hasFailed
  }

  /** Accounts that are stored. */
  get storedDids(): string[] {
    return this.#database?.prepare<[], string>('SELECT did FROM account').pluck().all() ?? []
  }

  /** The disk takes so many more calls. */
  failAfter(calls: number): void {
    this.disk.failAfter(calls)
  }

  /** The next sync after so many fails. */
  failNext(syncs: number): void {
    this.disk.failNext(syncs)
  }

  /** The disk takes nothing more of the process that ends, which hears of what it has under way. */
  end(): void {
    this.disk.end()
  }

  /** Makes the storage ready for the next process. */
  restart(isPowerLost: boolean): void {
    this.disk.restart(isPowerLost)
    if (!isPowerLost) return
    if (this.#written.length > 1) this.#written.length -= this.#random.below(this.#written.length)
  }

  [Symbol.dispose](): void {
    this.disk[Symbol.dispose]()
    this.policy.close()
  }

  #waitMs(part: 'disk' | 'database'): number {
    const manner = this.#conditions.of(part)
    if (manner === 'slow') return this.#conditions.some(50, 600)
    return manner === 'stuck' ? this.#conditions.some(2000, 6000) : this.#conditions.some(0, 3)
  }

  #openDatabase(clock: Clock): StateDatabase {
    const db = new Database(this.#written.at(-1) ?? ':memory:')
    prepare(db)
    this.#database = db
    const nowMs = (): number => clock.nowMs()
    const write = rowWriter(db)
    return {
      db,
      nowMs,
      write: async (rows) =>
        await new Promise((resolve) =>
          clock.after(this.#waitMs('database'), () => {
            const isSynced = write(rows, nowMs())
            const bytes = db.serialize()
            this.#written = isSynced ? [bytes] : [...this.#written, bytes]
            resolve(isSynced)
          }),
        ),
    }
  }
}

const limits: Omit<RelayLimits, 'accountQuota'> = {
  admission: 'approved',
  crawlRequests: 'on',
  newSourcesPerDay: 50,
  sourceEventsPerSecond: 5000,
  sourceEventsPerHour: 0,
  sourceEventsPerDay: 0,
  eventsPerSecond: 1_000_000,
  trustedHosts: [],
  diskFreeMbMin: 0,
}
