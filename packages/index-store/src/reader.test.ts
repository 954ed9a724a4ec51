/** What reading promises on every database. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { newPostgresDatabase } from '@tributary/testkit'
import { did, fill, limits, selection, timesOf, viewer, withoutWindow } from '../tests/filled-index.ts'
import { openIndexReader, openIndexWriter } from './open-index.ts'
import type { IndexReader } from './reader.ts'
import type { Selection } from './select/selection.ts'
import type { IndexWriter } from './writer.ts'

/** More than one step looks at. */
const many = 3500

/** An index of its own in a file, or in PostgreSQL when the tests run on it. */
async function startIndex(
  options?: typeof withoutWindow,
): Promise<AsyncDisposable & { writer: IndexWriter; reader: IndexReader }> {
  await using resources = new AsyncDisposableStack()
  const directory = resources.use(await mkdtempDisposable(join(tmpdir(), 'index-reader-')))
  const place = (await newPostgresDatabase()) ?? join(directory.path, 'index.sqlite')
  const writer = resources.use(await openIndexWriter(place))
  const reader = resources.use(openIndexReader(place, options))
  const started = resources.move()
  return { writer, reader, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

test('a snapshot is one state of the index, whatever is written meanwhile', async () => {
  await using index = await startIndex()
  const { writer, reader } = index
  await fill(writer, { follows: [['follows', viewer, did(1)]], entries: [[did(1), 1n]] })
  await reader.snapshot(limits, async (view) => {
    const before = await view.entries(selection)
    await fill(writer, { entries: [[did(1), 2n]] })
    assert.deepEqual(await view.entries(selection), before)
  })
  assert.deepEqual(await timesOf(reader), [2, 1])
})

test('accounts that are looked at in several steps give the same entries as in one', async () => {
  await using index = await startIndex(withoutWindow)
  const { writer, reader } = index
  const authors = Array.from({ length: many }, (_, index) => did(index))
  const evaluators = [did('first'), did('second'), did('third')]
  await fill(writer, {
    follows: [
      ...authors.map((author) => ['follows', viewer, author]),
      // The last of an author's range, some that are followed too, and one that nobody else names.
      ...authors.slice(-1200).map((author) => ['endorsements', did('first'), author]),
      ...authors.slice(0, 700).map((author) => ['endorsements', did('second'), author]),
      ['endorsements', did('third'), did('newcomer')],
      ['endorsements', did('third'), viewer],
    ],
    entries: [
      ...authors.map((author, index): [Did, bigint] => [author, BigInt((index * 7919) % many)]),
      [did('newcomer'), BigInt(many)],
      [viewer, BigInt(many + 1)],
      [did(17), BigInt(many), 'b'],
      [did(3499), BigInt(many), 'a'],
    ],
  })
  const all = { limit: many * 2, evaluators }
  const wanted = [...Array(many).keys()].toReversed()
  assert.deepEqual(await timesOf(reader, all), [many, many, many, ...wanted])
  assert.deepEqual(await timesOf(reader, { ...all, limit: 5 }), [many, many, many, ...wanted.slice(0, 2)])
  assert.deepEqual(await timesOf(reader, { limit: 4 }), [many, many, ...wanted.slice(0, 2)])
  const walked: string[] = []
  let after: Selection['after']
  do {
    const next: Partial<Selection> = after ? { after } : {}
    const page = await reader.snapshot(limits, (view) =>
      view.entries({ ...selection, ...all, limit: 999, ...next }),
    )
    walked.push(...page.map(({ uri }) => uri))
    after = page.at(-1)
  } while (after !== undefined)
  assert.deepEqual([walked.length, new Set(walked).size], [many + 3, many + 3])
})

test('a read that takes longer than its time ends between two steps', async () => {
  await using index = await startIndex()
  const { writer, reader } = index
  await fill(writer, { follows: [['follows', viewer, did(1)]] })
  await assert.rejects(
    reader.snapshot({ timeoutMs: 0 }, (view) => view.entries(selection)),
    { name: 'ReadTimeoutError' },
  )
  assert.deepEqual(await timesOf(reader), [])
})

test('a read whose caller has gone ends between two steps', async () => {
  await using index = await startIndex()
  const { reader } = index
  const caller = new AbortController()
  const read = reader.snapshot({ ...limits, signal: caller.signal }, async (view) => {
    caller.abort(new Error('gone'))
    return view.entries(selection)
  })
  await assert.rejects(read, { message: 'gone' })
  await assert.rejects(
    reader.snapshot({ ...limits, signal: caller.signal }, async () => 1),
    { message: 'gone' },
  )
})

test('reads of one cause leave places for others, and room in the line', async () => {
  await using index = await startIndex()
  const { reader } = index
  const held = Promise.withResolvers<void>()
  const asked = Array.from({ length: 300 }, () =>
    reader.snapshot({ ...limits, cause: 'a' }, async () => held.promise),
  )
  const settled = Promise.allSettled(asked)
  assert.equal(await reader.snapshot({ ...limits, cause: 'b' }, async () => 1), 1)
  held.resolve()
  const refused = (await settled).flatMap((each) =>
    each.status === 'rejected' ? [each.reason as Error] : [],
  )
  assert.equal(refused.length, 300 - 8 - 128, 'half of the places, and half of the line')
  for (const { name } of refused) assert.equal(name, 'ReaderBusyError')
})

test('what speaks for an account is whoever follows or endorses it for the viewer, and its labels that count', async () => {
  await using index = await startIndex()
  const { writer, reader } = index
  const [author, silent, endorser, stranger, labeler] = [1, 2, 3, 4, 5].map(did)
  assert.ok(author && silent && endorser && stranger && labeler)
  await fill(writer, {
    follows: [
      ['follows', viewer, author],
      ['follows', viewer, author],
      ['follows', stranger, silent],
      ['endorsements', endorser, author],
      ['endorsements', stranger, author],
    ],
  })
  const label = {
    src: labeler,
    did: author,
    uri: author,
    cid: null,
    val: 'draft',
    neg: 0n,
    cts: 5n,
    exp: null,
  } as const
  await writer.write(async (batch) => {
    await batch.put('organizations', [{ did: author }])
    await batch.put('labels', [
      label,
      { ...label, cts: 6n },
      { ...label, val: 'high-quality', exp: 50n },
      { ...label, val: 'standard' },
      { ...label, val: 'standard', neg: 1n },
      { ...label, val: 'likely-test', src: stranger },
    ])
  })
  const query = { viewer, evaluators: [endorser], labelers: [labeler], dids: [author, silent] }
  const at = (now: bigint) => reader.snapshot(limits, (view) => view.reasons({ ...query, now }))
  const wanted = {
    follows: [`at://${viewer}/follows/0`, `at://${viewer}/follows/1`],
    endorsedBy: [endorser],
    isOrganization: true,
    labels: [
      { val: 'draft', src: labeler },
      { val: 'high-quality', src: labeler },
    ],
  }
  assert.deepEqual([...(await at(49n))], [[author, wanted]])
  assert.deepEqual([...(await at(50n))], [[author, { ...wanted, labels: wanted.labels.slice(0, 1) }]])
})

test('a labeler that has said the same for years does not hold up a page', async () => {
  await using index = await startIndex()
  const { writer, reader } = index
  const [rated, negated, labeler] = [did('rated'), did('negated'), did('labeler')]
  await fill(writer, {
    follows: [rated, negated].map((author) => ['follows', viewer, author]),
    entries: [
      [rated, 1n],
      [negated, 2n],
    ],
  })
  // Looking at each label for each other one would take minutes.
  const times = Array.from({ length: 30_000 }, (_, at) => BigInt(at))
  await writer.write(async (batch) => {
    for (const account of [rated, negated]) {
      await batch.put('organizations', [{ did: account }])
      const label = { src: labeler, did: account, uri: account, cid: null, val: 'draft', exp: null } as const
      await batch.put(
        'labels',
        times.map((cts) => ({ ...label, neg: 0n, cts })),
      )
      const endsAt = account === negated ? 30_000n : 15_000n
      await batch.put('labels', [{ ...label, neg: 1n, cts: endsAt }])
    }
  })
  const labelers = [labeler]
  const quality = { allowed: ['draft'], includeUnrated: false }
  assert.deepEqual(await timesOf(reader, { labelers, quality }), [1])
  const unrated = { allowed: [], includeUnrated: true }
  assert.deepEqual(await timesOf(reader, { labelers, quality: unrated }), [2])
  const reasons = await reader.snapshot(limits, (view) =>
    view.reasons({ viewer, evaluators: [], labelers, dids: [rated, negated], now: 0n }),
  )
  assert.deepEqual(
    [reasons.get(rated)?.labels, reasons.get(negated)?.labels],
    [[{ val: 'draft', src: labeler }], []],
  )
})

test('handles that wait are counted up to a bound', async () => {
  await using index = await startIndex()
  const { writer, reader } = index
  const asked = [1, 2, 3].map((name) => ({ did: did(name), seq: 0n, attempts: 0n, dueAt: 0n }))
  await writer.write((batch) => batch.put('handleRequests', asked))
  const counted = (max: number): Promise<number> =>
    reader.snapshot(limits, (view) => view.waitingHandles(max))
  assert.deepEqual([await counted(2), await counted(4)], [2, 3])
})
