import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newRow } from '../../tests/rows.ts'
import { LiveRun } from './live-run.ts'
import { MemoryTail } from './memory-tail.ts'

const everything = (): boolean => true

/** Rows that became visible together. */
function runOf(from: number, to: number): LiveRun {
  return new LiveRun(
    Array.from({ length: to - from + 1 }, (_, i) => ({
      row: { ...newRow({ n: from + i }).draft, seq: from + i },
    })),
  )
}

/** The seqs of messages, each after a head of four bytes. */
function seqsOf(frames: readonly Uint8Array[]): number[] {
  return [
    ...Buffer.concat(frames)
      .toString('latin1')
      .matchAll(/"seq":(\d+)/g),
  ].map(([, seq]) => Number(seq))
}

/** Everything after a position, read in small pieces. Undefined when the tail does not reach back. */
function readAll(tail: MemoryTail, afterSeq: number): number[] | undefined {
  const seqs: number[] = []
  for (let at = afterSeq; at < tail.headSeq;) {
    const found = tail.read(at, everything, 300)
    if (!found) return undefined
    assert.ok(found.lastSeq > at, `a reader at ${at} is not held up`)
    seqs.push(...seqsOf(found.frames))
    at = found.lastSeq
  }
  return seqs
}

test('a reader at any position, at the edge of what memory holds too, misses nothing and gets nothing twice', () => {
  const bytesMax = 10 * runOf(1, 3).bytes
  const tail = new MemoryTail(bytesMax, 0)
  for (let head = 3; head <= 300; head += 3) {
    tail.push(runOf(head - 2, head))
    tail.coveredByBlocks(head - 5)
    assert.ok(tail.bytes <= bytesMax, `${tail.bytes} bytes`)
    assert.ok(tail.floorSeq <= Math.max(0, head - 5))
    for (let afterSeq = Math.max(0, tail.floorSeq - 4); afterSeq <= head; afterSeq++) {
      const expected = Array.from({ length: head - afterSeq }, (_, i) => afterSeq + 1 + i)
      const isHeld = afterSeq >= tail.floorSeq || afterSeq === head
      assert.deepEqual(readAll(tail, afterSeq), isHeld ? expected : undefined, `${afterSeq} of ${head}`)
    }
  }
  assert.ok(tail.floorSeq > 200)
})

test('rows that no block has stay, however many they are', () => {
  const tail = new MemoryTail(1, 0)
  for (let head = 2; head <= 400; head += 2) tail.push(runOf(head - 1, head))
  assert.equal(tail.floorSeq, 0)
  assert.equal(readAll(tail, 0)?.length, 400)
  tail.coveredByBlocks(399)
  assert.equal(tail.floorSeq, 398)
  assert.deepEqual(readAll(tail, 398), [399, 400])
})

test('the tail is full by rows that no block has, with what readers had made of them, and by no others', () => {
  const [first, second] = [runOf(1, 3), runOf(4, 6)]
  const tail = new MemoryTail(first.bytes + second.bytes, 0)
  tail.push(first)
  tail.push(second)
  assert.equal(tail.isFull(), false)
  second.keep(100)
  assert.equal(tail.isFull(), true)
  tail.coveredByBlocks(3)
  assert.equal(tail.isFull(), false)
  tail.coveredByBlocks(6)
  second.keep(10_000)
  assert.equal(tail.isFull(), false)
})

test('a filter that takes long is given up after a while, and goes on from there without a gap', () => {
  const tail = new MemoryTail(1e9, 0)
  for (let head = 300; head <= 1200; head += 300) tail.push(runOf(head - 299, head))
  const seventh = (_: unknown, i: number): boolean => {
    for (const beganMs = performance.now(); performance.now() - beganMs < 0.1;);
    return i % 7 === 0
  }
  const seqs: number[] = []
  let reads = 0
  for (let at = 0; at < tail.headSeq; reads++) {
    const found = tail.read(at, seventh, 1e9)
    assert.ok(found && found.lastSeq > at)
    seqs.push(...seqsOf(found.frames))
    at = found.lastSeq
  }
  assert.deepEqual(
    seqs,
    Array.from({ length: 1200 }, (_, i) => i).flatMap((i) => ((i % 300) % 7 === 0 ? [i + 1] : [])),
  )
  assert.ok(reads >= 1200 / 64, `${reads} reads`)
})

test('a read has one time for all the runs that it goes through', (t) => {
  const tail = new MemoryTail(1e9, 0)
  for (let head = 1; head <= 100; head++) tail.push(runOf(head, head))
  let nowMs = 0
  t.mock.method(performance, 'now', () => (nowMs += 2))
  const found = tail.read(0, everything, 1e9)
  assert.deepEqual([found && seqsOf(found.frames), found?.lastSeq], [[1], 1])
})
