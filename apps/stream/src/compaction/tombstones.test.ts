import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeBlock, encodeBlockBody, type Row, rowKind } from '@tributary/segment'
import { memoryInUse } from '@tributary/testkit'
import { Tombstones } from './tombstones.ts'

const rowsPerBlock = 4096
const blocks = 50
/** What is superseded is told by a DID, a path and a number. */
const bytesMax = 10_000

/** A block of which one row deletes a record. */
function blockOf(n: number): Row[] {
  return Array.from({ length: rowsPerBlock }, (_, i) => ({
    seq: n * rowsPerBlock + i + 1,
    witnessedAt: 1,
    indexedAt: 0,
    kind: i === 7 ? rowKind.delete : rowKind.create,
    collection: 'org.impact.claim.activity',
    did: `did:plc:${String(n * rowsPerBlock + i).padStart(24, 'a')}`,
    rkey: String(i).padStart(13, '2'),
    rev: '3l22222222222',
    payload: new Uint8Array(0),
  }))
}

test('what a block supersedes is kept without the block', () => {
  const tombstones = new Tombstones()
  const add = (n: number): void => tombstones.addBlock(decodeBlock(encodeBlockBody(blockOf(n))))
  add(0)
  const before = memoryInUse().heapUsed
  for (let n = 1; n <= blocks; n++) add(n)
  const kept = (memoryInUse().heapUsed - before) / blocks
  assert.equal(tombstones.size, blocks + 1)
  assert.ok(kept < bytesMax, `${kept} bytes for each`)
})
