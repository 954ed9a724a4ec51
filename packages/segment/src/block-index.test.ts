import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type BlockEntry, decodeBlockIndex, encodeBlockIndex, refuseLargeBlocks } from './block-index.ts'
import { headerBytes } from './header.ts'
import { segmentLimits } from './limits.ts'

function entryOf(uncompressedSize: number): BlockEntry {
  const envelope = { minSeq: 1, maxSeq: 2, minWitnessedAt: 1, maxWitnessedAt: 2 }
  return { offset: headerBytes, compressedSize: 100, uncompressedSize, eventCount: 2, ...envelope }
}

const decode = (size: number): BlockEntry[] => decodeBlockIndex(encodeBlockIndex([entryOf(size)]), 1, 10_000)

test('a block that claims more bytes than the format allows is refused before it is read', () => {
  assert.equal(decode(segmentLimits.blockBodyBytes).length, 1)
  assert.throws(() => decode(segmentLimits.blockBodyBytes + 1), { problem: 'bad-block-index' })
})

test('who holds a block in memory refuses those that are larger', () => {
  refuseLargeBlocks(decode(1000), 1000)
  assert.throws(() => refuseLargeBlocks([...decode(10), ...decode(1000)], 999), {
    problem: 'bad-block-index',
    message: /block 1 claims more than 999 bytes/,
  })
})
