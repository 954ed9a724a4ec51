/** What a relay keeps and a process does not take along when it ends: its disk and its databases. */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { PowerDisk, type Random } from '@tributary/testkit/disk'
import type { Clock } from '../../src/clock.ts'
import { PolicyStore } from '../../src/policy/policy-store.ts'
import type { RelayLimits } from '../../src/policy/relay-limits.ts'
import { rowWriter } from '../../src/state/row-writer.ts'
import { prepare } from '../../src/state/schema.ts'
import type { StateDatabase } from '../../src/state/state-store.ts'
import type { Conditions } from './conditions.ts'

/**
 * Writes of the state that a power cut may take back: they are not synced one by one. The kernel writes by itself what
 * is as old as this, and no log is kept for less.
 */
const unsynced = { max: 3, ms: 30_000 }

export class Storage implements Disposable {
  readonly policy: PolicyStore
  readonly #base: string
  readonly #random: Random
  readonly #conditions: Conditions
  #root: string
  #states = 0
  #disk: PowerDisk
  /** The state database after each of its last writes, the newest last. */
  #written: { atMs: number; bytes: Buffer }[] = []
  /** Answers of the disk that are on their way. */
  readonly #answers = new Set<() => void>()
  #later: (ms: number, call: () => void) => void = () => {}
  #nowMs: () => number = () => 0

  constructor(random: Random, conditions: Conditions) {
    this.#random = random
    this.#conditions = conditions
    this.#base = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'relay-simulator-'))
    this.#root = join(this.#base, 'first')
    mkdirSync(this.#root)
    this.#disk = this.#diskOf(this.#root)
    this.policy = new PolicyStore(':memory:', limits)
  }

  /** What a process is given that begins. */
  open(clock: Clock): { disk: PowerDisk; directory: string; database: StateDatabase } {
    this.#later = (ms, call) => clock.after(ms, call)
    this.#nowMs = () => clock.nowMs()
    return { disk: this.#disk, directory: join(this.#root, 'log'), database: this.#openDatabase(clock) }
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
  async restart(isPowerLost: boolean): Promise<void> {
    if (!isPowerLost) return this.#disk.revive()
    this.#disk.closeAll()
    const root = join(this.#base, `state${++this.#states}`)
    this.#disk.materialize(root)
    rmSync(this.#root, { recursive: true })
    this.#root = root
    this.#disk = this.#diskOf(root)
    const young = this.#written.slice(1).filter(({ atMs }) => this.#nowMs() - atMs < unsynced.ms).length
    this.#written.length -= this.#random.below(young + 1)
  }

  [Symbol.dispose](): void {
    this.#disk.closeAll()
    this.policy.close()
    rmSync(this.#base, { recursive: true })
  }

  #diskOf(root: string): PowerDisk {
    const later = (answer: () => void): void => {
      this.#answers.add(answer)
      this.#later(this.#waitMs('disk'), () => {
        if (this.#answers.delete(answer)) answer()
      })
    }
    return new PowerDisk({ root, random: this.#random, later })
  }

  #waitMs(part: 'disk' | 'database'): number {
    const manner = this.#conditions.of(part)
    if (manner === 'slow') return this.#conditions.some(50, 600)
    return manner === 'stuck' ? this.#conditions.some(2000, 6000) : this.#conditions.some(0, 3)
  }

  #openDatabase(clock: Clock): StateDatabase {
    const db = new Database(this.#written.at(-1)?.bytes ?? ':memory:')
    prepare(db)
    const nowMs = (): number => clock.nowMs()
    const write = rowWriter(db)
    return {
      db,
      nowMs,
      write: async (rows) =>
        await new Promise((resolve) =>
          clock.after(this.#waitMs('database'), () => {
            write(rows, nowMs())
            this.#written.push({ atMs: nowMs(), bytes: db.serialize() })
            this.#written = this.#written.slice(-unsynced.max)
            resolve()
          }),
        ),
    }
  }
}

const limits: RelayLimits = {
  admission: 'approved',
  crawlRequests: 'on',
  accountQuota: 1000,
  newSourcesPerDay: 50,
  sourceEventsPerSecond: 5000,
  sourceEventsPerHour: 0,
  sourceEventsPerDay: 0,
  eventsPerSecond: 1_000_000,
  trustedHosts: [],
  diskFreeMbMin: 0,
}
