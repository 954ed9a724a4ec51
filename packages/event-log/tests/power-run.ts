/**
 * A log on a disk that loses its power, drawn from a seed: it is opened, written, rolled, ended, dropped, copied and
 * closed until the power goes, the program is killed or a write fails at some call, and then opened again from what is
 * left, several times.
 * After each start every acknowledged record must be there, in order and without a hole, and no number that anybody
 * has seen may be given out again.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { PowerDisk, randomFrom, type Random } from '@tributary/testkit/disk'
import { backUpLog, EventLog, verifyLog, type EventLogOptions, type LogSlice } from '../src/index.ts'
import { VirtualClock } from './virtual-clock.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }

interface Entry {
  seq: number
  payload: string
}

interface Copy {
  directory: string
  /** What was durable when the copy was begun, without what was deleted until it was complete. */
  entries: readonly Entry[]
  /** The newest number that had been given out when the copy was complete. */
  newestSeq: number
}

/** Runs one seed. @throws Error that names it when a promise is broken. */
export async function runPower(seed: number): Promise<void> {
  const base = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'event-log-power-'))
  try {
    const run = new PowerRun(randomFrom(seed), base)
    for (let round = 0; round < 4; round++) await run.round()
  } catch (cause) {
    throw new Error(`seed ${seed}: ${(cause as Error).message}`, { cause }) // what asserts is an error
  } finally {
    rmSync(base, { recursive: true })
  }
}

class PowerRun {
  readonly #random: Random
  readonly #base: string
  readonly #clock = new VirtualClock()
  #disk: PowerDisk
  #root: string
  #states = 0
  /** What was appended and may be read back, oldest first. */
  #entries: Entry[] = []
  readonly #payloads = new Map<number, string>()
  /** What readers were shown, as far as it was not looked at. */
  readonly #shown: Entry[] = []
  #shownSeq = 0
  #durableSeq = 0
  #deletedSeq = 0
  #copies: Copy[] = []
  /** A call may fail, or has failed since the log was opened. */
  #isFailing = false

  constructor(random: Random, base: string) {
    this.#random = random
    this.#base = base
    this.#root = join(base, 'first')
    mkdirSync(this.#root)
    this.#disk = this.#diskOf(this.#root)
  }

  /** From one start to the end of the power or the program. */
  async round(): Promise<void> {
    const random = this.#random
    this.#disk.cutAfter(random.below(random.pick([20, 100, 400])))
    const options = this.#options()
    while (!this.#disk.isOff) {
      const log = await this.#open(options)
      if (!log) break
      const steps = random.below(40)
      for (let step = 0; step < steps && !this.#disk.isOff; step++) {
        await this.#step(log)
        this.#checkShown()
      }
      // A log whose disk failed says so, and ends all the same.
      await log.close().catch((error: unknown) => this.#onlyOfTheDisk(error))
      this.#checkShown()
      this.#deletedSeq = Math.max(this.#deletedSeq, log.lastDeletedSeq)
      if (!this.#disk.isOff && !this.#isFailing) this.#noteDurable(log.nextSeq - 1)
    }
    this.#disk.closeAll()
    if (random.next() < 0.3) this.#disk.revive()
    else await this.#losePower()
  }

  async #open(options: EventLogOptions): Promise<EventLog | undefined> {
    let log: EventLog
    this.#isFailing = this.#random.next() < 0.1 || this.#disk.failsNext
    if (this.#isFailing && this.#random.next() < 0.3) this.#disk.failNext()
    try {
      log = await EventLog.open(options)
    } catch (error) {
      this.#onlyOfTheDisk(error)
      return undefined
    }
    await this.#check(log)
    log.onVisible((slices) => this.#shown.push(...slices.flatMap(entriesOf)))
    log.onDurable((seq) => this.#noteDurable(seq))
    return log
  }

  async #step(log: EventLog): Promise<void> {
    const random = this.#random
    if (this.#isFailing && random.next() < 0.1) this.#disk.failNext()
    const what = random.below(20)
    if (what < 12) await this.#append(log)
    else if (what < 15) await this.#flush(log)
    else if (what < 16) {
      this.#clock.pass(random.below(3_600_000))
      await log.applyRetention()
    } else if (what < 18) {
      if (random.next() < 0.3) await log.endFile()
      await log.dropThrough(this.#durableSeq - random.below(random.pick([1, 30])))
    } else if (what < 19) {
      // Of a log that has failed, files may be there that it counts as deleted.
      if (!this.#isFailing) await this.#backUp(log)
    } else for (let turns = random.below(6); turns > 0; turns--) await turn()
  }

  /** Holds what was shown since the last time against what was appended. */
  #checkShown(): void {
    for (const { seq, payload } of this.#shown.splice(0)) {
      assert.ok(seq > this.#shownSeq, `seq ${seq} is shown after ${this.#shownSeq}`)
      this.#shownSeq = seq
      assert.equal(payload, this.#payloads.get(seq))
    }
  }

  async #append(log: EventLog): Promise<void> {
    const random = this.#random
    for (let count = 1 + random.below(random.pick([1, 1, 5, 30])); count > 0; count--) {
      const size = random.below(random.pick([1, 40, 600, 3000]))
      const payload = random.next() < 0.01 ? 'x'.repeat(70_000) : `${random.below(1e6)}`.padEnd(size, '.')
      try {
        const seq = log.append(meta, Buffer.from(payload))
        assert.ok(seq > this.#shownSeq, `seq ${seq} was given out before`)
        this.#entries.push({ seq, payload })
        this.#payloads.set(seq, payload)
      } catch (error) {
        this.#onlyOfTheDisk(error)
        return
      }
    }
    if (random.next() < 0.7) await this.#flush(log)
  }

  async #flush(log: EventLog): Promise<void> {
    const seq = log.nextSeq - 1
    try {
      await log.flush()
      this.#noteDurable(seq)
    } catch (error) {
      this.#onlyOfTheDisk(error)
    }
  }

  async #backUp(log: EventLog): Promise<void> {
    const name = `copy-${++this.#states}`
    const durable = this.#entries.filter(({ seq }) => seq <= log.durableSeq)
    try {
      await backUpLog(join(this.#root, 'deep', 'log'), join(this.#root, 'copies', name), {
        disk: this.#disk,
        clock: this.#clock,
      })
      const entries = durable.filter(({ seq }) => seq > log.lastDeletedSeq)
      this.#copies.push({ directory: join('copies', name), entries, newestSeq: log.nextSeq - 1 })
    } catch (error) {
      // The log goes on meanwhile. A backup whose files its retention deletes fails rather than have a hole.
      const { code, path = '' } = error as NodeJS.ErrnoException // as Node throws it
      const isDeleted = Number.parseInt(basename(path), 10) <= log.lastDeletedSeq
      if (code !== 'ENOENT' || !isDeleted) this.#onlyOfTheDisk(error)
    }
  }

  /** Goes on from a state that the cut may have left. */
  async #losePower(): Promise<void> {
    const root = join(this.#base, `state-${++this.#states}`)
    this.#disk.materialize(root)
    rmSync(this.#root, { recursive: true })
    this.#root = root
    for (const { directory, entries, newestSeq } of this.#copies.splice(0)) {
      const log = await EventLog.open({ directory: join(root, directory), clock: this.#clock })
      const read = await readAll(log)
      const from = Math.max(
        0,
        read.findIndex(({ seq }) => seq === entries[0]?.seq),
      )
      assert.deepEqual(read.slice(from, from + entries.length), entries, 'a copy has what was durable')
      assert.ok(log.nextSeq > newestSeq, 'a copy gives out no number again')
      await log.close()
    }
    rmSync(join(root, 'copies'), { recursive: true, force: true })
    const directory = join(root, 'deep', 'log')
    if (existsSync(directory)) assert.deepEqual((await verifyLog(directory)).damage, [])
    this.#disk = this.#diskOf(root)
  }

  /** What a start finds, against what was there before. */
  async #check(log: EventLog): Promise<void> {
    const read = await readAll(log)
    const from = this.#entries.findIndex(({ seq }) => seq === read[0]?.seq)
    const expected = from < 0 ? [] : this.#entries.slice(from, from + read.length)
    assert.deepEqual(read, expected, 'what is read is what was appended, in order and without a hole')
    const firstSeq = read[0]?.seq ?? Infinity
    const lastSeq = read.at(-1)?.seq ?? 0
    for (const { seq } of this.#entries) {
      if (seq > this.#deletedSeq && seq <= this.#durableSeq)
        assert.ok(seq >= firstSeq && seq <= lastSeq, `acknowledged seq ${seq} is lost`)
    }
    assert.ok(log.nextSeq > this.#shownSeq, `seq ${log.nextSeq} may have been shown before`)
    assert.ok(log.nextSeq > lastSeq)
    assert.deepEqual([log.visibleSeq, log.durableSeq], [Math.max(lastSeq, log.visibleSeq), log.visibleSeq])
    // The removal of a file that is not synced yet may be taken back by the next cut.
    const gone = this.#entries.filter(({ seq }) => seq < firstSeq && seq <= log.lastDeletedSeq)
    this.#entries = [...gone, ...read]
    this.#shownSeq = Math.max(this.#shownSeq, lastSeq)
    this.#durableSeq = lastSeq
    this.#deletedSeq = log.lastDeletedSeq
  }

  #noteDurable(seq: number): void {
    this.#durableSeq = Math.max(this.#durableSeq, seq)
  }

  #onlyOfTheDisk(error: unknown): void {
    if (!(this.#disk.isOff || this.#isFailing) || error instanceof assert.AssertionError) throw error
  }

  #options(): EventLogOptions {
    const random = this.#random
    return {
      directory: join(this.#root, 'deep', 'log'),
      disk: this.#disk,
      clock: this.#clock,
      fileBytesMax: random.pick([300, 2000, 20_000, 200_000]),
      fileAgeMsMax: random.pick([1000, 3_600_000]),
      leaseSize: random.pick([2, 10, 100]),
      tailBytesMax: random.pick([0, 5000]),
      retentionMs: random.pick([3_600_000, 100_000_000]),
      retentionBytes: random.pick([10_000, 1_000_000]),
      visible: random.pick(['durable', 'durable', 'written']),
    }
  }

  #diskOf(root: string): PowerDisk {
    // A quick disk has small commits made at once, with zeros ahead of them.
    const callMs = this.#random.pick([0, 0, 2])
    return new PowerDisk({ root, random: this.#random, onCall: () => this.#clock.pass(callMs) })
  }
}

async function readAll(log: EventLog): Promise<Entry[]> {
  const entries: Entry[] = []
  for await (const slice of log.replay(0)) entries.push(...entriesOf(slice))
  return entries
}

function entriesOf(slice: LogSlice): Entry[] {
  return Array.from({ length: slice.count }, (_, row) => ({
    seq: slice.seqAt(row),
    payload: slice.payloadAt(row).toString(),
  }))
}
