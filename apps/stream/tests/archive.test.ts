import assert from 'node:assert/strict'
import {
  closeSync,
  cpSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Row } from '@tributary/segment'
import { eventually, inTime } from '@tributary/testkit'
import {
  Archive,
  ArchiveMismatchError,
  type ArchiveOptions,
  type VisibleRow,
} from '../src/archive/archive.ts'
import { newRow, numberOf, storedRows } from './rows.ts'

interface OpenArchive extends AsyncDisposable {
  archive: Archive
  /** What was shown, recovered rows included. */
  visible: Row[]
  append(from: number, to: number): Promise<void>
  close(): Promise<void>
}

async function openArchive(directory: string, options: Partial<ArchiveOptions> = {}): Promise<OpenArchive> {
  const { archive, recovered } = await Archive.open({
    directory,
    covered: { appliedSeq: 0, blockSeq: 0 },
    segmentBytesMax: 1 << 28,
    segmentAgeMsMax: 2 ** 40,
    onFailure: (error) => {
      throw error
    },
    ...options,
  })
  const visible = recovered.pending.map(({ row }) => row)
  archive.onVisible((rows: readonly VisibleRow[]) => visible.push(...rows.map(({ row }) => row)))
  const append = async (from: number, to: number): Promise<void> => {
    for (let n = from; n <= to; n++) archive.append(newRow({ n }), { seq: n, epoch: 0 })
    await archive.whenDurable()
  }
  let closing: Promise<void> | undefined
  const close = (): Promise<void> => (closing ??= archive.close())
  return { archive, visible, append, close, [Symbol.asyncDispose]: close }
}

/** Every row there is: those in blocks, then those that only the log has. */
async function allRows({ archive, visible }: OpenArchive): Promise<Row[]> {
  const rows = await storedRows(archive.segments)
  return [...rows, ...visible.filter(({ seq }) => seq > archive.blockSeq)]
}

function plain(row: Row): unknown {
  return { ...row, payload: Buffer.from(row.payload).toString('hex') }
}

function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i)
}

function assertAscending(rows: readonly Row[]): void {
  for (const [i, row] of rows.entries()) assert.ok(row.seq > (rows[i - 1]?.seq ?? 0), 'seqs ascend')
}

/** What a power cut at this moment leaves, opened again. */
async function reopenCopy(
  directory: string,
  name: string,
  damage?: (copy: string) => void,
): Promise<OpenArchive> {
  const copy = `${directory}-${name}`
  cpSync(directory, copy, { recursive: true })
  damage?.(copy)
  return openArchive(copy)
}

function newest(folder: string, suffix: string): string {
  const name = readdirSync(folder)
    .filter((file) => file.endsWith(suffix))
    .toSorted()
    .at(-1)
  assert.ok(name)
  return join(folder, name)
}

test('rows are shown in order once they are durable, and keep their content in blocks', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  await using open = await openArchive(join(directory.path, 'data'))
  await open.append(1, 50)
  assert.deepEqual(open.visible.map(numberOf), numbers(1, 50))
  assert.deepEqual(
    open.visible.map(({ seq }) => seq),
    numbers(1, 50),
  )
  const sealed = await open.archive.seal()
  assert.equal(sealed?.header.eventCount, 50)
  assert.deepEqual((await allRows(open)).map(plain), open.visible.map(plain))
  assert.equal(await open.archive.seal(), undefined, 'there is nothing more to seal')
})

test('a block is written when it is full, and when its first row is old enough', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  await using open = await openArchive(join(directory.path, 'data'), { blockAgeMsMax: 1 })
  const written = Promise.withResolvers<number>()
  open.archive.onBlockWritten(written.resolve)
  await open.append(1, 3)
  assert.equal(await inTime(written.promise), 3)
  const full = Promise.withResolvers<number>()
  open.archive.onBlockWritten((seq) => seq >= 4099 && full.resolve(seq))
  await open.append(4, 5000)
  await inTime(full.promise)
  const second = open.archive.segments.activeBlocks[1]
  assert.ok((second?.eventCount ?? 0) <= 4096)
})

test('a clean stop leaves every row in blocks and continues without a gap', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  const data = join(directory.path, 'data')
  await using first = await openArchive(data)
  await first.append(1, 10)
  await first.close()
  await using second = await openArchive(data)
  assert.equal(second.archive.blockSeq, 10)
  assert.deepEqual(second.visible, [])
  await second.append(11, 12)
  const rows = await allRows(second)
  assert.deepEqual(rows.map(numberOf), numbers(1, 12))
  assert.deepEqual(
    rows.map(({ seq }) => seq),
    numbers(1, 12),
  )
})

test('a stop at any point keeps every row that was shown, each once and in order, and no seq comes twice', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  const data = join(directory.path, 'data')
  await using open = await openArchive(data)
  await open.append(1, 20)
  await open.archive.seal()
  await open.append(21, 30)

  /** Opens what is left, checks it, and goes on writing. */
  const check = async (reopened: OpenArchive, lastNumber: number): Promise<void> => {
    const before = await allRows(reopened)
    assert.deepEqual(before.map(numberOf), numbers(1, lastNumber))
    await reopened.append(lastNumber + 1, 60)
    const after = await allRows(reopened)
    assert.deepEqual(after.map(numberOf), numbers(1, 60))
    assertAscending(after)
    const reused = after.filter(
      ({ seq }, i) => i >= lastNumber && open.visible.some((row) => row.seq === seq),
    )
    assert.deepEqual(reused, [])
    await reopened.archive.seal()
    assert.deepEqual((await allRows(reopened)).map(numberOf), numbers(1, 60))
    await reopened.close()
  }

  // Durable in the log, in no block.
  await check(await reopenCopy(data, 'in-log'), 30)

  // Appended, never written.
  for (let n = 31; n <= 35; n++) open.archive.append(newRow({ n }), { seq: n, epoch: 0 })
  await check(await reopenCopy(data, 'not-durable'), 30)
  await open.archive.whenDurable()

  // In the middle of the log's last write.
  const logBytes = readFileSync(newest(join(data, 'log'), '.tlog')).findLastIndex((byte) => byte !== 0) + 1
  for (const cut of [1, 40, 200]) {
    const copy = await reopenCopy(data, `torn-log-${cut}`, (at) =>
      truncateSync(newest(join(at, 'log'), '.tlog'), logBytes - cut),
    )
    await check(copy, 30)
  }

  await open.archive.seal()
  await open.append(36, 40)
  const [, second = '', third = ''] = readdirSync(join(data, 'segments')).toSorted()

  // Sealed, and the next segment has begun. The log has every row still.
  await check(await reopenCopy(data, 'sealed'), 40)

  // Sealed, and the next segment has not begun.
  await check(await reopenCopy(data, 'no-next', (at) => rmSync(join(at, 'segments', third))), 40)

  // In the middle of writing the block, or the footer: the header still says that the segment is active.
  const sealedBytes = statSync(join(data, 'segments', second)).size
  for (const bytes of [256, 261, 300, sealedBytes - 150, sealedBytes - 1]) {
    const copy = await reopenCopy(data, `torn-segment-${bytes}`, (at) => {
      rmSync(join(at, 'segments', third))
      const path = join(at, 'segments', second)
      truncateSync(path, bytes)
      const file = openSync(path, 'r+')
      writeSync(file, Buffer.alloc(252), 0, 252, 4)
      closeSync(file)
    })
    await check(copy, 40)
  }
})

test('rows that the saved states do not account for are told at the start, also those in blocks', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  const data = join(directory.path, 'data')
  await using open = await openArchive(data)
  await open.append(1, 10)
  await open.archive.seal()
  open.archive.stateSaved({ appliedSeq: 4, blockSeq: 10 })
  await open.append(11, 12)
  cpSync(data, `${data}-copy`, { recursive: true })
  await open.close()
  const { archive, recovered } = await Archive.open({
    directory: `${data}-copy`,
    covered: { appliedSeq: 4, blockSeq: 10 },
    segmentBytesMax: 1 << 28,
    segmentAgeMsMax: 2 ** 40,
    onFailure: () => undefined,
  })
  await using _closing = { [Symbol.asyncDispose]: () => archive.close() }
  assert.deepEqual(
    recovered.unapplied.map(({ seq }) => seq),
    numbers(5, 12),
  )
  assert.deepEqual(
    recovered.pending.map(({ row }) => row.seq),
    [11, 12],
  )
})

test('states that know of rows which the archive does not have are refused', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  await assert.rejects(
    openArchive(join(directory.path, 'data'), { covered: { appliedSeq: 1, blockSeq: 0 } }),
    ArchiveMismatchError,
  )
})

/** Rows of so many bytes each. */
async function appendLarge({ archive }: OpenArchive, from: number, to: number, bytes: number): Promise<void> {
  for (let n = from; n <= to; n++) archive.append(newRow({ n, payloadBytes: bytes }), { seq: n, epoch: 0 })
  await archive.whenDurable()
}

test('files of the log stay until the saved states account for their rows, though all are in blocks', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  const data = join(directory.path, 'data')
  await using open = await openArchive(data)
  await appendLarge(open, 1, 40, 950_000)
  await open.archive.seal()
  const unappliedOf = async (name: string, appliedSeq: number): Promise<number[]> => {
    cpSync(data, `${data}-${name}`, { recursive: true })
    const { archive, recovered } = await Archive.open({
      directory: `${data}-${name}`,
      covered: { appliedSeq, blockSeq: 40 },
      segmentBytesMax: 1 << 28,
      segmentAgeMsMax: 2 ** 40,
      onFailure: () => undefined,
    })
    await archive.close()
    return recovered.unapplied.map(({ seq }) => seq)
  }
  assert.deepEqual(await unappliedOf('none', 0), numbers(1, 40))
  open.archive.stateSaved({ appliedSeq: 10, blockSeq: 40 })
  assert.deepEqual(await unappliedOf('some', 10), numbers(11, 40))
})

test('files of the log stay until their rows are in blocks, though the saved states account for all', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  const data = join(directory.path, 'data')
  await using open = await openArchive(data)
  // The first file of the log ends with a row that waits for a block to be full.
  await appendLarge(open, 1, 18, 950_000)
  await eventually(() => open.archive.blockSeq === 16)
  assert.equal(readdirSync(join(data, 'log')).filter((name) => name.endsWith('.tlog')).length, 2)
  open.archive.stateSaved({ appliedSeq: 18, blockSeq: 16 })
  await using reopened = await reopenCopy(data, 'killed')
  assert.deepEqual((await allRows(reopened)).map(numberOf), numbers(1, 18))
})

test('files of the log stay while a backup is made, and go after it', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  const data = join(directory.path, 'data')
  await using open = await openArchive(data)
  await appendLarge(open, 1, 18, 950_000)
  await open.archive.seal()
  const files = (): number => readdirSync(join(data, 'log')).filter((name) => name.endsWith('.tlog')).length
  await open.archive.keepingLog(async () => {
    open.archive.stateSaved({ appliedSeq: 18, blockSeq: 18 })
    assert.equal(files(), 2)
    await open.archive.forgetLogged()
    assert.equal(files(), 2)
  })
  // Without another save, which may be long in coming.
  await eventually(() => files() === 0)
})

test('rows that were to leave the log leave it after a kill, though no row follows', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  const data = join(directory.path, 'data')
  await using open = await openArchive(data)
  await appendLarge(open, 1, 4, 1000)
  await open.archive.seal()
  // The saved states do not say yet that the rows are in blocks.
  await open.archive.forgetLogged()
  await using reopened = await reopenCopy(data, 'killed')
  reopened.archive.stateSaved({ appliedSeq: 4, blockSeq: 4 })
  const names = (): string[] => readdirSync(join(`${data}-killed`, 'log'))
  await eventually(() => !names().some((name) => name.endsWith('.tlog')), names)
})

test('the time at which rows are seen never goes back, whatever the clock does, over a kill and a stop too', async (t) => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  const data = join(directory.path, 'data')
  let nowMs = 2_000_000
  t.mock.method(Date, 'now', () => nowMs)
  await using open = await openArchive(data)
  const witnessedAt = open.archive.witnessedNow()
  assert.equal(witnessedAt, nowMs * 1000)
  nowMs = 1_000_000
  assert.equal(open.archive.witnessedNow(), witnessedAt)
  open.archive.append(newRow({ n: 1, witnessedAt }), { seq: 1, epoch: 0 })
  await open.archive.whenDurable()
  const killed = await reopenCopy(data, 'killed')
  assert.equal(killed.archive.witnessedNow(), witnessedAt)
  await killed.close()
  await using stopped = await openArchive(`${data}-killed`)
  assert.equal(stopped.archive.witnessedNow(), witnessedAt)
  await stopped.archive.seal()
  await stopped.close()
  await using sealed = await openArchive(`${data}-killed`)
  assert.equal(sealed.archive.witnessedNow(), witnessedAt)
})

test('a row that only the log has is told as not accounted for only when the saved states do not account for it', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  const data = join(directory.path, 'data')
  await using open = await openArchive(data)
  await open.append(1, 6)
  cpSync(data, `${data}-killed`, { recursive: true })
  const { archive, recovered } = await Archive.open({
    directory: `${data}-killed`,
    covered: { appliedSeq: 4, blockSeq: 0 },
    segmentBytesMax: 1 << 28,
    segmentAgeMsMax: 2 ** 40,
    onFailure: () => undefined,
  })
  await using _closing = { [Symbol.asyncDispose]: () => archive.close() }
  assert.deepEqual(
    recovered.unapplied.map(({ seq }) => seq),
    [5, 6],
  )
  assert.equal(recovered.pending.length, 6)
})

test('what is sealed holds every row that was appended before, and a log that is lost gives out no seq again', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  const data = join(directory.path, 'data')
  {
    await using open = await openArchive(data)
    for (let n = 1; n <= 20; n++) open.archive.append(newRow({ n }), { seq: n, epoch: 0 })
    assert.equal((await open.archive.seal())?.header.eventCount, 20)
  }
  rmSync(join(data, 'log'), { recursive: true })
  await using again = await openArchive(data)
  await again.append(21, 22)
  const rows = await allRows(again)
  assert.deepEqual(rows.map(numberOf), numbers(1, 22))
  assertAscending(rows)
})

test('a disk that fails while a segment is sealed for somebody ends the stream', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'archive-'))
  const data = join(directory.path, 'data')
  const failures: Error[] = []
  await using open = await openArchive(data, { onFailure: (error) => failures.push(error) })
  await open.append(1, 3)
  // There is no file that the next segment could be written to.
  mkdirSync(join(data, 'segments', 'seg_0000000001.jss'))
  await assert.rejects(open.archive.seal())
  assert.equal(failures.length, 1)
})
