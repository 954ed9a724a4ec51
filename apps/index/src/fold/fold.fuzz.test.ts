/**
 * Random histories of a few accounts, folded in one pass, in random batches with repeats, and with batches that fail half
 * way; each must end in the same database, and that must be what the rules say.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type IndexWriter, openIndexWriter } from '@tributary/index-store'
import type { StreamEvent } from '@tributary/protocol'
import * as fc from 'fast-check'
import { Fold } from './fold.ts'
import { collections } from './record-facts.ts'
import { reference, type Shown } from '../../tests/reference.ts'
import { accountEvent, cidOf, deleteEvent, did, putEvent, syncEvent, views } from '../../tests/scenario.ts'

const names = ['x', 'y', 'z']
const runs = 150

/** Records that others refer to have one key, and contents are few: references hit, miss and hit again as records change. */
const referred: readonly string[] = [collections.activity, collections.definition, collections.award]
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
  const badge = ref(owner, collections.definition, definitionOf(owner, kind))
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
  (_, { kind }) => [collections.activity, activityOf(kind)],
  (name, { a, kind, at, flag, owns }) => {
    const items = [{ itemIdentifier: ref(owns ? name : a, collections.activity, activityOf(kind)) }]
    return [collections.collection, { items, ...(flag && { createdAt: time(at) }) }]
  },
  (name, { kind }) => [collections.definition, definitionOf(name, kind)],
  (_, { a, b, kind }) => [collections.award, awardOf(a, kind, b)],
  (name, { a, b, kind, at, flag, owns }) => {
    const badgeAward = ref(a, collections.award, awardOf(b, kind, owns ? name : a))
    return [
      collections.response,
      { badgeAward, response: flag ? 'rejected' : 'accepted', createdAt: time(at) },
    ]
  },
  (_, { at }) => [collections.evaluation, { createdAt: time(at) }],
  (_, { kind }) => [collections.attachment, { kind }],
  (_, { a }) => [collections.follow, { subject: did(a) }],
  () => [collections.organization, {}],
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
    arbitrary: fc.tuple(author, key, fc.constantFrom(...Object.values(collections))).map(
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
        fc.constantFrom('active', 'active', 'active', 'active', 'deactivated', 'takendown', 'deleted'),
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
]

function dump({ sqlite }: IndexWriter): Record<string, string[]> {
  const rows = (table: string) => sqlite.prepare<[], unknown[]>(`select * from ${table}`).raw().all()
  return Object.fromEntries(everyTable.map((table) => [table, rows(table).map(String).toSorted()]))
}

function shown({ sqlite }: IndexWriter): Shown {
  const rows = (query: string) => sqlite.prepare(query).raw().all() as never // compared deeply with Shown
  return {
    records: rows('select uri, cid, indexedAt, createdAt from records'),
    entries: rows('select uri, kind, feedTime from entries'),
    endorsements: rows('select issuer, subject from endorsements'),
    follows: rows('select viewer, subject from follows'),
    organizations: sqlite.prepare('select did from organizations').pluck().all() as never, // as above
  }
}

/** Row order has no meaning here. */
function sorted(what: Shown): Record<string, string[]> {
  return Object.fromEntries(
    Object.entries(what).map(([name, rows]) => [name, rows.map((row: unknown) => String(row)).toSorted()]),
  )
}

const source = 'stream:test'

type Run = (fold: () => Fold, connection: IndexWriter) => Promise<void>

async function folded(events: readonly StreamEvent[], run: Run = async () => {}) {
  const connection = await openIndexWriter(':memory:')
  await run(() => new Fold(connection, { updateContentTypes: [] }, views), connection)
  await new Fold(connection, { updateContentTypes: [] }, views).apply(source, events, events.at(-1)?.seq ?? 0)
  return connection
}

test('after any history the index holds what the rules say', async () => {
  await fc.assert(
    fc.asyncProperty(history, async (events) => {
      await using connection = await folded(events)
      assert.deepEqual(sorted(shown(connection)), sorted(reference(events)))
    }),
    { numRuns: runs },
  )
})

test('batches, repeats, failures half way and restarts make no difference', async () => {
  const step = fc.record({ from: fc.nat(90), count: fc.nat(30), fails: fc.boolean(), restarts: fc.boolean() })
  await fc.assert(
    fc.asyncProperty(history, fc.array(step, { maxLength: 12 }), async (events, steps) => {
      await using once = await folded(events)
      await using pieces = await folded(events, async (start, connection) => {
        let fold = start()
        for (const { from, count, fails, restarts } of steps) {
          if (restarts) fold = start()
          // Never past the first event that is still missing: a consumer repeats, it does not skip.
          const done = events.filter(({ seq }) => seq <= fold.stream.cursor(source)).length
          const batch = events.slice(Math.min(from, done), done + count)
          const last = batch.at(-1)
          if (last === undefined) continue
          if (fails) {
            const failing = [...batch, broken(last.seq + 1, connection)]
            await assert.rejects(fold.apply(source, failing, last.seq), { code: 'SQLITE_READONLY' })
            connection.sqlite.pragma('query_only = 0')
          } else await fold.apply(source, batch, last.seq)
        }
      })
      assert.deepEqual(dump(pieces), dump(once))
    }),
    { numRuns: runs },
  )
})

/** An event at which the database can no longer be written, with a transaction under way. */
function broken(seq: number, { sqlite }: IndexWriter): StreamEvent {
  const event = putEvent(seq, time(0), 'x', collections.evaluation, `k${seq}`, {}).event
  return Object.defineProperty({ ...event }, 'kind', {
    get() {
      sqlite.pragma('query_only = 1')
      return event.kind
    },
  })
}
