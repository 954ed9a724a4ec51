/**
 * An index that is built again from an archive, whose compaction has removed the history of records, puts records where the
 * earlier index has them. The histories are random; what the archive keeps is what a stream keeps.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { IndexWriter } from '@tributary/index-store'
import type { StreamEvent } from '@tributary/protocol'
import { isOnPostgres } from '@tributary/testkit'
import * as fc from 'fast-check'
import { EarlierPlaces } from './earlier-places.ts'
import { Fold } from './fold.ts'
import { openTestIndex } from '../../tests/open-test-index.ts'
import { accountEvent, deleteEvent, putEvent, rowsOf, syncEvent, views } from '../../tests/scenario.ts'

const runs = isOnPostgres ? 5 : 150
const policy = { updateContentTypes: [] }
const source = 'stream:test'
const collections = [
  'org.impact.context.evaluation',
  'app.attested.badge.definition',
  'org.impact.claim.activity',
]

function time(seconds: number): string {
  return new Date(Date.UTC(2026, 2, 4) + seconds * 1000).toISOString().replace('Z', '000Z')
}

const author = fc.constantFrom('x', 'y')
const place = fc.record({
  name: author,
  collection: fc.constantFrom(...collections),
  rkey: fc.constantFrom('a', 'b'),
})
const put = fc
  .tuple(place, fc.nat(3), fc.option(fc.nat(100)))
  .map(([{ name, collection, rkey }, kind, at]) => (seq: number): StreamEvent => {
    const record = { kind, ...(at !== null && { createdAt: time(at) }) }
    return putEvent(seq, time(seq * 20), name, collection, rkey, record).event
  })
const remove = place.map(
  ({ name, collection, rkey }) =>
    (seq: number): StreamEvent =>
      deleteEvent(seq, time(seq * 20), name, collection, rkey),
)
const account = fc.tuple(author, fc.constantFrom('active', 'active', 'deactivated', 'deleted')).map(
  ([name, status]) =>
    (seq: number): StreamEvent =>
      accountEvent(seq, time(seq * 20), name, status === 'active', status),
)
const sync = author.map(
  (name) =>
    (seq: number): StreamEvent =>
      syncEvent(seq, time(seq * 20), name),
)
const history = fc
  .array(
    fc.oneof(
      { weight: 12, arbitrary: put },
      { weight: 3, arbitrary: remove },
      { weight: 1, arbitrary: account },
      { weight: 1, arbitrary: sync },
    ),
    { minLength: 10, maxLength: 60, size: 'max' },
  )
  .map((make) => make.map((event, index) => event(index + 1)))

/** Compaction leaves no creates and updates that a later row supersedes. */
function compacted(events: readonly StreamEvent[]): StreamEvent[] {
  return events.filter((event, at) => {
    if (event.kind !== 'commit' || event.operation === 'delete') return true
    return !events.slice(at + 1).some((later) => {
      if (later.did !== event.did) return false
      if (later.kind === 'commit') return later.collection === event.collection && later.rkey === event.rkey
      return later.kind === 'sync' || (later.kind === 'account' && later.account.status === 'deleted')
    })
  })
}

async function shown(writer: IndexWriter): Promise<Record<string, string[]>> {
  const records = await rowsOf(writer, 'records')
  const entries = await rowsOf(writer, 'entries')
  return {
    records: records
      .map(({ uri, cid, indexedAt, createdAt, feedTime }) =>
        [uri, cid, indexedAt, createdAt, feedTime].join(' '),
      )
      .toSorted(),
    entries: entries.map(({ uri, kind, feedTime }) => [uri, kind, feedTime].join(' ')).toSorted(),
  }
}

test('an index that is built again from a compacted archive shows every record at its place', async () => {
  const cuts = fc.record({ earlier: fc.nat(60), next: fc.nat(60), size: fc.integer({ min: 1, max: 20 }) })
  await fc.assert(
    fc.asyncProperty(history, cuts, async (events, { earlier: cut, next: read, size }) => {
      await using earlier = await openTestIndex()
      await using next = await openTestIndex()
      const before = new Fold(earlier, policy, views)
      const again = new Fold(next, policy, views, new EarlierPlaces(earlier, source))
      const foldAll = async (fold: Fold, some: readonly StreamEvent[]): Promise<void> => {
        for (let at = 0; at < some.length; at += size)
          await fold.apply(source, some.slice(at, at + size), some[at + size - 1]?.seq ?? 0)
      }
      await foldAll(before, events.slice(0, cut))
      await foldAll(again, compacted(events.slice(0, cut)).slice(0, read))
      // The earlier one goes on while the next one is built, and so does compaction.
      await foldAll(before, events)
      const reached = await again.stream.cursor(source)
      await foldAll(
        again,
        compacted(events).filter(({ seq }) => seq > reached),
      )
      assert.deepEqual(await shown(next), await shown(earlier))
    }),
    { numRuns: runs },
  )
})

test('the first createdAt of a record that was edited stays when the archive has only the edit', async () => {
  await using earlier = await openTestIndex()
  const evaluation = 'org.impact.context.evaluation'
  const events = [
    putEvent(1, time(1), 'x', evaluation, 'a', { createdAt: time(8 * 3600) }).event,
    putEvent(2, time(2), 'x', evaluation, 'a', { createdAt: time(11 * 3600) }).event,
  ]
  await new Fold(earlier, policy, views).apply(source, events, 2)
  await using next = await openTestIndex()
  await new Fold(next, policy, views, new EarlierPlaces(earlier, source)).apply(source, compacted(events), 2)
  const [record] = await rowsOf(next, 'records')
  const [known] = await rowsOf(earlier, 'records')
  assert.equal(record?.feedTime, known?.feedTime)
  assert.equal(record?.createdAt, known?.createdAt)
})

test('a record that was made again after what the earlier index has read begins again', async () => {
  await using earlier = await openTestIndex()
  await using next = await openTestIndex()
  const evaluation = 'org.impact.context.evaluation'
  const events = [
    putEvent(1, time(1), 'x', evaluation, 'a', { createdAt: time(8 * 3600) }).event,
    deleteEvent(2, time(2), 'x', evaluation, 'a'),
    putEvent(3, time(3), 'x', evaluation, 'a', { createdAt: time(11 * 3600) }).event,
  ]
  await new Fold(earlier, policy, views).apply(source, events.slice(0, 1), 1)
  await new Fold(next, policy, views, new EarlierPlaces(earlier, source)).apply(source, events, 3)
  await new Fold(earlier, policy, views).apply(source, events, 3)
  assert.deepEqual(await shown(next), await shown(earlier))
})
