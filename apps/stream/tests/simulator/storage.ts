/** What a stream keeps and a process does not take along when it ends: its disk and its state database. */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { PowerDisk, PowerFiles, type Random } from '@tributary/testkit/disk'
import type { ProcessClock } from '@tributary/testkit/simulation'
import { type CommitAndSync, openStateDatabase, type StateDatabase } from '../../src/state-database.ts'
import type { Conditions } from './conditions.ts'

/** What a process is given that begins. */
export interface OpenStorage {
  directory: string
  log: PowerDisk
  segments: PowerFiles
  database: StateDatabase
  commit: CommitAndSync
}

export class Storage implements Disposable {
  readonly #base: string
  readonly #random: Random
  readonly #conditions: Conditions
  #root: string
  #states = 0
  #disk: PowerDisk
  /** The database after its last commit that was synced, and after each one since. */
  #written: Buffer[]
  /** Answers of the disk that are on their way. */
  readonly #answers = new Set<() => void>()
  #clock: ProcessClock | undefined

  constructor(random: Random, conditions: Conditions) {
    this.#random = random
    this.#conditions = conditions
    this.#base = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'stream-simulator-'))
    this.#root = join(this.#base, 'first')
    mkdirSync(this.#root)
    this.#disk = this.#diskOf(this.#root)
    const empty = openStateDatabase(':memory:')
    this.#written = [empty.serialize()]
    empty.close()
  }

  open(clock: ProcessClock): OpenStorage {
    this.#clock = clock
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
    const directory = join(this.#root, 'archive')
    return { directory, log: this.#disk, segments: new PowerFiles(this.#disk), database, commit }
  }

  /** The disk fails whoever calls it. */
  get hasFailed(): boolean {
    return this.#disk.isOff
  }

  /** The disk takes so many more calls. */
  failAfter(calls: number): void {
    this.#disk.cutAfter(calls)
  }

  /** The disk takes nothing more of the process that ends, which hears of what it has under way. */
  end(): void {
    this.#disk.cut()
    const answers = [...this.#answers]
    this.#answers.clear()
    for (const answer of answers) answer()
  }

  /** Makes the storage ready for the next process. */
  restart(isPowerLost: boolean): void {
    if (!isPowerLost) {
      this.#disk.revive()
      this.#written = this.#written.slice(-1)
      return
    }
    this.#disk.closeAll()
    const root = join(this.#base, `state${++this.#states}`)
    this.#disk.materialize(root)
    rmSync(this.#root, { recursive: true })
    this.#root = root
    this.#disk = this.#diskOf(root)
    this.#written = [this.#random.pick(this.#written)]
  }

  [Symbol.dispose](): void {
    this.#disk.closeAll()
    rmSync(this.#base, { recursive: true })
  }

  #diskOf(root: string): PowerDisk {
    const disk: PowerDisk = new PowerDisk({
      root,
      random: this.#random,
      later: (answer) => {
        if (disk.isOff) return void setImmediate(answer)
        this.#answers.add(answer)
        this.#clock?.after(this.#waitMs('disk'), () => {
          if (this.#answers.delete(answer)) answer()
        })
      },
    })
    return disk
  }

  #waitMs(part: 'disk' | 'database'): number {
    const manner = this.#conditions.of(part)
    if (manner === 'slow') return this.#conditions.some(50, 600)
    return manner === 'stuck' ? this.#conditions.some(2000, 6000) : this.#conditions.some(0, 3)
  }
}
