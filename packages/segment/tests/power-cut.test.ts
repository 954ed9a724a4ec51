/** Single states that a power cut leaves. Random ones: `apps/stream/tests/power`. */
import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { PowerDisk, PowerFiles, randomFrom } from '@tributary/testkit/disk'
import { ActiveSegment } from '../src/active-segment.ts'
import { SegmentDirectory } from '../src/segment-directory.ts'
import { segmentName } from '../src/segment-name.ts'
import { makeRows } from './rows.ts'
import { scratchDirectory } from './scratch.ts'

/** A directory on a disk that loses its power, and where its state after that goes. */
async function diskIn(path: string) {
  const [root, left] = [join(path, 'root'), join(path, 'left')]
  await mkdir(root)
  const power = new PowerDisk({ root, random: randomFrom(1) })
  return { power, disk: new PowerFiles(power), root, left }
}

test('a block that was appended is there after a power cut', async () => {
  await using scratch = await scratchDirectory()
  const { power, disk, root, left } = await diskIn(scratch.path)
  const name = segmentName(0)
  const segment = await ActiveSegment.create(join(root, name), disk)
  await segment.appendBlock(makeRows(1, 3))
  power.materialize(left, 0)
  const after = await ActiveSegment.recover(join(left, name))
  assert.equal(after.lastSeq, 3)
  for (const each of [segment, after]) await each.close()
})

test('a power cut at any call of a rotation leaves a directory that opens, with every row', async () => {
  for (let calls = 0; calls < 6; calls++) {
    await using scratch = await scratchDirectory()
    const { power, disk, root, left } = await diskIn(scratch.path)
    const killed = await SegmentDirectory.open({ directory: root, disk })
    await killed.append(makeRows(1, 3))
    power.cutAfter(calls)
    await assert.rejects(killed.rotate(), { name: 'PowerCutError' })
    for (let state = 0; state < 20; state++) {
      power.materialize(`${left}${state}`, 0.5)
      await using after = await SegmentDirectory.open({ directory: `${left}${state}`, lastSeqMin: 3 })
      assert.equal(after.lastSeq, 3)
    }
    await killed.close()
  }
})

test('a block that was written before a kill is there after the next start and a power cut', async () => {
  await using scratch = await scratchDirectory()
  const { power, disk, root, left } = await diskIn(scratch.path)
  const name = segmentName(0)
  const killed = await ActiveSegment.create(join(root, name), disk)
  const callsOfWrite = 1
  power.cutAfter(callsOfWrite)
  await assert.rejects(killed.appendBlock(makeRows(1, 3)), { name: 'PowerCutError' })
  power.revive()
  const found = await ActiveSegment.recover(join(root, name), { disk })
  assert.equal(found.lastSeq, 3)
  power.materialize(left, 0)
  const after = await ActiveSegment.recover(join(left, name))
  assert.equal(after.lastSeq, 3)
  for (const segment of [found, after]) await segment.close()
})

test('a segment that was sealed right before a kill is sealed after the next start and a power cut', async () => {
  await using scratch = await scratchDirectory()
  const { power, disk, root, left } = await diskIn(scratch.path)
  const killed = await SegmentDirectory.open({ directory: root, disk })
  await killed.append(makeRows(1, 3))
  const callsOfSeal = 3 // Footer, sync, header. The sync of the header does not come.
  power.cutAfter(callsOfSeal)
  await assert.rejects(killed.rotate(), { name: 'PowerCutError' })
  power.revive()
  const found = await SegmentDirectory.open({ directory: root, disk })
  assert.equal(found.sealed.length, 1)
  power.materialize(left, 0)
  const after = await SegmentDirectory.open({ directory: left })
  assert.deepEqual([after.sealed.length, after.lastSeq], [1, 3])
  for (const directory of [found, after]) await directory.close()
})

test('a block that a failed sync has left in memory alone is written again by the next start', async () => {
  for (const known of [{ lastSeqMin: 3 }, {}]) {
    await using scratch = await scratchDirectory()
    const { power, disk, root, left } = await diskIn(scratch.path)
    const name = segmentName(0)
    const failed = await ActiveSegment.create(join(root, name), disk)
    await failed.appendBlock(makeRows(1, 3))
    power.failNext()
    await assert.rejects(failed.appendBlock(makeRows(4, 6)), { code: 'EIO' })
    await failed.close()
    const found = await ActiveSegment.recover(join(root, name), { disk, ...known })
    assert.equal(found.lastSeq, 6)
    await found.appendBlock(makeRows(7, 9))
    power.materialize(left, 0)
    const after = await ActiveSegment.recover(join(left, name), { lastSeqMin: 9 })
    assert.equal(after.lastSeq, 9)
    for (const segment of [found, after]) await segment.close()
  }
})

test('a header that a failed sync has left in memory alone is written again before the next segment', async () => {
  await using scratch = await scratchDirectory()
  const { power, disk, root, left } = await diskIn(scratch.path)
  const failed = await ActiveSegment.create(join(root, segmentName(0)), disk)
  await failed.appendBlock(makeRows(1, 3))
  const syncsBefore = 1 // That of the footer.
  power.failNext(syncsBefore)
  await assert.rejects(failed.seal(), { code: 'EIO' })
  await failed.close()
  const found = await SegmentDirectory.open({ directory: root, disk })
  assert.equal(found.sealed.length, 1)
  power.materialize(left, 0)
  const after = await SegmentDirectory.open({ directory: left })
  assert.deepEqual([after.sealed.length, after.lastSeq], [1, 3])
  for (const directory of [found, after]) await directory.close()
})

test('rows that have left a sealed segment are gone after a power cut, and the others are there', async () => {
  await using scratch = await scratchDirectory()
  const { disk, power, root, left } = await diskIn(scratch.path)
  await using segments = await SegmentDirectory.open({ directory: root, disk })
  await segments.append(makeRows(1, 3))
  await segments.rotate()
  await segments.compact(0, { mayHold: () => true, isDropped: (block, i) => block.seqAt(i) === 2 })
  power.materialize(left, 0)
  await using after = await SegmentDirectory.open({ directory: left, lastSeqMin: 3 })
  const block = await after.readBlock({ segmentIndex: 0, blockIndex: 0 })
  assert.deepEqual(
    block.rows().map(({ seq }) => seq),
    [1, 3],
  )
})
