/**
 * An index that is built again from an archive, whose compaction has removed the history of records, puts records where the
 * earlier index has them. The histories are random; what the archive keeps is what a stream keeps.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamEvent } from '@tributary/protocol'
import { isOnPostgres } from '@tributary/testkit'
import * as fc from 'fast-check'
import { EarlierPlaces } from './earlier-places.ts'
import { Fold } from './fold.ts'
import { compacted, shown } from '../../tests/compacted.ts'
import { openTestIndex } from '../../tests/open-test-index.ts'
import { accountEvent, deleteEvent, putEvent, syncEvent, views } from '../../tests/scenario.ts'

const runs = isOnPostgres ? 5 : 60
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

test('an index that is built again from a compacted archive shows every record at its place', async () => {
  const cuts = fc.record({ earlier: fc.nat(60), next: fc.nat(60), size: fc.integer({ min: 1, max: 20 }) })
  await fc.assert(
    fc.asyncProperty(history, cuts, async (events, { earlier: cut, next: read, size }) => {
      await using earlier = await openTestIndex()
      await using next = await openTestIndex()
      const before = new Fold(earlier, policy, views)
      const again = new Fold(next, policy, views, { earlier: new EarlierPlaces(earlier) })
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
