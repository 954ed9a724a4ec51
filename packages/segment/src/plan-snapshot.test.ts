import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { makeRow, sealBlocks } from '../tests/rows.ts'
import { readVector } from '../tests/vectors.ts'
import { SegmentError } from './errors.ts'
import { nodeDecompress } from './node-zstd.ts'
import { type ParsedSegment, parseSegment } from './parsed-segment.ts'
import { type PlanRequest, planSnapshot, type SnapshotPlan } from './plan-snapshot.ts'
import { isCommitKind, type Row, rowKind } from './row.ts'
import { segmentName } from './segment-name.ts'

type Segment = ParsedSegment & { name: string; index: number }

/** Sealed segments of these blocks, named in order. */
async function segmentsOf(blocksBySegment: readonly (readonly (readonly Row[])[])[]): Promise<Segment[]> {
  const files = await Promise.all(blocksBySegment.map((blocks) => sealBlocks(blocks)))
  return files.map((bytes, index) => named(parseSegment(bytes, nodeDecompress), index))
}

function named(segment: ParsedSegment, index: number): Segment {
  return Object.assign(segment, { name: segmentName(index), index })
}

const post = 'app.example.feed.post'
const like = 'app.example.feed.like'
const list = 'app.example.graph.list'

/** One row for each block; `columns` says what is in it. */
function blocksOf(firstSeq: number, columns: readonly Partial<Row>[]): Row[][] {
  return columns.map((column, i) => [makeRow(firstSeq + i, column)])
}

/** What a plan names: `0` a whole segment, `0:2-3` blocks of one. */
function units(plan: SnapshotPlan): string {
  return plan.segments
    .flatMap(({ index, mode, blocks }) =>
      mode === 'segment'
        ? [`${index}`]
        : (blocks ?? []).map(({ first, last }) => `${index}:${first}-${last}`),
    )
    .join(' ')
}

async function unitsFor(segments: Segment[], request: PlanRequest, entriesMax?: number): Promise<string> {
  return units(await planSnapshot(segments, request, { ...(entriesMax !== undefined && { entriesMax }) }))
}

const marker = (kind: 4 | 5 | 6): Partial<Row> => ({ kind, collection: '', rkey: '' })
const posts = (count: number): Partial<Row>[] => Array.from({ length: count }, () => ({ collection: post }))

test('an empty archive has an empty plan', async () => {
  assert.deepEqual(await planSnapshot([], {}), {
    plannedThroughSeq: 0,
    sealedTipSeq: 0,
    segments: [],
    stats: { segmentsExamined: 0, segmentsMatched: 0, blocksMatched: 0, entries: 0 },
  })
})

test('without filters every segment is fetched whole', async () => {
  const segments = await segmentsOf([blocksOf(1, posts(4)), blocksOf(5, posts(2))])
  const plan = await planSnapshot(segments, { kinds: [], collections: [], dids: [] })
  const [first] = segments
  assert.deepEqual(plan.segments[0], {
    name: 'seg_0000000000.jss',
    index: 0,
    checksum: first?.header.checksum,
    minSeq: 1,
    maxSeq: 4,
    mode: 'segment',
  })
  assert.equal(units(plan), '0 1')
  assert.deepEqual([plan.plannedThroughSeq, plan.sealedTipSeq], [6, 6])
  assert.deepEqual(plan.stats, { segmentsExamined: 2, segmentsMatched: 2, blocksMatched: 6, entries: 2 })
})

test('from three quarters of its blocks on, a segment is fetched whole', async () => {
  const others = (count: number): Partial<Row>[] =>
    Array.from({ length: count }, () => ({ collection: like }))
  const threeOfFour = await segmentsOf([blocksOf(1, [...posts(3), ...others(1)])])
  assert.equal(await unitsFor(threeOfFour, { collections: [post] }), '0')
  const twoOfThree = await segmentsOf([blocksOf(1, [...posts(2), ...others(1)])])
  assert.equal(await unitsFor(twoOfThree, { collections: [post] }), '0:0-1')
})

test('consecutive blocks become one range', async () => {
  const columns = [post, like, post, post, like, like, post].map((collection) => ({ collection }))
  const segments = await segmentsOf([blocksOf(1, columns)])
  const plan = await planSnapshot(segments, { collections: [post] })
  assert.equal(units(plan), '0:0-0 0:2-3 0:6-6')
  assert.deepEqual(plan.stats, { segmentsExamined: 1, segmentsMatched: 1, blocksMatched: 4, entries: 3 })
  assert.equal(plan.plannedThroughSeq, 7)
})

test('a wildcard takes what is below its dot and nothing beside it', async () => {
  const names = [post, list, 'app.example.feed', 'app.example.feedback.item', 'other.app.example.feed.x']
  const segments = await segmentsOf([
    blocksOf(
      1,
      names.map((collection) => ({ collection })),
    ),
  ])
  assert.equal(await unitsFor(segments, { collections: ['app.example.feed.*'] }), '0:0-0')
  assert.equal(await unitsFor(segments, { collections: ['app.example.*'] }), '0')
  assert.equal(await unitsFor(segments, { collections: ['none.such.*'] }), '')
})

test('account, identity and sync rows are found under any collection filter, by their kind', async () => {
  const columns = [
    { collection: like },
    marker(4),
    { collection: like },
    marker(5),
    { collection: like },
    marker(6),
  ]
  const segments = await segmentsOf([blocksOf(1, [...columns, { collection: post }, { collection: like }])])
  assert.equal(await unitsFor(segments, { collections: [post] }), '0:1-1 0:3-3 0:5-6')
  assert.equal(await unitsFor(segments, { collections: [post], kinds: ['commit'] }), '0:6-6')
  assert.equal(await unitsFor(segments, { collections: [post], kinds: ['commit', 'sync'] }), '0:5-6')
  assert.equal(await unitsFor(segments, { kinds: ['identity'] }), '0:1-1')
  assert.equal(await unitsFor(segments, { kinds: ['account', 'sync'] }), '0:3-3 0:5-5')
  assert.equal(await unitsFor(segments, { kinds: ['commit'] }), '0:0-0 0:2-2 0:4-4 0:6-7')
})

test('only blocks with rows in the seq range are named', async () => {
  const segments = await segmentsOf([blocksOf(1, posts(5)), blocksOf(6, posts(5)), blocksOf(11, posts(5))])
  const plan = await planSnapshot(segments, { afterSeq: 7, beforeSeq: 11 })
  assert.equal(units(plan), '1:2-4 2:0-0')
  assert.deepEqual([plan.plannedThroughSeq, plan.sealedTipSeq], [11, 11])
  assert.equal(plan.stats.segmentsExamined, 2)
  assert.equal(await unitsFor(segments, { afterSeq: 15 }), '')
  assert.equal(await unitsFor(segments, { afterSeq: 0, beforeSeq: 0 }), '')
  const ahead = await planSnapshot(segments, { afterSeq: 99 })
  assert.deepEqual([ahead.plannedThroughSeq, ahead.sealedTipSeq], [15, 15])
  const beyond = await planSnapshot(segments, { beforeSeq: 99 })
  assert.deepEqual([beyond.plannedThroughSeq, beyond.sealedTipSeq], [15, 15])
})

test('the tip does not depend on what matches', async () => {
  const segments = await segmentsOf([blocksOf(1, posts(5)), blocksOf(6, posts(5))])
  const plan = await planSnapshot(segments, { collections: ['none.such.thing'] })
  assert.deepEqual([plan.plannedThroughSeq, plan.sealedTipSeq, plan.stats.entries], [10, 10, 0])
})

test('DIDs narrow the plan to segments and blocks whose filters know them', async () => {
  const byDid = (dids: string[]): Partial<Row>[] =>
    dids.map((did) => ({ did: `did:plc:${did}`, collection: post }))
  const segments = await segmentsOf([
    blocksOf(1, byDid(['a', 'b', 'c', 'a', 'c'])),
    blocksOf(6, byDid(['c', 'c', 'c'])),
    blocksOf(9, byDid(['b', 'c', 'a'])),
  ])
  assert.equal(await unitsFor(segments, { dids: ['did:plc:a'] }), '0:0-0 0:3-3 2:2-2')
  assert.equal(await unitsFor(segments, { dids: ['did:plc:a', 'did:plc:b'] }), '0:0-1 0:3-3 2:0-0 2:2-2')
  assert.equal(await unitsFor(segments, { dids: ['did:plc:nobody'] }), '')
  assert.equal(await unitsFor(segments, { dids: ['did:plc:a'], collections: [like] }), '')
})

test('a filter that cannot be read counts as a hit, another failure does not', async () => {
  const [segment] = await segmentsOf([blocksOf(1, posts(5))])
  assert.ok(segment)
  const request = { dids: ['did:plc:nobody'] }
  const unreadable = (): never => {
    throw new SegmentError('bad-filter', 'damaged')
  }
  assert.equal(await unitsFor([Object.assign(segment, { readDidFilter: unreadable })], request), '')
  assert.equal(await unitsFor([Object.assign(segment, { readBlockDidFilters: unreadable })], request), '0')
  const gone = (): never => {
    throw new SegmentError('bad-header', 'the file ends early')
  }
  await assert.rejects(planSnapshot([Object.assign(segment, { readDidFilter: gone })], request), {
    problem: 'bad-header',
  })
})

test('a plan that takes so long that a segment was rewritten, and the old file closed, is made all the same', async () => {
  const [segment] = await segmentsOf([blocksOf(1, posts(5))])
  assert.ok(segment)
  const closed = (): never => {
    throw new SegmentError('closed', 'closed')
  }
  const rewritten = Object.assign(segment, { readDidFilter: closed, readBlockDidFilters: closed })
  assert.equal(await unitsFor([rewritten], { dids: ['did:plc:nobody'] }), '0')
})

test('a plan over many segments lets others have their turns, with any filter', async () => {
  const [segment] = await segmentsOf([blocksOf(1, posts(60))])
  assert.ok(segment)
  const segments = Array.from({ length: 5000 }, () => segment)
  const dids = Array.from({ length: 200 }, (_, i) => `did:plc:absent${i}`)
  for (const request of [{}, { collections: [post] }, { dids }]) {
    let turns = 0
    let isPlanned = false
    const count = (): void => {
      turns++
      if (!isPlanned) setImmediate(count)
    }
    setImmediate(count)
    await planSnapshot(segments, request)
    isPlanned = true
    assert.ok(turns >= 5, `${turns} turns`)
  }
})

test('a page of a plan is no larger than one turn of the event loop can send', async () => {
  const [segment] = await segmentsOf([blocksOf(1, posts(1))])
  assert.ok(segment)
  const segments = Array.from({ length: 3000 }, () => segment)
  assert.equal((await planSnapshot(segments, {})).stats.entries, 2500)
  assert.equal((await planSnapshot(segments, {}, { entriesMax: 0 })).stats.entries, 3000)
})

test('a plan works between the pauses that it is given, and its parts share each of them', async () => {
  const [segment] = await segmentsOf([blocksOf(1, posts(60))])
  assert.ok(segment)
  const segments = Array.from({ length: 5000 }, () => segment)
  let pauses = 0
  let isResting = false
  const pause = async (): Promise<void> => {
    assert.equal(isResting, false)
    isResting = true
    await new Promise((resolve) => setImmediate(resolve))
    isResting = false
    pauses++
  }
  await planSnapshot(segments, { collections: [post] }, { pause, entriesMax: 0 })
  // 300,000 blocks, and at most 20,000 looks and those of one segment in between.
  assert.ok(pauses >= 14 && pauses <= 30, `${pauses} pauses`)
})

test('each of many collections is found in its own block alone', async () => {
  const names = Array.from({ length: 20 }, (_, i) => `app.example.c${i}`)
  const segments = await segmentsOf([
    blocksOf(
      1,
      names.map((collection) => ({ collection })),
    ),
  ])
  for (const [i, name] of names.entries())
    assert.equal(await unitsFor(segments, { collections: [name] }), `0:${i}-${i}`)
  const some = [names[0] ?? '', names[8] ?? '', names[19] ?? '']
  assert.equal(await unitsFor(segments, { collections: some }), '0:0-0 0:8-8 0:19-19')
})

test('segments stay in order whichever filter is read first, and a plan that is cut ends where it says', async () => {
  const did = 'did:plc:wanted'
  const segments = await segmentsOf(
    Array.from({ length: 20 }, (_, i) => blocksOf(1 + 2 * i, [{ did }, { did: 'did:plc:other' }])),
  )
  const readers = segments.map((segment, i) => {
    const filters = segment.readBlockDidFilters()
    return Object.assign(segment, {
      readBlockDidFilters: async () => {
        // The last of those that are asked at a time is the first that is read.
        for (let turn = segments.length - i; turn > 0; turn--)
          await new Promise((resolve) => setImmediate(resolve))
        return filters
      },
    })
  })
  assert.equal(
    units(await planSnapshot(readers, { dids: [did] })),
    segments.map((_, i) => `${i}:0-0`).join(' '),
  )
  const cut = await planSnapshot(readers, { dids: [did] }, { entriesMax: 11 })
  assert.deepEqual([cut.stats.segmentsExamined, cut.plannedThroughSeq], [12, 21])
})

test('blocks and segments that compaction emptied are not named', async () => {
  const compacted = named(parseSegment(readVector('derived/synthetic_compacted.jss'), nodeDecompress), 0)
  const empty = named(parseSegment(readVector('derived/synthetic_empty.jss'), nodeDecompress), 1)
  const plan = await planSnapshot([compacted, empty], {})
  assert.equal(units(plan), '0:1-2', 'two of three blocks are left')
  assert.equal(
    await unitsFor([compacted, empty], { kinds: ['commit', 'identity', 'account', 'sync'] }),
    '0:1-2',
  )
  assert.deepEqual([plan.plannedThroughSeq, plan.sealedTipSeq, plan.stats.segmentsExamined], [10, 10, 1])
})

test('a plan that reaches its cap says how far it goes, also inside a segment', async () => {
  const columns = [post, like, post, like, post, like].map((collection) => ({ collection }))
  const segments = await segmentsOf([blocksOf(1, columns), blocksOf(7, posts(3)), blocksOf(10, columns)])
  const page = async (afterSeq: number, entriesMax: number): Promise<[string, number]> => {
    const plan = await planSnapshot(segments, { collections: [post], afterSeq }, { entriesMax })
    assert.equal(plan.sealedTipSeq, 15)
    return [units(plan), plan.plannedThroughSeq]
  }
  assert.deepEqual(await page(0, 2), ['0:0-0 0:2-2', 3])
  assert.deepEqual(await page(3, 2), ['0:4-4 1', 9])
  assert.deepEqual(await page(9, 3), ['2:0-0 2:2-2 2:4-4', 15])
  assert.deepEqual(await page(0, 7), ['0:0-0 0:2-2 0:4-4 1 2:0-0 2:2-2 2:4-4', 15])
  assert.deepEqual(await page(0, 0), ['0:0-0 0:2-2 0:4-4 1 2:0-0 2:2-2 2:4-4', 15])
  assert.deepEqual(await page(0, 1), ['0:0-0', 1])
})

/** The exact row filter of a client (segment-format.md 13). */
function wants(
  { kinds = [], dids = [], collections = [], afterSeq = 0, beforeSeq }: PlanRequest,
  row: Row,
): boolean {
  const names = { 4: 'identity', 5: 'account', 6: 'sync' } as const
  const kind = isCommitKind(row.kind) ? 'commit' : names[row.kind as 4 | 5 | 6] // What is left of the kinds.
  const inCollections =
    collections.length === 0 ||
    kind !== 'commit' ||
    collections.some((c) =>
      c.endsWith('.*') ? row.collection.startsWith(c.slice(0, -1)) : row.collection === c,
    )
  return (
    row.seq > afterSeq &&
    row.seq <= (beforeSeq ?? Infinity) &&
    (kinds.length === 0 || kinds.includes(kind)) &&
    (dids.length === 0 || dids.includes(row.did)) &&
    inCollections
  )
}

/** All rows that the plans lead to, page by page, as a client reads them (segment-format.md 13). */
async function sweep(segments: Segment[], request: PlanRequest, entriesMax: number): Promise<Row[]> {
  const rows: Row[] = []
  let afterSeq = request.afterSeq ?? 0
  for (let tip = Infinity; afterSeq < tip;) {
    const plan = await planSnapshot(segments, { ...request, afterSeq }, { entriesMax })
    tip = Math.min(tip, plan.sealedTipSeq)
    assert.ok(plan.plannedThroughSeq <= plan.sealedTipSeq)
    assert.ok(plan.plannedThroughSeq > afterSeq || plan.plannedThroughSeq >= tip, 'a page makes progress')
    for (const { index, blocks } of plan.segments) {
      const segment = segments[index]
      const ranges = blocks ?? [{ first: 0, last: (segment?.blocks.length ?? 0) - 1 }]
      for (const { first, last } of ranges) {
        for (let i = first; i <= last; i++) rows.push(...(segment?.readBlock(i).rows() ?? []))
      }
    }
    afterSeq = Math.max(afterSeq, plan.plannedThroughSeq)
  }
  return rows
}

test('no plan leaves out a row that the request wants, and pages repeat none', async () => {
  const dids = ['did:plc:a', 'did:plc:b', 'did:web:c.example']
  const anyColumns = fc.record({
    kind: fc.constantFrom(...Object.values(rowKind)),
    collection: fc.constantFrom(post, like, list),
    did: fc.constantFrom(...dids),
  })
  const anyArchive = fc.array(
    fc.array(fc.array(anyColumns, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 6 }),
    {
      minLength: 1,
      maxLength: 3,
    },
  )
  const anyRequest = fc.record(
    {
      kinds: fc.uniqueArray(fc.constantFrom('commit', 'identity', 'account', 'sync')),
      collections: fc.uniqueArray(
        fc.constantFrom(post, like, list, 'app.example.feed.*', 'app.example.graph.*'),
      ),
      dids: fc.uniqueArray(fc.constantFrom(...dids, 'did:plc:nobody')),
      afterSeq: fc.nat({ max: 20 }),
      beforeSeq: fc.integer({ min: 1, max: 40 }),
    },
    { requiredKeys: [] },
  )
  await fc.assert(
    fc.asyncProperty(anyArchive, anyRequest, fc.nat({ max: 3 }), async (archive, request, entriesMax) => {
      let seq = 0
      const blocksBySegment = archive.map((blocks) =>
        blocks.map((block) =>
          block.map((columns) => {
            const hasRecord = isCommitKind(columns.kind)
            return makeRow((seq += 1), hasRecord ? columns : { ...columns, collection: '', rkey: '' })
          }),
        ),
      )
      const all = blocksBySegment.flat(2)
      const found = await sweep(await segmentsOf(blocksBySegment), request, entriesMax)
      const exact = (rows: Row[]): Row[] => rows.filter((row) => wants(request, row))
      assert.deepEqual(exact(found), exact(all))
    }),
    { numRuns: 150 },
  )
})
