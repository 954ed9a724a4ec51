/** Damage of the archive: that it is found, what a repair keeps, and that the stream starts on what is left. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { repairSegment, verifySegments } from '@tributary/segment/node'
import { eventually } from '@tributary/testkit'
import { Archive } from '../src/archive/archive.ts'
import { repairArchive, verifyArchive } from '../src/archive/archive-tools.ts'
import { isRepairOpen, lostSeqsOf } from '../src/archive/lost-rows.ts'
import { RepoStates, unknownRepo } from '../src/ingest/repo-states.ts'
import { openStateDatabase } from '../src/state-database.ts'
import { EventReader } from './event-reader.ts'
import { flipBit } from './flip-bit.ts'
import { newRow, numberOf } from './rows.ts'
import { startTestStream } from './start-test-stream.ts'

const dids = ['did:plc:a', 'did:plc:b', 'did:plc:c'] as const
const sealedName = 'seg_0000000000.jss'
const activeName = 'seg_0000000001.jss'

function openArchive(directory: string): Promise<Awaited<ReturnType<typeof Archive.open>>> {
  const database = openStateDatabase(join(directory, 'state.sqlite'))
  const { covered } = new RepoStates(database)
  database.close()
  return Archive.open({
    directory,
    covered,
    segmentBytesMax: 1 << 28,
    segmentAgeMsMax: 2 ** 50,
    blockAgeMsMax: 1,
    onFailure: (error) => {
      throw error
    },
  })
}

interface Filled extends AsyncDisposable {
  path: string
  /** Where the frames of the blocks begin, of the sealed segment and of the active one. */
  frames: { sealed: number[]; active: number[] }
  file(name: string): string
  damage(): Promise<string[]>
  repair(): Promise<{ lost: [number, number][]; marked: number }>
  /** The rows that a start finds. */
  rows(): Promise<number[]>
}

/**
 * Three blocks sealed, with rows 1 to 6, and three that are not, with rows 7 to 12. Each block has one account.
 * @param blockSeq rows after this one, 6 or 12, are in the log alone.
 * @param droppedSeq rows up to this one have left the log.
 */
async function fill(blockSeq = 12, droppedSeq = 0): Promise<Filled> {
  const scratch = await mkdtempDisposable(join(tmpdir(), 'archive-repair-'))
  const { path } = scratch
  const { archive } = await openArchive(path)
  for (let n = 1; n <= 12; n += 2) {
    const did = dids[((n - 1) / 2) % 3] ?? assert.fail()
    for (const each of [n, n + 1]) archive.append(newRow({ n: each, did }), { seq: each, epoch: 0 })
    await eventually(() => archive.blockSeq === n + 1)
    if (n === 5) await archive.seal()
    if (n + 1 === droppedSeq) {
      archive.stateSaved({ appliedSeq: droppedSeq, blockSeq: droppedSeq })
      await archive.forgetLogged()
    }
  }
  const [sealed] = archive.segments.sealed
  const framesOf = (blocks: readonly { offset: number }[]) => blocks.map(({ offset }) => offset + 8)
  const frames = { sealed: framesOf(sealed?.blocks ?? []), active: framesOf(archive.segments.activeBlocks) }
  assert.deepEqual([frames.sealed.length, frames.active.length], [3, 3])
  await archive.close()
  const database = openStateDatabase(join(path, 'state.sqlite'))
  const states = new RepoStates(database)
  for (const did of dids) states.set(did, { ...unknownRepo, rev: 'r' })
  const position = { relayUrl: 'ws://relay', epoch: 0, epochBeganMs: 0, cursor: 12 }
  await states.save(position, { appliedSeq: 12, blockSeq }, Promise.resolve())
  database.close()
  if (blockSeq < 12) truncateSync(join(path, 'segments', activeName), frames.active[0] ?? 0)
  return {
    path,
    frames,
    file: (name) => join(path, 'segments', name),
    async damage() {
      const found: string[] = []
      const log = await verifyArchive(path, ({ damage }) => found.push(...damage))
      return [...found, ...log.damage.map(({ what }) => what)]
    },
    async repair() {
      const lost: [number, number][] = []
      let marked = 0
      await repairArchive(path, {
        onSegment: (_, repair) =>
          lost.push(...repair.lost.map((each) => [each.afterSeq, each.beforeSeq] as [number, number])), // a pair
        onLog: () => assert.fail('the log is whole'),
        onMarked: (accounts) => (marked = accounts),
      })
      return { lost, marked }
    },
    async rows() {
      const { archive, recovered } = await openArchive(path)
      const numbers: number[] = []
      for (let seq = 0; ;) {
        const place = archive.segments.firstBlockAfter(seq)
        if (!place) break
        numbers.push(...(await archive.segments.readBlock(place)).rows().map(numberOf))
        seq = place.entry.maxSeq
      }
      await archive.close()
      // Rows that only the log had may be in blocks by now.
      return [...new Set([...numbers, ...recovered.pending.map(({ row }) => numberOf(row))])]
    },
    [Symbol.asyncDispose]: () => scratch.remove(),
  }
}

/** Whether each account is marked. */
function marksIn(directory: string): (boolean | undefined)[] {
  const database = openStateDatabase(join(directory, 'state.sqlite'))
  const states = new RepoStates(database)
  const marks = dids.map((did) => states.get(did)?.needsRefetch)
  database.close()
  return marks
}

const all = Array.from({ length: 12 }, (_, i) => i + 1)

test('an archive without damage is said to be whole, and a repair leaves it as it is', async () => {
  await using filled = await fill()
  assert.deepEqual(await filled.damage(), [])
  assert.deepEqual(await filled.repair(), { lost: [], marked: 0 })
  assert.equal(existsSync(`${filled.file(sealedName)}.damaged`), false)
  assert.deepEqual(await filled.rows(), all)
})

test('of a damaged block in a sealed segment the rows are lost, the others stay in place, and its account is marked', async () => {
  await using filled = await fill()
  const before = readFileSync(filled.file(sealedName))
  flipBit(filled.file(sealedName), (filled.frames.sealed[1] ?? 0) + 20)
  const [what = '', ...more] = await filled.damage()
  assert.match(what, /^block 1, seq 3 to 4: /)
  assert.deepEqual(more, [])
  assert.deepEqual(await filled.repair(), { lost: [[2, 5]], marked: 1 })
  assert.deepEqual(await filled.damage(), [])
  assert.notDeepEqual(readFileSync(`${filled.file(sealedName)}.damaged`), before)
  const { archive } = await openArchive(filled.path)
  const blocks = archive.segments.sealed[0]?.blocks ?? []
  await archive.close()
  assert.deepEqual(
    blocks.map(({ eventCount, minSeq, maxSeq }) => [eventCount, minSeq, maxSeq]),
    [
      [2, 1, 2],
      [0, 3, 4],
      [2, 5, 6],
    ],
  )
  assert.deepEqual(
    await filled.rows(),
    all.filter((n) => n < 3 || n > 4),
  )
  assert.deepEqual(marksIn(filled.path), [false, true, false])
})

test('a sealed segment with a damaged footer keeps every row', async () => {
  await using filled = await fill()
  flipBit(filled.file(sealedName), 60)
  await assert.rejects(filled.rows(), /seg_0000000000\.jss: .*tributary stream archive repair/)
  assert.equal((await filled.damage()).length, 1)
  const { marked } = await filled.repair()
  assert.equal(marked, 3, 'where the segment ended is not known')
  assert.deepEqual(await filled.damage(), [])
  assert.deepEqual(await filled.rows(), all)
})

test('a wrong length before a block costs nothing, though a start would take what follows for a torn tail', async () => {
  await using filled = await fill()
  // The highest byte, so that it claims more than there is.
  flipBit(filled.file(activeName), (filled.frames.active[1] ?? 0) - 1)
  rmSync(join(filled.path, 'log'), { recursive: true })
  await assert.rejects(filled.rows(), /seg_0000000001\.jss: .*tributary stream archive repair/)
  assert.equal((await filled.damage()).length, 1)
  assert.deepEqual(await filled.repair(), { lost: [], marked: 0 })
  assert.deepEqual(await filled.damage(), [])
  assert.deepEqual(await filled.rows(), all)
})

test('a damaged block that is not sealed comes back from the log, and without the log only its rows are lost', async () => {
  for (const hasLog of [true, false]) {
    await using filled = await fill()
    flipBit(filled.file(activeName), (filled.frames.active[1] ?? 0) + 20)
    if (!hasLog) rmSync(join(filled.path, 'log'), { recursive: true })
    assert.ok((await filled.damage()).length > 0)
    assert.deepEqual(await filled.repair(), hasLog ? { lost: [], marked: 0 } : { lost: [[8, 11]], marked: 3 })
    const left = await filled.rows()
    assert.deepEqual(left, hasLog ? all : all.filter((n) => n < 9 || n > 10))
    assert.deepEqual(await filled.damage(), [])
  }
})

test('a log that begins with the segment that is not sealed brings back its first block, and all of it', async () => {
  for (const damaged of [[0], [0, 1, 2]]) {
    await using filled = await fill(12, 6)
    for (const i of damaged) flipBit(filled.file(activeName), (filled.frames.active[i] ?? 0) + 20)
    assert.deepEqual(await filled.repair(), { lost: [], marked: 0 })
    assert.deepEqual(await filled.rows(), all)
    assert.deepEqual(await filled.damage(), [])
  }
})

test('of a segment that others follow nothing is cut, though it is not sealed and the log has its rows', async () => {
  await using filled = await fill()
  const path = filled.file(sealedName)
  const bytes = readFileSync(path)
  bytes.fill(0, 'jss0'.length, 256)
  writeFileSync(path, bytes)
  flipBit(path, (filled.frames.sealed[1] ?? 0) + 20)
  const { lost, marked } = await filled.repair()
  assert.deepEqual([lost[0], marked], [[2, 5], 3])
  assert.deepEqual(
    await filled.rows(),
    all.filter((n) => n < 3 || n > 4),
  )
})

test('blocks that are gone from the end come back from the log', async () => {
  await using filled = await fill()
  truncateSync(filled.file(activeName), filled.frames.active[2] ?? 0)
  await assert.rejects(filled.rows(), /tributary stream archive repair/)
  assert.deepEqual(await filled.repair(), { lost: [], marked: 0 })
  assert.deepEqual(await filled.rows(), all)
})

test('when blocks and log are gone the loss is told, and no seq is given out again', async () => {
  await using filled = await fill()
  truncateSync(filled.file(activeName), filled.frames.active[2] ?? 0)
  rmSync(join(filled.path, 'log'), { recursive: true })
  assert.deepEqual(await filled.repair(), { lost: [[10, Infinity]], marked: 3 })
  await assert.rejects(filled.rows(), { name: 'ArchiveMismatchError' })
})

test('when the newest segment is gone, or all are, the loss is told and all accounts are marked', async () => {
  for (const { gone, damage, lastSeq } of [
    {
      gone: [activeName],
      damage: 'the blocks end at seq 6, and rows up to seq 12 were in blocks before',
      lastSeq: 6,
    },
    { gone: [sealedName, activeName], damage: 'it is not there', lastSeq: 0 },
  ]) {
    await using filled = await fill(12, 8)
    for (const name of gone) rmSync(filled.file(name))
    await assert.rejects(filled.rows(), /tributary stream archive repair/)
    assert.deepEqual(await filled.damage(), [damage])
    assert.deepEqual(await filled.repair(), { lost: [[lastSeq, Infinity]], marked: 3 })
    assert.deepEqual(await filled.damage(), [])
    assert.deepEqual(
      await filled.rows(),
      all.filter((n) => n <= lastSeq || n > 8),
    )
  }
})

test('a repair needs the directory for itself', async () => {
  await using filled = await fill()
  const database = openStateDatabase(join(filled.path, 'state.sqlite'))
  await assert.rejects(filled.repair(), { name: 'DirectoryInUseError' })
  assert.deepEqual(await filled.damage(), [], 'looking is possible')
  database.close()
})

test('a repair that is stopped when a segment was mended marks its accounts all the same', async () => {
  await using filled = await fill()
  flipBit(filled.file(sealedName), (filled.frames.sealed[1] ?? 0) + 20)
  const stopped = repairArchive(filled.path, {
    onSegment: () => {
      throw new Error('stopped')
    },
    onLog: () => {},
    onMarked: () => {},
  })
  await assert.rejects(stopped, /stopped/)
  await filled.repair()
  assert.deepEqual(await filled.damage(), [])
  assert.deepEqual(marksIn(filled.path), [false, true, false])
})

test('what a repair loses is told before the file is replaced that tells of it', async () => {
  await using filled = await fill()
  flipBit(filled.file(sealedName), (filled.frames.sealed[1] ?? 0) + 20)
  const directory = join(filled.path, 'segments')
  const { value: report } = await verifySegments(directory).next()
  const known = { isLast: false, afterSeq: 0, logSeq: Infinity, lastSeqMin: 12 }
  const told: unknown[] = []
  await repairSegment(directory, report ?? assert.fail(), known, (lost) => {
    told.push(lost.length, existsSync(`${filled.file(sealedName)}.damaged`))
  })
  assert.deepEqual(told, [1, false])
})

test('a segment that is not there stops the start, and after a repair all accounts are marked', async () => {
  await using filled = await fill()
  rmSync(filled.file(sealedName))
  await assert.rejects(filled.rows(), /seg_0000000000\.jss is not there.*tributary stream archive repair/)
  assert.deepEqual(await filled.damage(), ['it is not there'])
  assert.deepEqual(await filled.repair(), { lost: [[0, 7]], marked: 3 })
  assert.deepEqual(await filled.damage(), [])
  assert.deepEqual(
    await filled.rows(),
    all.filter((n) => n > 6),
  )
  const { archive } = await openArchive(filled.path)
  const [{ header } = assert.fail()] = archive.segments.sealed
  await archive.close()
  assert.deepEqual([header.eventCount, header.minSeq, header.maxSeq], [0, 1, 6])
})

test('rows that only a damaged log had have their accounts marked, and the stream starts', async () => {
  for (const { blockSeq, lost } of [
    { blockSeq: 6, lost: 9 },
    { blockSeq: 6, lost: 12 },
    { blockSeq: 12, lost: 9 },
  ]) {
    await using filled = await fill(blockSeq)
    const [log] = readdirSync(join(filled.path, 'log')).filter((name) => name.endsWith('.tlog'))
    const path = join(filled.path, 'log', log ?? assert.fail())
    flipBit(path, readFileSync(path).lastIndexOf(`k${lost}`))
    await assert.rejects(filled.rows(), /tributary stream archive repair/)
    let mended = 0
    await repairArchive(filled.path, { onSegment: () => {}, onLog: () => mended++, onMarked: () => {} })
    assert.equal(mended, 1)
    assert.deepEqual(await filled.damage(), [])
    const isLost = lost > blockSeq
    assert.deepEqual(
      await filled.rows(),
      all.filter((n) => !isLost || n !== lost),
    )
    assert.deepEqual(
      marksIn(filled.path),
      dids.map(() => isLost),
    )
  }
})

test('a reader that has seen rows which a repair lost is told which are gone, and that its cursor is of the future otherwise', async () => {
  // The log has lost them too, or had let go of them.
  for (const droppedSeq of [0, 12]) {
    await using filled = await fill(12, droppedSeq)
    rmSync(filled.file(activeName))
    const log = join(filled.path, 'log')
    for (const name of readdirSync(log))
      if (droppedSeq === 0 && name.endsWith('.tlog')) rmSync(join(log, name))
    await repairArchive(filled.path, { onSegment: () => {}, onLog: () => {}, onMarked: () => {} })
    await using stream = await startTestStream({
      dataDirectory: filled.path,
      relayUrl: 'ws://127.0.0.1:1',
    })
    const toldAt = async (cursor: number): Promise<unknown[]> => {
      using reader = await EventReader.open(stream.url, { cursor })
      await reader.until(() => reader.messages.length > 0)
      const [{ name, firstSeq, lastSeq, seq } = assert.fail()] = reader.messages
      return [name ?? seq, firstSeq, lastSeq]
    }
    assert.deepEqual(await toldAt(6), [6, undefined, undefined])
    assert.deepEqual(await toldAt(10), ['UnreadableEvents', 10, 12])
    assert.deepEqual(await toldAt(12), ['UnreadableEvents', 12, 12])
    assert.equal((await toldAt(13))[0], 'FutureCursor')
  }
})

test('readers that pass a block which a repair lost are told, and what hidden accounts have in others leaves the archive', async () => {
  await using filled = await fill()
  const hide = openStateDatabase(join(filled.path, 'state.sqlite'))
  // Its row that says so may have been in the block.
  hide.prepare('UPDATE repos SET is_hidden = 1 WHERE did = ?').run(dids[1])
  hide.close()
  flipBit(filled.file(sealedName), (filled.frames.sealed[1] ?? 0) + 20)
  assert.deepEqual(await filled.repair(), { lost: [[2, 5]], marked: 1 })
  const database = openStateDatabase(join(filled.path, 'state.sqlite'))
  assert.deepEqual(lostSeqsOf(database), [{ afterSeq: 2, throughSeq: 4 }])
  const takenDown = database.prepare('SELECT did FROM pending_takedowns').pluck().all()
  assert.deepEqual(takenDown, [dids[1]])
  database.close()
  await using stream = await startTestStream({ dataDirectory: filled.path, relayUrl: 'ws://127.0.0.1:1' })
  for (const [cursor, told] of [
    [1, [1, 2, '3 to 4', 5]],
    [4, ['4 to 4', 5]],
    [5, [5]],
  ] as const) {
    using reader = await EventReader.open(stream.url, { cursor })
    await reader.until(() => reader.messages.length >= told.length)
    const got = reader.messages.map(
      (each) => each['seq'] ?? `${String(each['firstSeq'])} to ${String(each['lastSeq'])}`,
    )
    assert.deepEqual(got.slice(0, told.length), told)
  }
})

test('rows at the end of a damaged log count as lost also before the states account for them', async () => {
  await using filled = await fill(6)
  const [log] = readdirSync(join(filled.path, 'log')).filter((name) => name.endsWith('.tlog'))
  const path = join(filled.path, 'log', log ?? assert.fail())
  for (const n of [11, 12]) flipBit(path, readFileSync(path).lastIndexOf(`k${n}`))
  const database = openStateDatabase(join(filled.path, 'state.sqlite'))
  database.prepare('UPDATE upstream SET applied_seq = 6').run()
  database.close()
  const repair = async (onLog: () => void): Promise<void> =>
    await repairArchive(filled.path, { onSegment: () => {}, onLog, onMarked: () => {} })
  // When it was stopped after it mended the log, the next one finds no damage, and tells of the loss all the same.
  const stop = new Error('stopped')
  await assert.rejects(
    repair(() => {
      throw stop
    }),
    stop,
  )
  const settings = { dataDirectory: filled.path, relayUrl: 'ws://127.0.0.1:1' }
  await assert.rejects(startTestStream(settings), { name: 'RepairOpenError' })
  await repair(() => assert.fail())
  const repaired = openStateDatabase(join(filled.path, 'state.sqlite'))
  assert.deepEqual(
    [lostSeqsOf(repaired), isRepairOpen(repaired)],
    [[{ afterSeq: 10, throughSeq: 12 }], false],
  )
  repaired.close()
  assert.deepEqual(marksIn(filled.path), [false, false, false], 'their events come again')
})
