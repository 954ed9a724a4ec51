/**
 * The archive on a disk that loses its power, drawn from a seed: rows are appended, written into blocks and sealed, sealed
 * segments are rewritten, and states of repositories are saved, until the power goes or the program is killed at some call. At times a write fails.
 * Then the archive is opened again from what is left, several times. After each start every row that anybody was shown is
 * there once, in order and as it was, unless it was to go, which is not there again once it has gone. No seq is given out
 * again, and what the saved states do not account for is told.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { type Row, SegmentError } from '@tributary/segment'
import { PowerDisk, PowerFiles, randomFrom, type Random } from '@tributary/testkit/disk'
import { Archive, type RecoveredRows } from '../../src/archive/archive.ts'
import { newRow, numberOf, storedRows } from '../rows.ts'

/** Runs one seed. @throws Error that names it when a promise is broken. */
export async function runPower(seed: number): Promise<void> {
  const base = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'stream-power-'))
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
  #disk: PowerDisk
  #root: string
  #states = 0
  #rowNumber = 0
  /** Numbers of the rows by the seqs that they were given. */
  readonly #numbers = new Map<number, number>()
  /** Seqs of the rows that somebody was shown, oldest first. */
  readonly #shown: number[] = []
  /** What was saved last. A save is durable when it returns. */
  #covered = { appliedSeq: 0, blockSeq: 0 }
  #newestSeq = 0
  #witnessedAt = 0
  /** Seqs of rows that a rewrite was to take out, and of those that one has taken out. */
  readonly #leaving = new Set<number>()
  readonly #gone = new Set<number>()
  /** The disk may fail without losing its power. */
  #isFailing = false

  constructor(random: Random, base: string) {
    this.#random = random
    this.#base = base
    this.#root = join(base, 'first')
    mkdirSync(this.#root)
    this.#disk = new PowerDisk({ root: this.#root, random })
  }

  /** From one start to the end of the power or the program. */
  async round(): Promise<void> {
    const random = this.#random
    this.#disk.cutAfter(random.below(random.pick([20, 100, 300])))
    while (!this.#disk.isOff) {
      const archive = await this.#open()
      if (!archive) break
      const steps = random.below(30)
      for (let step = 0; step < steps && !this.#disk.isOff; step++) await this.#step(archive)
      await archive.close().catch((error: unknown) => this.#onlyOfTheDisk(error))
    }
    this.#disk.closeAll()
    if (random.next() < 0.3) this.#disk.revive()
    else this.#losePower()
  }

  async #open(): Promise<Archive | undefined> {
    const random = this.#random
    let opened: { archive: Archive; recovered: RecoveredRows }
    this.#isFailing = random.next() < 0.25 || this.#disk.failsNext
    if (this.#isFailing && random.next() < 0.2) this.#disk.failNext(random.below(6))
    try {
      opened = await Archive.open({
        directory: join(this.#root, 'deep', 'archive'),
        covered: this.#covered,
        segmentBytesMax: random.pick([1, 500, 2 ** 28]),
        segmentAgeMsMax: 2 ** 40,
        logFileBytesMax: random.pick([1, 2000, 2 ** 24]),
        blockAgeMsMax: random.pick([0, 0, 2 ** 30]),
        disk: { log: this.#disk, segments: new PowerFiles(this.#disk) },
        onFailure: (error) => this.#onlyOfTheDisk(error),
      })
    } catch (error) {
      this.#onlyOfTheDisk(error)
      return undefined
    }
    const { archive, recovered } = opened
    await this.#check(archive, recovered)
    archive.onVisible((rows) => rows.forEach(({ row }) => this.#show(row)))
    return archive
  }

  async #step(archive: Archive): Promise<void> {
    const random = this.#random
    if (this.#isFailing && random.next() < 0.2) this.#disk.failNext(random.below(3))
    const what = random.below(20)
    try {
      if (what < 12) await this.#append(archive)
      else if (what < 14) await archive.whenDurable()
      else if (what < 16) await archive.seal()
      else if (what < 17) this.#save(archive)
      else if (what < 18) await this.#rewrite(archive)
      else if (random.next() < 0.3) await archive.forgetLogged()
      else for (let turns = random.below(6); turns > 0; turns--) await turn()
    } catch (error) {
      this.#onlyOfTheDisk(error)
    }
  }

  async #append(archive: Archive): Promise<void> {
    const random = this.#random
    for (let count = 1 + random.below(random.pick([1, 5, 30])); count > 0; count--) {
      const n = ++this.#rowNumber
      const payloadBytes = random.below(random.pick([1, 40, 600, 3000]))
      const row = newRow({ n, payloadBytes, witnessedAt: archive.witnessedNow() })
      const seq = archive.append(row, { seq: n, epoch: 0 })
      assert.ok(seq > this.#newestSeq, `seq ${seq} may have been given out before`)
      this.#numbers.set(seq, n)
    }
    if (random.next() < 0.5) await archive.whenDurable()
  }

  /** Takes some rows out of a sealed segment. */
  async #rewrite({ segments }: Archive): Promise<void> {
    const random = this.#random
    const segment = random.pick(segments.sealed)
    if (!segment) return
    const every = random.pick([1, 2, 5])
    const leaving = new Set<number>()
    await segments.compact(segment.index, {
      mayHold: () => true,
      isDropped: (block, i) => {
        if (numberOf(block.rowAt(i)) % every > 0) return false
        leaving.add(block.seqAt(i))
        this.#leaving.add(block.seqAt(i))
        return true
      },
    })
    for (const seq of leaving) this.#gone.add(seq)
  }

  /** Saves states that account for all that was shown, or for some of it. */
  #save(archive: Archive): void {
    const seq = this.#random.pick(this.#shown.slice(-10))
    if (seq === undefined || seq < this.#covered.appliedSeq) return
    this.#covered = { appliedSeq: seq, blockSeq: archive.blockSeq }
    archive.stateSaved(this.#covered)
  }

  #show(row: Row): void {
    assert.ok(row.seq > this.#newestSeq, `seq ${row.seq} is shown after ${this.#newestSeq}`)
    this.#newestSeq = row.seq
    assert.equal(numberOf(row), this.#numbers.get(row.seq))
    assert.ok(row.witnessedAt >= this.#witnessedAt, 'witnessed times do not go back')
    this.#witnessedAt = row.witnessedAt
    this.#shown.push(row.seq)
  }

  /** What a start finds, against what was there before. */
  async #check(archive: Archive, { pending, unapplied }: RecoveredRows): Promise<void> {
    // What was pending may go into blocks from now on.
    const { blockSeq } = archive
    const stored = (await storedRows(archive.segments)).filter(({ seq }) => seq <= blockSeq)
    const rows = [...stored, ...pending.map(({ row }) => row)]
    const seqs = rows.map(({ seq }) => seq)
    assert.deepEqual(
      seqs,
      [...new Set(seqs)].toSorted((a, b) => a - b),
      'each row is there once, in order',
    )
    for (const row of rows) assert.equal(numberOf(row), this.#numbers.get(row.seq))
    const found = new Set(seqs)
    for (const seq of this.#shown)
      assert.ok(found.has(seq) || this.#leaving.has(seq), `row ${seq}, which was shown, is lost`)
    for (const seq of this.#gone) assert.ok(!found.has(seq), `row ${seq}, which was taken out, is back`)
    const unaccounted = [...new Set([...seqs, ...this.#leaving])].filter(
      (seq) => seq > this.#covered.appliedSeq,
    )
    assert.deepEqual(
      unapplied.map(({ seq }) => seq),
      unaccounted.toSorted((a, b) => a - b),
    )
    assert.ok(archive.witnessedNow() >= this.#witnessedAt)
    // What was durable and was not shown before the end is shown from now on.
    for (const row of rows) if (row.seq > this.#newestSeq) this.#show(row)
  }

  /** Goes on from a state that the cut may have left. */
  #losePower(): void {
    const root = join(this.#base, `state-${++this.#states}`)
    this.#disk.materialize(root)
    rmSync(this.#root, { recursive: true })
    this.#root = root
    this.#disk = new PowerDisk({ root, random: this.#random })
  }

  #onlyOfTheDisk(error: unknown): void {
    // What is still under way when a failed write has closed the archive ends with that.
    const isLate = error instanceof SegmentError && error.problem === 'closed'
    const isOfDisk = this.#disk.isOff || isLate || isOfFailedWrite(error)
    if (!isOfDisk || error instanceof assert.AssertionError) throw error
  }
}

function isOfFailedWrite(error: unknown): boolean {
  if (error instanceof SuppressedError)
    return isOfFailedWrite(error.error) && isOfFailedWrite(error.suppressed)
  return error instanceof Error && (('code' in error && error.code === 'EIO') || isOfFailedWrite(error.cause))
}
