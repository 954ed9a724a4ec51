import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { readJsonVector, readVector } from '../tests/vectors.ts'
import { crc32c } from './crc32c.ts'
import {
  BlockDidFilters,
  DidFilter,
  DidHashes,
  encodeBlockFilters,
  encodeFilter,
  filterBits,
  filterBytes,
  hashDid,
} from './did-filter.ts'
import { filterPartitions, shapeFilter } from './filter-sizing.ts'
import { xxh128Bytes, xxh3Hex } from './hash.ts'

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

test('both XXH3 variants agree with the reference at every input length', () => {
  const { vectors } = readJsonVector<{
    vectors: { len: number; xxh3_64: string; hi: string; lo: string; intra: number }[]
  }>('bloom/xxh3_vectors.json')
  for (const { len, xxh3_64, hi, lo, intra } of vectors) {
    const input = Uint8Array.from({ length: len }, (_, j) => 131 * j + len + 7)
    assert.equal(xxh3Hex(input), xxh3_64)
    assert.equal(hex(xxh128Bytes(input)), hi + lo)
    assert.equal(hashDid(input).folded, intra)
  }
})

test('the low half of a hash decides between two blocks of a filter at their edge', () => {
  const blockOf = (low: number): number => {
    const [bit = 0] = filterBits({ high: 0x55555555, low, folded: 0 }, { k: 3, numBlocks: 3 })
    return bit / 512
  }
  assert.deepEqual([blockOf(0), blockOf(0xffffffff)], [0, 1])
})

test('many hashes are looked for in the block that each falls into, at its edge too', async () => {
  // In three blocks the low half carries into the next block, in five nothing is near an edge.
  for (const shape of [
    { k: 3, numBlocks: 3 },
    { k: 7, numBlocks: 5 },
  ]) {
    const edge = [0, 0x7fffffff, 0xffffffff].map((low) => ({ high: 0x55555555, low, folded: 0x12345678 }))
    for (const hash of edge) {
      const filter = DidFilter.decode(await encodeFilter(shape, [hash]))
      const found = filter.select(new DidHashes(edge), [0, 1, 2])
      const alone = edge.flatMap((other, place) => (filter.has(other) ? [place] : []))
      assert.ok(found.includes(edge.indexOf(hash)))
      assert.deepEqual(found, alone)
    }
  }
})

test('DIDs set the bits that the reference sets', () => {
  type Vector = { did: string; nb1_k15_bits: number[]; nb131_k9_bits: number[] }
  for (const { did, nb1_k15_bits, nb131_k9_bits } of readJsonVector<Vector[]>('bloom/did_bits.json')) {
    assert.deepEqual(filterBits(hashDid(did), { numBlocks: 1, k: 15 }), nb1_k15_bits)
    assert.deepEqual(filterBits(hashDid(did), { numBlocks: 131, k: 9 }), nb131_k9_bits)
  }
})

interface Recipe {
  name: string
  num_blocks: number
  k: number
  num_keys: number
  edge_keys: boolean
  count: number
  sha256: string
  num_probes?: number
  probe_results?: string
}

const encoder = new TextEncoder()
const generatedKey = (prefix: string, i: number): Uint8Array =>
  Buffer.concat([encoder.encode(`${prefix}-${i}:`), Uint8Array.from({ length: (7 * i) % 1031 }, (_, j) => j)])
const edgeKeys: readonly Uint8Array[] = [
  ...[[], [0], [255]].map((bytes) => Uint8Array.from(bytes)),
  ...['a', 'ab', 'abc', 'abcd'].map((text) => encoder.encode(text)),
  new Uint8Array(8),
  new Uint8Array(9).fill(0xff),
  ...['0123456789abcdef', '0123456789abcdefg'].map((text) => encoder.encode(text)),
  ...['x'.repeat(128), 'y'.repeat(129), 'z'.repeat(240), 'w'.repeat(241)].map((text) => encoder.encode(text)),
  encoder.encode('hello, 世界'),
]

for (const recipe of readJsonVector<{ recipes: Recipe[] }>('bloom/filter_recipes.json').recipes) {
  test(`filter ${recipe.name} has the reference's bytes and answers`, async () => {
    const members = Array.from({ length: recipe.num_keys }, (_, i) => generatedKey('member', i))
    const keys = [...(recipe.edge_keys ? edgeKeys : []), ...members].map((key) => hashDid(key))
    const bytes = await encodeFilter({ numBlocks: recipe.num_blocks, k: recipe.k }, keys)
    assert.equal(createHash('sha256').update(bytes).digest('hex'), recipe.sha256)

    const filter = DidFilter.decode(bytes)
    assert.equal(filter.count, recipe.count)
    assert.ok(keys.every((key) => filter.has(key)))
    const results = Buffer.from(recipe.probe_results ?? '', 'hex')
    for (let i = 0; i < (recipe.num_probes ?? 0); i++) {
      const expected = ((results[i >> 3] ?? 0) & (1 << (i & 7))) !== 0
      assert.equal(filter.has(hashDid(generatedKey('probe', i))), expected)
    }
  })
}

test('filters are sized as the reference sizes them', () => {
  type Sizing = { rows: { n: number; numBlocks: number; k: number; serializedBytes: number }[] }
  for (const { n, numBlocks, k, serializedBytes } of readJsonVector<Sizing>('bloom/sizing.json').rows) {
    const shape = shapeFilter(n)
    assert.deepEqual({ n, ...shape, bytes: filterBytes(shape) }, { n, numBlocks, k, bytes: serializedBytes })
  }
})

test('the partitions of every k fill a 512-bit block', () => {
  for (let k = 3; k <= 17; k++)
    assert.equal(
      filterPartitions(k)?.reduce((sum, bits) => sum + bits, 0),
      512,
    )
})

test('a filter finds every DID in it and few others', async () => {
  for (const n of [30, 500, 4096]) {
    const dids = Array.from({ length: n }, (_, i) => hashDid(`did:plc:member${n}x${i}`))
    const filter = DidFilter.decode(await encodeFilter(shapeFilter(n), dids))
    assert.ok(dids.every((did) => filter.has(did)))
    const probes = 20_000
    const hits = Array.from({ length: probes }, (_, i) => filter.has(hashDid(`did:web:probe${i}.example`)))
    assert.ok(hits.filter(Boolean).length / probes < 0.002, `${n} keys`)
  }
})

test('many DIDs asked at once get the answers that each gets alone', async () => {
  for (const n of [1, 30, 4096]) {
    const all = Array.from({ length: 3 * n }, (_, i) => hashDid(`did:plc:x${i}`))
    const filter = DidFilter.decode(await encodeFilter(shapeFilter(n), all.slice(n, 2 * n)))
    const hashes = new DidHashes(all)
    const places = hashes.places()
    const found = places.filter((place) => {
      const hash = all[place]
      return hash && filter.has(hash)
    })
    assert.deepEqual(filter.select(hashes, places), found)
    const absent = places.filter((place) => !found.includes(place))
    assert.equal(filter.hasAny(hashes, absent), false)
    assert.equal(filter.hasAny(hashes, [...absent, 2 * n - 1]), true)
    assert.equal(filter.hasAny(hashes, []), false)
  }
})

test('CRC-32C is the Castagnoli one', () => {
  assert.equal(crc32c(encoder.encode('123456789')), 0xe3069283)
  assert.equal(crc32c(new Uint8Array(0)), 0)
  const around = encoder.encode('--12345678123456789--')
  assert.equal(crc32c(around, 10, 19), 0xe3069283)
})

test('a filter that is damaged, misshapen or of another version is refused', () => {
  const good = readVector('segment/golden_seal.bin').subarray(421, 421 + 89)
  assert.equal(DidFilter.decode(good).count, 2)
  const damaged = (at: number, value: number): Uint8Array => {
    const bytes = Uint8Array.from(good)
    bytes[at] = value
    new DataView(bytes.buffer).setUint32(85, crc32c(bytes.subarray(0, 85)), true)
    return bytes
  }
  const flipped = Uint8Array.from(good)
  flipped[30] = ~(flipped[30] ?? 0)
  const refused = [
    flipped,
    damaged(0, 2),
    damaged(1, 2),
    damaged(1, 18),
    damaged(5, 0),
    damaged(5, 2),
    damaged(9, 1),
    damaged(12, 0xff),
    damaged(20, 0xff),
    good.subarray(0, 88),
    good.subarray(0, 10),
    new Uint8Array(0),
  ]
  for (const bytes of refused)
    assert.throws(() => DidFilter.decode(bytes), { name: 'SegmentError', problem: 'bad-filter' })
})

test('a filter region must fill its section with the right number of filters', async () => {
  const keys = [[hashDid('did:plc:a')], [hashDid('did:plc:b'), hashDid('did:plc:c')]]
  const region = await encodeBlockFilters(shapeFilter(2), keys)
  const filters = BlockDidFilters.decode(region, 2)
  assert.equal(filters.at(1).count, 2)
  const longer = Uint8Array.from([...region, 0])
  for (const [bytes, blockCount] of [
    [region, 3],
    [longer, 2],
    [region.subarray(0, 7), 2],
  ] as const) {
    assert.throws(() => BlockDidFilters.decode(bytes, blockCount), { problem: 'bad-filter' })
  }
  assert.throws(() => filters.at(2), { problem: 'bad-filter' })
})

test('a block filter answers as if it were checked first, and one that is damaged may have every DID', async () => {
  const keys = Array.from({ length: 40 }, (_, i) => hashDid(`did:plc:x${i}`))
  const region = await encodeBlockFilters(shapeFilter(20), [keys.slice(0, 20), keys.slice(20, 30)])
  const hashes = new DidHashes(keys)
  const [inFirst, inBoth, inNone] = [[3], [31, 25, 7], [30, 35, 39]]
  const checkedFirst = (filters: BlockDidFilters, block: number, among: readonly number[]): boolean => {
    try {
      return filters.at(block).hasAny(hashes, among)
    } catch {
      return true
    }
  }
  let damaged = 0
  for (let at = -1; at < region.length; at++) {
    if (at >= 0 && at < 8) continue // of the region, not of a filter
    const bytes = Uint8Array.from(region)
    if (at >= 0) bytes[at] = ~(bytes[at] ?? 0)
    for (const block of [0, 1, 2])
      for (const among of [inFirst, inBoth, inNone, []]) {
        const expected = checkedFirst(BlockDidFilters.decode(bytes, 2), block, among)
        const filters = BlockDidFilters.decode(bytes, 2)
        assert.equal(filters.mayHaveAny(block, hashes, among), expected, `byte ${at}, block ${block}`)
        assert.equal(filters.mayHaveAny(block, hashes, among), expected)
        if (among === inNone && block < 2 && expected) damaged++
      }
  }
  assert.equal(damaged, region.length - 8)
})
