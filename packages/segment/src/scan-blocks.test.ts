import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeRow, makeRows } from '../tests/rows.ts'
import { encodeBlockBody } from './encode-block.ts'
import { xxh64Low32 } from './hash.ts'
import { encodeActiveHeader } from './header.ts'
import { packFrame } from './node-zstd.ts'
import { scanBlocks } from './scan-blocks.ts'
import { storedFrame } from './stored-block.ts'

/** A frame that holds the body as it is. */
function rawFrame(body: Uint8Array): Buffer {
  const head = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa4, 0, 0, 0, 0, 0, 0, 0])
  head.writeUInt32LE(body.length, 5)
  head.writeUIntLE((body.length << 3) | 1, 9, 3)
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32LE(xxh64Low32(body))
  return Buffer.concat([head, body, checksum])
}

function seqsIn(file: Buffer): number[] {
  return [...scanBlocks(file)].flatMap(({ block }) =>
    Array.from({ length: block.count }, (_, i) => block.seqAt(i)),
  )
}

test('the bytes of a block that a record holds are no block, though the block of the record is damaged', async () => {
  const forged = storedFrame(await packFrame(encodeBlockBody(makeRows(3, 4))))
  const holder = rawFrame(encodeBlockBody([makeRow(2, { payload: forged })]))
  const first = storedFrame(await packFrame(encodeBlockBody([makeRow(1)])))
  const last = storedFrame(await packFrame(encodeBlockBody([makeRow(5)])))
  for (const [file, seqs] of [
    [Buffer.concat([encodeActiveHeader(), first, storedFrame(holder), last]), [1, 5]],
    [Buffer.concat([encodeActiveHeader(), first, storedFrame(holder)]), [1]],
  ] as const) {
    assert.deepEqual(seqsIn(file), [1, 2, ...seqs.slice(1)])
    const start = file.indexOf(holder)
    // Its first byte, what is in it, its length and its last byte.
    for (const at of [0, 4, 20, holder.length - 1]) {
      const damaged = Buffer.from(file)
      damaged.writeUInt8((damaged[start + at] ?? 0) ^ 1, start + at)
      assert.deepEqual(seqsIn(damaged), seqs, `byte ${at}`)
    }
  }
})

test('a block whose length is damaged is read, and one that is damaged together with its length costs no other', async () => {
  const stored: Uint8Array[] = []
  for (const seq of [1, 2, 3]) stored.push(storedFrame(await packFrame(encodeBlockBody([makeRow(seq)]))))
  const file = Buffer.concat([encodeActiveHeader(), ...stored])
  const second = file.indexOf(stored[1] ?? '')
  file.writeUInt8(0xff, second + 7)
  assert.deepEqual(seqsIn(file), [1, 2, 3])
  file.writeUInt8(0xff, second + 8)
  assert.deepEqual(seqsIn(file), [1, 3])
})
