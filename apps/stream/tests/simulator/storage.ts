/** What a stream keeps and a process does not take along when it ends: its disk and its state database. */
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { PowerFiles, type PowerDisk, type Random } from '@tributary/testkit/disk'
import { SimulatedDisk, type ProcessClock } from '@tributary/testkit/simulation'
import { type CommitAndSync, openStateDatabase, type StateDatabase } from '../../src/state-database.ts'
import type { StreamConditions } from './conditions.ts'

/** What a process is given that begins. */
export interface OpenStorage {
  directory: string
  log: PowerDisk
  segments: PowerFiles
  database: StateDatabase
  commit: CommitAndSync
  /** What was committed outlasts a power cut. */
  sync: () => void
}

export class Storage implements Disposable {
  readonly #random: Random
  readonly #conditions: StreamConditions
  readonly disk: SimulatedDisk
  /** Where the archive of the newest process is. Nothing before the first. */
  directory = ''
  /** The database after its last commit that was synced, and after each one since. */
  #written: Buffer[]

  constructor(random: Random, conditions: StreamConditions) {
    this.#random = random
    this.#conditions = conditions
    this.disk = new SimulatedDisk({ name: 'stream-simulator', random, waitMs: () => this.#waitMs('disk') })
    const empty = openStateDatabase(':memory:')
    this.#written = [empty.serialize()]
    empty.close()
  }

  open(clock: ProcessClock): OpenStorage {
    const database = new Database(this.#written.at(-1))
    const commit: CommitAndSync = async (_, change) => {
      if (clock.isOver) return await new Promise(() => {})
      database.transaction(change)()
      const bytes = database.serialize()
      this.#written.push(bytes)
      await new Promise<void>((resolve) => clock.after(this.#waitMs('database'), resolve))
      // All before it is synced, too. What was committed later may have been synced before.
      this.#written = this.#written.slice(Math.max(0, this.#written.indexOf(bytes)))
    }
    const { disk, root } = this.disk.open(clock)
    const sync = (): void => {
      if (!clock.isOver) this.#written = [database.serialize()]
    }
    const directory = join(root, 'archive')
    this.directory = directory
    return { directory, log: disk, segments: new PowerFiles(disk), database, commit, sync }
  }

  /** The disk fails whoever calls it. */
  get hasFailed(): boolean {
    return this.disk.hasFailed
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
    this.#written = isPowerLost ? [this.#random.pick(this.#written)] : this.#written.slice(-1)
  }

  [Symbol.dispose](): void {
    this.disk[Symbol.dispose]()
  }

  #waitMs(part: 'disk' | 'database'): number {
    const manner = this.#conditions.of(part)
    if (manner === 'slow') return this.#conditions.some(50, 600)
    return manner === 'stuck' ? this.#conditions.some(2000, 6000) : this.#conditions.some(0, 3)
  }
}
