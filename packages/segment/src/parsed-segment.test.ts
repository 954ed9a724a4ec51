import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { makeRow, makeRows, sealBlocks } from '../tests/rows.ts'
import { readVector } from '../tests/vectors.ts'
import { auditSegment } from './audit-segment.ts'
import type { SegmentProblem } from './errors.ts'
import { segmentChecksum } from './header.ts'
import { nodeDecompress } from './node-zstd.ts'
import { parseSegment } from './parsed-segment.ts'

const allKinds = readVector('derived/synthetic_all_kinds.jss')

/** The file with some bytes changed, and a checksum that fits again. */
function changed(bytes: Uint8Array, change: (view: DataView) => void): Uint8Array {
  const copy = Uint8Array.from(bytes)
  const view = new DataView(copy.buffer)
  change(view)
  const footerOffset = Math.min(view.getUint32(58, true), copy.length)
  view.setBigUint64(4, BigInt(`0x${segmentChecksum(copy, copy.subarray(footerOffset))}`), true)
  return copy
}

const footerOffset = 1031
const filtersOffset = 1276
const collectionsOffset = 1551

const refusals: Record<string, [SegmentProblem, (view: DataView) => void]> = {
  'another magic': ['bad-header', (view) => view.setUint8(3, 0x31)],
  'another version': ['bad-header', (view) => view.setUint16(12, 2, true)],
  'a footer before the first block': ['bad-header', (view) => view.setUint32(58, 255, true)],
  'a footer past the end': ['bad-header', (view) => view.setUint32(58, 1_000_000, true)],
  'a block index outside the footer': ['bad-header', (view) => view.setUint32(90, 1000, true)],
  'sections out of order': ['bad-header', (view) => view.setUint32(66, 1500, true)],
  'a section past the end': ['bad-header', (view) => view.setUint32(82, 1_000_000, true)],
  'an offset above 2^53': ['bad-header', (view) => view.setUint32(86, 0xffffffff, true)],
  'too many blocks': ['bad-header', (view) => view.setUint32(14, 2 ** 20 + 1, true)],
  'another block count': ['bad-block-index', (view) => view.setUint32(14, 2, true)],
  'a block inside the header': ['bad-block-index', (view) => view.setUint32(footerOffset, 255, true)],
  'a block inside another': ['bad-block-index', (view) => view.setUint32(footerOffset + 52, 441, true)],
  'a block inside the footer': [
    'bad-block-index',
    (view) => view.setUint32(footerOffset + 104 + 8, 9999, true),
  ],
  'an inverted seq envelope': ['bad-block-index', (view) => view.setUint32(footerOffset + 20, 3, true)],
  'an inverted time envelope': [
    'bad-block-index',
    (view) => view.setUint32(footerOffset + 40, 2 ** 20, true),
  ],
  'blocks with overlapping seqs': [
    'bad-block-index',
    (view) => view.setUint32(footerOffset + 52 + 20, 2, true),
  ],
  'filters for other blocks': ['bad-filter', (view) => view.setUint32(filtersOffset, 4, true)],
  'filters that do not fill their section': [
    'bad-filter',
    (view) => view.setUint32(filtersOffset + 4, 88, true),
  ],
  'too many collections': [
    'bad-collection-index',
    (view) => view.setUint32(collectionsOffset, 2 ** 20 + 1, true),
  ],
  'collections for other blocks': [
    'bad-collection-index',
    (view) => view.setUint32(collectionsOffset + 4, 4, true),
  ],
  'masks of another length': [
    'bad-collection-index',
    (view) => view.setUint32(collectionsOffset + 8, 2, true),
  ],
  'a larger collection body': [
    'bad-collection-index',
    (view) => view.setUint32(collectionsOffset + 12, 2 ** 31, true),
  ],
  'a smaller collection body': ['bad-frame', (view) => view.setUint32(collectionsOffset + 12, 10, true)],
  'fewer collections than in the body': [
    'bad-collection-index',
    (view) => view.setUint32(collectionsOffset, 4, true),
  ],
  'a damaged collection frame': ['bad-frame', (view) => view.setUint8(collectionsOffset + 30, 0xff)],
}

for (const [what, [problem, change]] of Object.entries(refusals)) {
  test(`a segment with ${what} is refused`, () => {
    assert.throws(() => parseSegment(changed(allKinds, change), nodeDecompress), {
      name: 'SegmentError',
      problem,
    })
  })
}

test('a changed byte in header or footer fails the checksum', () => {
  for (let at = 12; at < allKinds.length; at = at === 97 ? footerOffset : at + 1) {
    const bytes = Uint8Array.from(allKinds)
    bytes[at] = (bytes[at] ?? 0) ^ 1
    assert.throws(() => parseSegment(bytes, nodeDecompress), { name: 'SegmentError' }, `byte ${at}`)
  }
})

test('an active file is refused as not sealed, and anything shorter as no segment', () => {
  const active = readVector('derived/synthetic_active.jss')
  assert.throws(() => parseSegment(active, nodeDecompress), { problem: 'not-sealed' })
  for (let length = 0; length < 256; length++) {
    assert.throws(() => parseSegment(allKinds.subarray(0, length), nodeDecompress), { problem: 'bad-header' })
  }
})

test('a file that is cut anywhere is refused', () => {
  for (let length = 256; length < allKinds.length; length++) {
    assert.throws(() => parseSegment(allKinds.subarray(0, length), nodeDecompress), { name: 'SegmentError' })
  }
})

test('blocks are checked against the block index when they are read', () => {
  const entry = footerOffset + 52
  const refused: Record<string, [SegmentProblem, (view: DataView) => void]> = {
    'another frame length': ['bad-frame', (view) => view.setUint32(442, 249, true)],
    'a smaller body': ['bad-frame', (view) => view.setUint32(entry + 12, 487, true)],
    'a larger body': ['bad-block', (view) => view.setUint32(entry + 12, 489, true)],
    'another row count': ['bad-block', (view) => view.setUint32(entry + 16, 4, true)],
    'rows outside the envelope': ['bad-block', (view) => view.setUint32(entry + 20, 4, true)],
  }
  for (const [what, [problem, change]] of Object.entries(refused)) {
    const segment = parseSegment(changed(allKinds, change), nodeDecompress)
    assert.throws(() => segment.readBlock(1), { name: 'SegmentError', problem }, what)
    assert.equal(segment.readBlock(0).count, 2)
  }
  assert.throws(() => parseSegment(allKinds, nodeDecompress).readBlock(3), { problem: 'no-such-block' })
})

test('collection masks reach past eight collections', async () => {
  const blocks = [
    makeRows(1, 20).map((row) => ({ ...row, collection: `app.example.c${row.seq}` })),
    [makeRow(21, { collection: 'app.example.c20' }), makeRow(22, { kind: 6, collection: '', rkey: '' })],
    [makeRow(23, { kind: 1, collection: '', rkey: '' })],
  ]
  const segment = parseSegment(await sealBlocks(blocks), nodeDecompress)
  assert.equal(segment.collections.collections.length, 21)
  assert.deepEqual(segment.collections.collections.at(-1), { name: '$sync', count: 0 })
  assert.deepEqual(
    segment.collections.idsOfBlock(0),
    Array.from({ length: 20 }, (_, id) => id),
  )
  assert.deepEqual(segment.collections.idsOfBlock(1), [19, 20])
  assert.deepEqual(segment.collections.idsOfBlock(2), [])
  assert.deepEqual(await auditSegment(segment), [])
})

test('a segment without any collection has no collection body', async () => {
  const bytes = await sealBlocks([[makeRow(1, { collection: '' })]])
  const segment = parseSegment(bytes, nodeDecompress)
  assert.equal(segment.header.collectionIndexOffset + 16, bytes.length)
  assert.deepEqual(segment.collections.collections, [])
})

test('the audit finds what the reader cannot see from the footer alone', async () => {
  const audit = async (change: (view: DataView) => void): Promise<string[]> =>
    auditSegment(parseSegment(changed(allKinds, change), nodeDecompress))
  assert.match((await audit((view) => view.setUint32(18, 11, true))).join(), /eventCount 11/)
  assert.match((await audit((view) => view.setUint32(22, 4, true))).join(), /uniqueDidCount 4/)
  assert.match((await audit((view) => view.setUint32(34, 11, true))).join(), /maxSeq 11/)
  assert.match((await audit((view) => view.setUint8(1187 + 40, 0xff))).join(), /DID filter fails its CRC-32C/)
  assert.match((await audit((view) => view.setUint32(footerOffset + 16, 3, true))).join(), /block 0/)
  const later = (view: DataView): void => {
    view.setUint32(footerOffset + 52 + 36, view.getUint32(footerOffset + 52 + 36, true) + 1, true)
  }
  assert.match((await audit(later)).join(), /block 1 has row 3 outside its witnessed_at envelope/)
})

test('the audit finds masks, counts and filters that do not fit the rows', async () => {
  const [one, two] = [
    [makeRow(1, { did: 'did:plc:one' })],
    [makeRow(1, { collection: 'app.example.like', did: 'did:plc:two' })],
  ]
  const mine = parseSegment(await sealBlocks([one]), nodeDecompress)
  const other = parseSegment(await sealBlocks([two]), nodeDecompress)
  const mixed = {
    header: mine.header,
    blocks: mine.blocks,
    collections: other.collections,
    readBlock: (i: number) => mine.readBlock(i),
    readDidFilter: () => other.readDidFilter(),
    readBlockDidFilters: () => other.readBlockDidFilters(),
  }
  assert.deepEqual(await auditSegment(mixed), [
    'app.example.post has 1 rows, its index says undefined',
    'block 0 holds app.example.post, unlike its mask',
    'block 0 does not hold app.example.like, unlike its mask',
    'a DID of block 0 is missing from the segment filter',
    'a DID of block 0 is missing from its filter',
  ])
})

test('nothing on the way to the decoder needs Node', () => {
  const seen = new Set<string>()
  const visit = (url: URL): void => {
    if (seen.has(url.href)) return
    seen.add(url.href)
    for (const [, specifier = ''] of readFileSync(url, 'utf8').matchAll(/ from '([^']+)'/g)) {
      if (specifier.startsWith('.')) visit(new URL(specifier, url))
      else assert.equal(specifier, 'hash-wasm', url.href)
    }
  }
  visit(new URL('./index.ts', import.meta.url))
  assert.ok(seen.size > 10)
})
