/** Takedowns that the disk keeps from being done: they stay pending until it has been mended. */
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { mkdir, mkdtempDisposable, open as openFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Clock } from '@tributary/lanes'
import type { SegmentDisk } from '@tributary/segment/node'
import { createLogger } from '@tributary/telemetry'
import { eventually } from '@tributary/testkit'
import { Archive } from '../src/archive/archive.ts'
import { repairArchive } from '../src/archive/archive-tools.ts'
import { Compaction } from '../src/compaction/compaction.ts'
import { CompactionStore } from '../src/compaction/compaction-store.ts'
import { RepoStates, unknownRepo } from '../src/ingest/repo-states.ts'
import { openStateDatabase } from '../src/state-database.ts'
import { flipBit } from './flip-bit.ts'
import { newRow, numberOf } from './rows.ts'

const [stays, down] = ['did:plc:stays', 'did:plc:down']
const sealedName = 'seg_0000000000.jss'
const hourMs = 3_600_000

/** An hour passes at once. */
class TestClock implements Clock {
  #aheadMs = 0
  waits = 0

  nowMs(): number {
    return Date.now() + this.#aheadMs
  }

  after(ms: number, call: () => void): Disposable {
    this.waits++
    return setTimeout(call, Math.min(ms, 5)).unref()
  }

  advance(ms: number): void {
    this.#aheadMs += ms
  }
}

/** An archive that is compacted, with one sealed segment: a block of an account that stays, and one of another that is taken down. */
async function open(
  directory: string,
  {
    segmentDisk,
    everyMs = 0,
    alsoDown = 0,
    areHidden = false,
  }: {
    segmentDisk?: SegmentDisk
    everyMs?: number
    /** Accounts that are taken down besides, of which there is nothing. */
    alsoDown?: number
    /** Whether these are not active again. */
    areHidden?: boolean
  } = {},
) {
  const parts = new AsyncDisposableStack()
  const database = openStateDatabase(join(directory, 'state.sqlite'))
  parts.defer(() => void database.close())
  const states = new RepoStates(database)
  const { archive } = await Archive.open({
    directory,
    covered: states.covered,
    segmentBytesMax: 1 << 28,
    segmentAgeMsMax: 2 ** 50,
    blockAgeMsMax: 1,
    onFailure: assert.fail,
    ...(segmentDisk && { disk: { log: fs, segments: segmentDisk } }),
  })
  parts.defer(() => archive.close())
  if (archive.segments.sealed.length === 0) {
    for (const [i, did] of [stays, down].entries()) {
      archive.append(newRow({ n: i + 1, did }), { seq: i + 1, epoch: 0 })
      await eventually(() => archive.blockSeq === i + 1)
    }
    await archive.seal()
    states.set(down, { ...unknownRepo, rev: 'r2', isHidden: true })
    for (let i = 0; i < (areHidden ? alsoDown : 0); i++)
      states.set(`did:plc:${i}`, { ...unknownRepo, isHidden: true })
    const position = { relayUrl: 'ws://relay', epoch: 0, epochBeganMs: 0, cursor: 2 }
    await states.save(position, { appliedSeq: 2, blockSeq: 2 }, Promise.resolve())
    const note = database.prepare('INSERT INTO pending_takedowns (did, at_ms) VALUES (?, 1)')
    database.transaction(() => {
      note.run(down)
      for (let i = 0; i < alsoDown; i++) note.run(`did:plc:${i}`)
    })()
  }
  const clock = new TestClock()
  const store = new CompactionStore(database)
  const compaction = new Compaction({
    archive,
    store,
    states,
    everyMs,
    bytesPerSecond: 1e9,
    logger: createLogger('stream', { level: 'silent' }),
    onDropped: () => {},
    onFailure: assert.fail,
    clock,
  })
  parts.defer(() => compaction.close())
  const [sealed = assert.fail()] = archive.segments.sealed
  return {
    clock,
    store,
    compaction,
    archive,
    sealed,
    path: join(directory, 'segments', sealedName),
    /** Notes takedowns, stored at once. */
    takeDown: (dids: readonly string[]): void => {
      const saves: Parameters<RepoStates['alongside']>[] = []
      for (const did of dids) store.noteTakedown({ alongside: (...save) => void saves.push(save) }, did)
      database.transaction(() => saves.forEach(([change]) => change()))()
      for (const [, onSaved] of saves) onSaved?.()
    },
    /** The numbers of the rows that the sealed segment has. */
    rows: async (): Promise<number[]> => {
      const [segment = assert.fail()] = archive.segments.sealed
      const blocks = await Promise.all(segment.blocks.map((_, i) => segment.readBlock(i)))
      return blocks.flatMap((block) => block.rows().map(numberOf))
    },
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  }
}

test('a takedown whose segment is damaged stays pending, and is done once that was repaired', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'takedown-faults-'))
  {
    await using opened = await open(directory.path)
    const { compaction, archive, path, sealed } = opened
    flipBit(path, (sealed.blocks[0]?.offset ?? 0) + 8 + 20)
    compaction.start()
    compaction.compact()
    await eventually(() => compaction.report.endedAtMs > 0)
    assert.equal(compaction.report.pendingTakedowns, 1)
    assert.deepEqual(await compaction.pendingSegments(), [sealedName])
    assert.equal(await compaction.isPending(sealed), true)
    // A later segment, which is whole, has none of it.
    archive.append(newRow({ n: 3, did: stays }), { seq: 3, epoch: 0 })
    await archive.seal()
    assert.deepEqual(await compaction.pendingSegments(), [sealedName])
  }
  await repairArchive(directory.path, {
    onSegment: () => {},
    onLog: () => assert.fail('the log is whole'),
    onMarked: () => {},
  })
  await using again = await open(directory.path)
  assert.deepEqual(await again.rows(), [2])
  again.compaction.start()
  await eventually(() => again.compaction.report.pendingTakedowns === 0)
  assert.deepEqual(await again.rows(), [])
})

test('a takedown of a segment whose filters are damaged is done all the same', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'takedown-faults-'))
  await using opened = await open(directory.path)
  const { compaction, path, sealed } = opened
  const { didFilterOffset, blockDidFiltersOffset } = sealed.header
  for (const at of [didFilterOffset, blockDidFiltersOffset]) flipBit(path, at)
  assert.equal(await compaction.isPending(sealed), true)
  assert.deepEqual(await compaction.pendingSegments(), [sealedName])
  compaction.start()
  await eventually(() => compaction.report.pendingTakedowns === 0)
  assert.deepEqual(await opened.rows(), [1])
})

test('what a damaged segment holds that is superseded is looked for again by the next pass', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'takedown-faults-'))
  await using opened = await open(directory.path)
  const { compaction, archive, path, sealed } = opened
  const at = (sealed.blocks[0]?.offset ?? 0) + 8 + 20
  flipBit(path, at)
  archive.append(newRow({ n: 3, kind: 3, did: down }), { seq: 3, epoch: 0 })
  const { draft } = newRow({ n: 4, kind: 3, did: stays })
  archive.append({ draft: { ...draft, rkey: 'k1' } }, { seq: 4, epoch: 0 })
  compaction.start()
  const pass = async (): Promise<void> => {
    const before = compaction.report.endedAtMs
    compaction.compact()
    await eventually(() => compaction.report.endedAtMs > before)
  }
  await pass()
  assert.deepEqual([compaction.report.compactedSeq, compaction.report.rowsDropped], [0, 0])
  // As a read that fails for once.
  flipBit(path, at)
  await pass()
  assert.deepEqual([compaction.report.compactedSeq, await opened.rows()], [4, []])
})

test('a takedown whose segment could not be read is tried again after an hour, and not before', async (t) => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'takedown-faults-'))
  await using opened = await open(directory.path)
  const { clock, compaction, store, path, sealed } = opened
  const at = (sealed.blocks[0]?.offset ?? 0) + 8 + 20
  flipBit(path, at)
  compaction.start()
  await eventually(() => store.takedowns().some(({ againAtMs }) => againAtMs > 0))
  flipBit(path, at)
  // There may be very many that wait.
  const looked = t.mock.method(store, 'before')
  const before = clock.waits
  await eventually(() => clock.waits >= before + 10)
  assert.ok(looked.mock.callCount() <= 1)
  assert.deepEqual([compaction.report.pendingTakedowns, await opened.rows()], [1, [1, 2]])
  clock.advance(hourMs)
  await eventually(() => compaction.report.pendingTakedowns === 0)
  assert.deepEqual(await opened.rows(), [1])
})

test('a takedown for which the disk has no room is tried again when there is some, and does not end the stream', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'takedown-faults-'))
  let [isFull, refused] = [false, 0]
  const disk: SegmentDisk = {
    rename,
    rm,
    mkdir,
    open: async (path, flags) => {
      const file = await openFile(path, flags)
      if (!path.endsWith('.jss.tmp') || !isFull) return file
      const write = async (): Promise<never> => {
        refused++
        throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
      }
      return Object.assign(file, { write })
    },
  }
  await using opened = await open(directory.path, { segmentDisk: disk })
  const { archive, clock, compaction, store } = opened
  archive.append(newRow({ n: 3, did: down }), { seq: 3, epoch: 0 })
  await archive.seal()
  isFull = true
  compaction.start()
  await eventually(() => store.takedowns().some(({ againAtMs }) => againAtMs > 0))
  assert.equal(refused, 1, 'the second segment would take what room is left')
  assert.equal(compaction.report.pendingTakedowns, 1)
  assert.deepEqual(await compaction.pendingSegments(), [sealedName, 'seg_0000000001.jss'])
  isFull = false
  clock.advance(600_000)
  await eventually(() => compaction.report.pendingTakedowns === 0)
  assert.deepEqual([await opened.rows(), compaction.report.rowsDropped], [[1], 2])
})

test('more takedowns than a function takes arguments are done in one pass', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'takedown-faults-'))
  await using opened = await open(directory.path, { alsoDown: 150_000 })
  const { compaction, rows } = opened
  assert.deepEqual(await rows(), [1, 2])
  compaction.start()
  await eventually(() => compaction.report.pendingTakedowns === 0)
  assert.deepEqual(await rows(), [1])
})

test('many takedowns that a damaged segment holds up have no segment sealed whenever another one comes', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'takedown-faults-'))
  await using opened = await open(directory.path, { alsoDown: 1001, areHidden: true })
  const { compaction, archive, clock, store, path, sealed, takeDown } = opened
  // Which accounts it may hold is not known either.
  for (const at of [(sealed.blocks[0]?.offset ?? 0) + 8 + 20, sealed.header.didFilterOffset])
    flipBit(path, at)
  compaction.start()
  await eventually(() => store.takedowns().every(({ againAtMs }) => againAtMs > 0))
  archive.append(newRow({ n: 3, did: stays }), { seq: 3, epoch: 0 })
  await eventually(() => archive.blockSeq === 3)
  const late = 'did:plc:late'
  takeDown([late])
  clock.advance(600_000)
  await eventually(() => !store.takedowns().some(({ did }) => did === late))
  assert.equal(archive.segments.sealed.length, 1)
})

test('a thousand takedowns again and again leave one segment in ten minutes', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'takedown-faults-'))
  await using opened = await open(directory.path)
  const { compaction, archive, clock, store, takeDown } = opened
  compaction.start()
  const dids = Array.from({ length: 1001 }, (_, i) => `did:plc:${i}`)
  const sealedAfter = async (n: number, ms: number): Promise<number> => {
    archive.append(newRow({ n, did: stays }), { seq: n, epoch: 0 })
    await eventually(() => archive.blockSeq === n)
    takeDown(dids)
    clock.advance(ms)
    await eventually(() => !store.takedowns().some(() => true))
    return archive.segments.sealed.length
  }
  await eventually(() => compaction.report.pendingTakedowns === 0)
  const counts: number[] = []
  for (const [n, ms] of [
    [3, 11_000],
    [4, 11_000],
    [5, 600_000],
  ] as const)
    counts.push(await sealedAfter(n, ms))
  assert.deepEqual(counts, [2, 2, 3])
})

test('passes go on after the clock was set back', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'takedown-faults-'))
  await using opened = await open(directory.path, { everyMs: hourMs })
  const { compaction, clock } = opened
  compaction.start()
  clock.advance(hourMs)
  await eventually(() => compaction.report.endedAtMs > 0)
  const { endedAtMs } = compaction.report
  clock.advance(-240 * hourMs)
  const looks = clock.waits + 20
  await eventually(() => clock.waits >= looks)
  assert.ok(compaction.report.endedAtMs < endedAtMs)
})
