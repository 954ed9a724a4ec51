/**
 * Random histories of a few accounts, folded in one pass, in random batches with repeats, and with batches that fail half
 * way; each must end in the same database, and that must be what the rules say.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { IndexWriter, TableName } from '@tributary/index-store'
import { feedCollections, type StreamEvent } from '@tributary/protocol'
import { isOnPostgres } from '@tributary/testkit'
import * as fc from 'fast-check'
import { Fold } from './fold.ts'
import { openTestIndex } from '../../tests/open-test-index.ts'
import { reference, type Shown } from '../../tests/reference.ts'
import {
  accountEvent,
  cidOf,
  deleteEvent,
  did,
  failing,
  putEvent,
  rowsOf,
  syncEvent,
  views,
} from '../../tests/scenario.ts'

const names = ['x', 'y', 'z']
/** Fewer on PostgreSQL, where each history has a database of its own, which takes a while to make. */
const runs = isOnPostgres ? 5 : 50

/** Records that others refer to have one key, and contents are few: references hit, miss and hit again as records change. */
const referred: readonly string[] = [
  feedCollections.activity,
  feedCollections.definition,
  feedCollections.award,
]
const author = fc.constantFrom(...names)
const key = fc.constantFrom('self', 'k1')
const variant = fc.constantFrom(0, 0, 0, 0, 0, 0, 0, 1, 2)
const second = fc.nat(100)

function keyOf(collection: string, rkey: string): string {
  return referred.includes(collection) ? 'k1' : rkey
}

function time(seconds: number): string {
  return new Date(Date.UTC(2026, 2, 4) + seconds * 1000).toISOString().replace('Z', '000Z')
}

function ref(owner: string, collection: string, record: Record<string, unknown>) {
  return { uri: `at://${did(owner)}/${collection}/k1`, cid: cidOf({ $type: collection, ...record }) }
}

function activityOf(kind: number): Record<string, unknown> {
  return { title: `t${kind}`, createdAt: time(kind * 45) }
}

function definitionOf(owner: string, kind: number): Record<string, unknown> {
  const allowed = kind === 1 ? { allowedIssuers: [did(owner)] } : {}
  return { badgeType: kind === 2 ? 'recognition' : 'endorsement', ...allowed }
}

function awardOf(owner: string, kind: number, subject: string): Record<string, unknown> {
  const badge = ref(owner, feedCollections.definition, definitionOf(owner, kind))
  return { badge, subject: { $type: 'app.attested.defs#did', did: did(subject) } }
}

/** A record of an author, given whom it may be about. */
type Content = readonly [collection: string, record: Record<string, unknown>]
const choices = fc.record({
  a: author,
  b: author,
  kind: variant,
  at: second,
  flag: fc.boolean(),
  owns: fc.boolean(),
})
type Choices = typeof choices extends fc.Arbitrary<infer T> ? T : never

const contents: readonly ((name: string, choices: Choices) => Content)[] = [
  (_, { kind }) => [feedCollections.activity, activityOf(kind)],
  (name, { a, kind, at, flag, owns }) => {
    const item = { itemIdentifier: ref(owns ? name : a, feedCollections.activity, activityOf(kind)) }
    const items = at % 4 === 0 ? [item, item] : [item]
    return [feedCollections.collection, { items, ...(flag && { createdAt: time(at) }) }]
  },
  (name, { kind }) => [feedCollections.definition, definitionOf(name, kind)],
  (_, { a, b, kind }) => [feedCollections.award, awardOf(a, kind, b)],
  (name, { a, b, kind, at, flag, owns }) => {
    const badgeAward = ref(a, feedCollections.award, awardOf(b, kind, owns ? name : a))
    return [
      feedCollections.response,
      { badgeAward, response: flag ? 'rejected' : 'accepted', createdAt: time(at) },
    ]
  },
  (_, { at }) => [feedCollections.evaluation, { createdAt: time(at) }],
  (_, { kind }) => [feedCollections.attachment, { kind }],
  (_, { a }) => [feedCollections.follow, { subject: did(a) }],
  () => [feedCollections.organization, {}],
]

/** The first of them refer to each other; they come more often. */
const connected = contents.slice(0, 5)

type MakeEvent = (seq: number) => StreamEvent

const makeEvent: fc.Arbitrary<MakeEvent> = fc.oneof(
  {
    weight: 16,
    arbitrary: fc
      .tuple(author, key, fc.constantFrom(...contents, ...connected, ...connected), choices)
      .map(([name, rkey, make, chosen]): MakeEvent => {
        const [collection, record] = make(name, chosen)
        return (seq) => putEvent(seq, time(seq * 20), name, collection, keyOf(collection, rkey), record).event
      }),
  },
  {
    weight: 3,
    arbitrary: fc.tuple(author, key, fc.constantFrom(...Object.values(feedCollections))).map(
      ([name, rkey, collection]): MakeEvent =>
        (seq) =>
          deleteEvent(seq, time(seq * 20), name, collection, keyOf(collection, rkey)),
    ),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        author,
        fc.constantFrom('active', 'active', 'active', 'throttled', 'deactivated', 'takendown', 'deleted'),
      )
      .map(
        ([name, status]): MakeEvent =>
          (seq) =>
            accountEvent(seq, time(seq * 20), name, status === 'active', status),
      ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(author, fc.constantFrom<'stream' | 'upstream'>('stream', 'upstream')).map(
      ([name, from]): MakeEvent =>
        (seq) =>
          syncEvent(seq, time(seq * 20), name, from),
    ),
  },
)

/** Events with growing but not consecutive numbers. */
const history = fc
  .array(makeEvent, { minLength: 30, maxLength: 90, size: 'max' })
  .map((make) => make.map((event, i) => event(i * 3 + 1)))

const everyTable = [
  'records',
  'views',
  'entries',
  'endorsements',
  'follows',
  'organizations',
  'accounts',
  'cursors',
  'foldedEvents',
  'collectionItems',
  'awards',
  'responses',
  'superseded',
  'handleRequests',
  'remakes',
] as const

async function dump(writer: IndexWriter): Promise<Record<string, string[]>> {
  const tables: Record<string, string[]> = {}
  for (const table of everyTable) {
    const rows: object[] = await rowsOf(writer, table)
    tables[table] = rows.map((row) => JSON.stringify(row, textOfBigint)).toSorted()
  }
  return tables
}

const textOfBigint = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}n` : value)

async function shown(writer: IndexWriter): Promise<Shown> {
  const rows = <T extends TableName>(table: T) => rowsOf(writer, table)
  return {
    records: (await rows('records')).map((row) => [row.uri, row.cid, row.indexedAt, row.createdAt]),
    entries: (await rows('entries')).map(({ uri, kind, feedTime }) => [uri, kind, feedTime]),
    endorsements: (await rows('endorsements')).map(({ issuer, subject }) => [issuer, subject]),
    follows: (await rows('follows')).map(({ viewer, subject }) => [viewer, subject]),
    organizations: (await rows('organizations')).map((row) => row.did),
  }
}

/** Row order has no meaning here. */
function sorted(what: Shown): Record<string, string[]> {
  return Object.fromEntries(
    Object.entries(what).map(([name, rows]) => [name, rows.map((row: unknown) => String(row)).toSorted()]),
  )
}

const source = 'stream:test'

/** `setBroken` makes the database fail, with a transaction under way, until it is told otherwise. */
type Run = (fold: () => Fold, setBroken: (isBroken: boolean) => void) => Promise<void>

/** How much is done at once, from hardly anything on. */
const bounds = fc.record({
  transactionRows: fc.integer({ min: 1, max: 80 }),
  noted: fc.integer({ min: 1, max: 8 }),
})

async function folded(
  events: readonly StreamEvent[],
  run: Run = async () => {},
  atOnce: { transactionRows?: number; noted?: number } = {},
) {
  const connection = await openTestIndex()
  let isBroken = false
  const writer = failing(connection, () => isBroken)
  await run(
    () => new Fold(writer, { updateContentTypes: [] }, views, atOnce),
    (state) => (isBroken = state),
  )
  const fold = new Fold(connection, { updateContentTypes: [] }, views, atOnce)
  await fold.apply(source, events, events.at(-1)?.seq ?? 0)
  return connection
}

test('after any history the index holds what the rules say', async () => {
  await fc.assert(
    fc.asyncProperty(history, async (events) => {
      await using connection = await folded(events)
      assert.deepEqual(sorted(await shown(connection)), sorted(reference(events)))
    }),
    { numRuns: runs },
  )
})

test('batches, repeats, failures half way, restarts and how much is done at once make no difference', async () => {
  const step = fc.record({ from: fc.nat(90), count: fc.nat(30), fails: fc.boolean(), restarts: fc.boolean() })
  await fc.assert(
    fc.asyncProperty(history, fc.array(step, { maxLength: 12 }), bounds, async (events, steps, atOnce) => {
      await using once = await folded(events)
      const inPieces: Run = async (start, setBroken) => {
        let fold = start()
        for (const { from, count, fails, restarts } of steps) {
          if (restarts) fold = start()
          // Never past the first event that is still missing: a consumer repeats, it does not skip.
          const cursor = await fold.stream.cursor(source)
          const done = events.filter(({ seq }) => seq <= cursor).length
          const batch = events.slice(Math.min(from, done), done + count)
          const last = batch.at(-1)
          if (last === undefined) continue
          if (fails) {
            setBroken(true)
            await assert.rejects(fold.apply(source, batch, last.seq), { name: 'IndexStorageError' })
            setBroken(false)
          } else await fold.apply(source, batch, last.seq)
        }
      }
      await using pieces = await folded(events, inPieces, atOnce)
      assert.deepEqual(await dump(pieces), await dump(once))
    }),
    { numRuns: runs },
  )
})

test('what is done beside the events, while others are folded, ends in the same rows', async () => {
  const step = fc.record({ count: fc.integer({ min: 1, max: 30 }), works: fc.boolean() })
  const beside = fc.integer({ min: 0, max: 8 })
  const never = new AbortController().signal
  await fc.assert(
    fc.asyncProperty(history, fc.array(step), bounds, beside, async (events, steps, atOnce, besideRows) => {
      await using once = await folded(events)
      await using connection = await openTestIndex()
      const start = (): Fold =>
        new Fold(connection, { updateContentTypes: [] }, views, { ...atOnce, besideRows })
      const fold = start()
      const underWay: Promise<number>[] = []
      let done = 0
      for (const { count, works } of steps) {
        if (works) underWay.push(fold.workBeside(never))
        const batch = events.slice(done, (done += count))
        const last = batch.at(-1)
        if (last) await fold.apply(source, batch, last.seq)
      }
      await fold.apply(source, events, events.at(-1)?.seq ?? 0)
      await Promise.all(underWay)
      const next = start()
      while (await next.workBeside(never));
      assert.deepEqual(await dump(connection), await dump(once))
    }),
    { numRuns: runs },
  )
})
