import { createHash } from 'node:crypto'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { constants, zstdCompressSync } from 'node:zlib'
import { decodeWithSecondDecoder } from '@tributary/testkit/second-jss-decoder'
import { decompress as fzstdDecompress } from 'fzstd'
import { expectedRows, expectedSegment, hex, readJsonVector, readVector } from '../tests/vectors.ts'
import { auditSegment } from './audit-segment.ts'
import { describeBlock } from './block-index.ts'
import { decodeBlock } from './block-view.ts'
import { BlockDidFilters, hashDid } from './did-filter.ts'
import { encodeBlockBody } from './encode-block.ts'
import { decodeSealedHeader } from './header.ts'
import { nodeDecompress } from './node-zstd.ts'
import { parseSegment } from './parsed-segment.ts'
import { SegmentSummary } from './segment-summary.ts'
import { decodeFrame } from './stored-block.ts'
import { unpackFrame } from './zstd-frame.ts'

interface SealedVector {
  file: string
  expected: string
  /** Forces the size of the per-block filters. */
  capacity?: number
  /** Envelopes reach past the rows, so they are taken from the file. */
  isCompacted?: boolean
}

const sealedVectors: SealedVector[] = [
  { file: 'segment/golden_seal.bin', expected: 'segment/golden_seal' },
  { file: 'corpus/golden_corpus_segment.jss', expected: 'corpus/golden_corpus_segment' },
  {
    file: 'segment/legacy_fixed4096_blooms.jss',
    expected: 'segment/legacy_fixed4096_blooms',
    capacity: 4096,
  },
  { file: 'derived/synthetic_all_kinds.jss', expected: 'derived/synthetic_all_kinds' },
  { file: 'derived/synthetic_compacted.jss', expected: 'derived/synthetic_compacted', isCompacted: true },
  { file: 'derived/synthetic_empty.jss', expected: 'derived/synthetic_empty' },
]

/** The whole file again: everything from the rows, except the compressed frames, which are not canonical. */
async function rebuild(
  bytes: Uint8Array,
  { capacity, isCompacted }: { capacity?: number; isCompacted?: boolean },
): Promise<Uint8Array> {
  const segment = parseSegment(bytes, nodeDecompress)
  const summary = new SegmentSummary()
  const stored: Uint8Array[] = []
  segment.blocks.forEach((entry, i) => {
    const block = segment.readBlock(i)
    summary.addBlock(isCompacted ? entry : describeBlock(block, entry.offset, entry.compressedSize), block)
    const prefix = new Uint8Array(8)
    new DataView(prefix.buffer).setBigUint64(0, BigInt(entry.compressedSize), true)
    stored.push(prefix, segment.readFrame(i))
  })
  const indexFrame = bytes.subarray(segment.header.collectionIndexOffset + 16)
  const { header, footer } = await summary.seal(() => indexFrame, capacity)
  return Buffer.concat([header, ...stored, footer])
}

test('the golden block decodes to its rows and the rows encode to the same body', () => {
  const expected = readJsonVector<{ uncompressedHex: string; events: unknown[] }>(
    'segment/golden_block.expected.json',
  )
  const block = decodeFrame(readVector('segment/golden_block.bin'), nodeDecompress)
  assert.deepEqual(expectedRows(block.rows()), expected.events)
  assert.equal(hex(encodeBlockBody(block.rows())), expected.uncompressedHex)
})

/** CIDv1, dag-cbor, sha2-256, in base32. */
function cidOf(record: Uint8Array): string {
  const digest = createHash('sha256').update(record).digest()
  const bits = [0x01, 0x71, 0x12, 0x20, ...digest].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const digits = bits.match(/.{1,5}/g) ?? []
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'
  return `b${digits.map((digit) => alphabet[Number.parseInt(digit.padEnd(5, '0'), 2)]).join('')}`
}

test('record CIDs of the corpus segment are those of the repository', () => {
  const segment = parseSegment(readVector('corpus/golden_corpus_segment.jss'), nodeDecompress)
  const rows = segment.blocks.flatMap((_, i) => segment.readBlock(i).rows())
  const cids = rows.map(({ collection, rkey, payload }) => `${collection}/${rkey}\t${cidOf(payload)}`)
  const expected = new TextDecoder().decode(readVector('corpus/car_expected_records.tsv')).trim().split('\n')
  assert.deepEqual(cids, expected)
})

test('frames of every encoder setting give the same rows', () => {
  const body = unpackFrame(readVector('segment/golden_block.bin'), nodeDecompress)
  const checksum = { [constants.ZSTD_c_checksumFlag]: 1 }
  const frames = [
    zstdCompressSync(body, { params: { ...checksum, [constants.ZSTD_c_compressionLevel]: 1 } }),
    zstdCompressSync(body, { params: { ...checksum, [constants.ZSTD_c_compressionLevel]: 19 } }),
    zstdCompressSync(body, { params: { ...checksum, [constants.ZSTD_c_contentSizeFlag]: 0 } }),
    zstdCompressSync(body, { pledgedSrcSize: body.length, params: checksum }),
  ]
  for (const frame of frames) {
    assert.deepEqual(decodeFrame(frame, nodeDecompress).rows(), decodeBlock(body).rows())
  }
})

test('a decompressor that runs in browsers reads the same segments', () => {
  for (const { file } of sealedVectors) {
    const inBrowser = parseSegment(readVector(file), (frame) => fzstdDecompress(frame))
    assert.deepEqual(
      expectedSegment(inBrowser),
      expectedSegment(parseSegment(readVector(file), nodeDecompress)),
    )
  }
})

test('a compaction that drops rows shrinks the filters of a legacy segment and keeps every DID findable', async () => {
  const legacy = parseSegment(readVector('segment/legacy_fixed4096_blooms.jss'), nodeDecompress)
  const rows = legacy.readBlock(0).rows()
  const dropped = rows.findIndex(({ did }) => did === 'did:plc:legacy-b0-u1')
  const summary = new SegmentSummary()
  const kept = decodeBlock(encodeBlockBody(rows.toSpliced(dropped, 1)))
  summary.addBlock(describeBlock(kept, 256, 100), kept)
  summary.addBlock(describeBlock(legacy.readBlock(1), 364, 100), legacy.readBlock(1))
  const { footer, header } = await summary.seal(() => new Uint8Array(0))
  const { blockDidFiltersOffset, collectionIndexOffset, footerOffset } = decodeSealedHeader(header, 2 ** 20)
  const region = footer.subarray(blockDidFiltersOffset - footerOffset, collectionIndexOffset - footerOffset)
  const filters = BlockDidFilters.decode(region, 2)
  assert.ok(filters.filterBytes < 300)
  assert.ok(filters.at(0).has(hashDid('did:plc:legacy-b0-u0')))
  assert.ok(filters.at(0).has(hashDid('did:plc:legacy-b0-u1')))
  assert.ok(filters.at(1).has(hashDid('did:plc:legacy-b1-u0')))
})

for (const vector of sealedVectors) {
  const { file, expected } = vector
  test(`${file} decodes to what it holds`, () => {
    assert.deepEqual(
      expectedSegment(parseSegment(readVector(file), nodeDecompress)),
      readJsonVector(`${expected}.expected.json`),
    )
  })

  test(`${file} is the same to a second decoder`, async () => {
    assert.deepEqual(
      await decodeWithSecondDecoder(readVector(file)),
      readJsonVector(`${expected}.expected.json`),
    )
  })

  test(`${file} passes the full audit`, async () => {
    assert.deepEqual(await auditSegment(parseSegment(readVector(file), nodeDecompress)), [])
  })

  test(`${file} is rebuilt from its rows byte for byte`, async () => {
    const bytes = readVector(file)
    const rebuilt = await rebuild(bytes, vector)
    assert.equal(hex(rebuilt), hex(bytes))
  })
}
