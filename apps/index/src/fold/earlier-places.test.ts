import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StreamEvent } from '@tributary/protocol'
import { compacted, shown } from '../../tests/compacted.ts'
import { openTestIndex } from '../../tests/open-test-index.ts'
import { putEvent, rowsOf, views } from '../../tests/scenario.ts'
import { EarlierPlaces } from './earlier-places.ts'
import { Fold } from './fold.ts'

const policy = { updateContentTypes: [] }
const source = 'stream:test'

function time(seconds: number): string {
  return new Date(Date.UTC(2026, 2, 4) + seconds * 1000).toISOString().replace('Z', '000Z')
}

test('the first createdAt of a record that was edited stays when the archive has only the edit', async () => {
  await using earlier = await openTestIndex()
  const evaluation = 'org.impact.context.evaluation'
  const events = [
    putEvent(1, time(1), 'x', evaluation, 'a', { createdAt: time(8 * 3600) }).event,
    putEvent(2, time(2), 'x', evaluation, 'a', { createdAt: time(11 * 3600) }).event,
  ]
  await new Fold(earlier, policy, views).apply(source, events, 2)
  await using next = await openTestIndex()
  await new Fold(next, policy, views, { earlier: new EarlierPlaces(earlier) }).apply(
    source,
    compacted(events),
    2,
  )
  const [record] = await rowsOf(next, 'records')
  const [known] = await rowsOf(earlier, 'records')
  assert.equal(record?.feedTime, known?.feedTime)
  assert.equal(record?.createdAt, known?.createdAt)
})

test('a record that was something else in between has the place of its last change', async () => {
  await using earlier = await openTestIndex()
  await using next = await openTestIndex()
  const put = (seq: number, kind: number): StreamEvent =>
    putEvent(seq, time(seq), 'x', 'app.attested.badge.definition', 'a', { kind }).event
  const events = [put(1, 1), put(2, 0), put(3, 1)]
  const before = new Fold(earlier, policy, views)
  await before.apply(source, events.slice(0, 1), 1)
  const again = new Fold(next, policy, views, { earlier: new EarlierPlaces(earlier) })
  await again.apply(source, events.slice(0, 1), 1)
  await before.apply(source, events.slice(1), 3)
  await again.apply(source, compacted(events), 3)
  assert.deepEqual(await shown(next), await shown(earlier))
})
