/** Cases 100 to 125 of the feed specification: kinds, project pairs, order and paging. */
import assert from 'node:assert/strict'
import { type Case, getFeed, getFeedSkeleton, impactFeedId } from './case.ts'
import { startConformance } from './conformance.ts'
import { at, noon, type Ref } from './made.ts'

const conformance = startConformance()

function listing(activity: Ref, more: object = {}): object {
  return { items: [{ itemIdentifier: activity }], ...more }
}

/** V follows A, whose activity is of ten o'clock; the collection that lists it is of another time. */
function pair(k: Case, collectionAt: string): Ref {
  k.follow(k.A)
  const activity = k.put(k.A, 'activity', 'act', { createdAt: at('10:00') })
  k.put(k.A, 'collection', 'coll', listing(activity, { createdAt: at(collectionAt) }))
  return activity
}

const project = ['project.created_with_cert coll']
const apart = ['cert.create act', 'collection.create coll']
const sorted = async (k: Case): Promise<string[]> => (await k.kinds()).toSorted()

conformance(100, 'a collection within a minute of its activity is a project', async (k) => {
  pair(k, '10:00:59.999')
  assert.deepEqual(await k.kinds(), project)
})

conformance(101, 'exactly sixty seconds are no pair', async (k) => {
  pair(k, '10:01:00')
  assert.deepEqual(await sorted(k), apart)
})

conformance(102, 'the collection may be the older one', async (k) => {
  pair(k, '09:59:30')
  assert.deepEqual(await k.kinds(), project)
})

conformance(103, 'a collection that lists an old content is no pair', async (k) => {
  pair(k, '10:00:30')
  k.put(k.A, 'activity', 'act', { createdAt: at('10:00'), title: 'More trees' })
  assert.deepEqual(await sorted(k), apart)
})

conformance(104, 'a collection of another author is no pair', async (k) => {
  k.follow(k.A)
  k.follow(k.B)
  k.put(k.B, 'collection', 'coll', listing(k.put(k.A, 'activity', 'act')))
  assert.deepEqual(await sorted(k), apart)
})

conformance(105, 'without valid times of their own the index times decide', async (k) => {
  k.follow(k.A)
  const dated = { createdAt: '2026-03-04' }
  const near = k.put(k.A, 'activity', 'near', dated, at('10:00'))
  k.put(k.A, 'collection', 'coll', listing(near, dated), at('10:00:30'))
  const far = k.put(k.A, 'activity', 'far', dated, at('08:00'))
  k.put(k.A, 'collection', 'late', listing(far, dated), at('08:01'))
  assert.deepEqual(await k.keys(), ['coll', 'late', 'far'])
})

conformance(106, 'a pair is found before the kinds are chosen', async (k) => {
  pair(k, '10:00:30')
  assert.deepEqual(await k.kinds({ kinds: ['cert.create'] }), [])
  assert.deepEqual(await k.kinds({ kinds: ['collection.create'] }), [])
  assert.deepEqual(await k.kinds({ kinds: ['project.created_with_cert'] }), project)
})

conformance(107, 'the activity of a pair is on no page', async (k) => {
  pair(k, '10:00:30')
  k.put(k.A, 'evaluation', 'old', { createdAt: at('09:00') })
  const { feed, cursor } = await k.ask(getFeedSkeleton, {}, { limit: 1 })
  assert.equal(feed[0]?.subject.endsWith('/coll'), true)
  assert.deepEqual(await k.keys({}, { limit: 1, cursor }), ['old'])
})

conformance(108, 'of a pair whose collection breaks its lexicon neither is shown', async (k) => {
  k.follow(k.A)
  k.put(k.A, 'collection', 'coll', listing(k.put(k.A, 'activity', 'act'), { title: undefined }))
  assert.deepEqual(await k.keys(), ['coll'])
  assert.deepEqual(await k.kinds(), [])
})

conformance(109, 'the activity comes back when the collection is deleted', async (k) => {
  pair(k, '10:00:30')
  k.remove(k.A, 'collection', 'coll')
  assert.deepEqual(await k.kinds(), ['cert.create act'])
})

conformance(110, 'every attachment is an update (D2)', async (k) => {
  k.follow(k.A)
  for (const contentType of ['update', 'report', undefined])
    k.put(k.A, 'attachment', contentType ?? 'none', { contentType })
  assert.deepEqual(await sorted(k), ['update.create none', 'update.create report', 'update.create update'])
})

conformance(111, 'a board is an entry', async (k) => {
  k.follow(k.A)
  k.put(k.A, 'board', 'board')
  assert.deepEqual(await k.kinds(), ['hyperboard.create board'])
})

conformance(112, 'records of other watched collections are no entries', async (k) => {
  k.follow(k.A)
  for (const collection of ['org.impact.claim.rights', 'org.impact.funding.receipt'])
    k.world.put(k.A, collection, 'other', { $type: collection, createdAt: noon }, noon)
  assert.deepEqual(await k.keys(), [])
})

conformance(113, 'the own time comes before the index time', async (k) => {
  k.follow(k.A)
  k.put(k.A, 'evaluation', 'dated', { createdAt: at('12:00') }, at('01:00'))
  k.put(k.A, 'evaluation', 'undated', { createdAt: undefined }, at('11:00'))
  assert.deepEqual(await k.keys(), ['dated', 'undated'])
})

conformance(114, 'a time that is none leaves the index time', async (k) => {
  k.follow(k.A)
  k.put(k.A, 'evaluation', 'day', { createdAt: '2026-07-22' }, at('01:00'))
  k.put(k.A, 'evaluation', 'number', { createdAt: 1_784_678_400 }, at('02:00'))
  k.put(k.A, 'evaluation', 'object', { createdAt: { at: noon } }, at('03:00'))
  assert.deepEqual(await k.keys(), ['object', 'number', 'day'])
})

conformance(115, 'equal moments in other offsets are ordered by address', async (k) => {
  k.follow(k.A)
  k.put(k.A, 'evaluation', 'a', { createdAt: '2026-03-04T13:00:00+02:00' })
  k.put(k.A, 'evaluation', 'b', { createdAt: '2026-03-04T11:00:00+00:00' })
  assert.deepEqual(await k.keys(), ['b', 'a'])
})

/** V follows A, who wrote records of one moment under these keys. */
function written(k: Case, ...rkeys: string[]): void {
  k.follow(k.A)
  for (const rkey of rkeys) k.put(k.A, 'evaluation', rkey)
}

conformance(116, 'records of one moment are walked by address, the greatest first', async (k) => {
  written(k, 'a', 'b', 'c')
  const first = await k.ask(getFeedSkeleton, {}, { limit: 2 })
  assert.equal(first.feed.length, 2)
  assert.deepEqual(await k.keys({}, { limit: 2 }), ['c', 'b'])
  const next = await k.ask(getFeedSkeleton, {}, { limit: 2, cursor: first.cursor })
  assert.deepEqual([next.feed[0]?.subject.at(-1), next.feed.length, next.cursor], ['a', 1, undefined])
})

conformance(117, 'exactly as many as asked for have no cursor', async (k) => {
  written(k, 'a', 'b')
  assert.equal((await k.ask(getFeedSkeleton, {}, { limit: 2 })).cursor, undefined)
})

conformance(118, 'an edited time does not move a record', async (k) => {
  k.follow(k.A)
  k.put(k.A, 'evaluation', 'early', { createdAt: at('09:00') })
  k.put(k.A, 'evaluation', 'late', { createdAt: at('10:00') })
  k.put(k.A, 'evaluation', 'early', { createdAt: at('11:00') })
  assert.deepEqual(await k.keys(), ['late', 'early'])
})

conformance(119, 'a record that appears later is not in this walk', async (k) => {
  k.follow(k.A)
  for (const hour of ['08', '09', '10']) k.put(k.A, 'evaluation', `h${hour}`, { createdAt: at(`${hour}:00`) })
  const { cursor } = await k.ask(getFeedSkeleton, {}, { limit: 1 })
  k.put(k.A, 'evaluation', 'new', { createdAt: at('11:00') })
  assert.deepEqual(await k.keys({}, { cursor }), ['h09', 'h08'])
})

conformance(120, 'a deleted record of the cursor does no harm', async (k) => {
  written(k, 'a', 'b', 'c')
  const { cursor } = await k.ask(getFeedSkeleton, {}, { limit: 1 })
  k.remove(k.A, 'evaluation', 'c')
  assert.deepEqual(await k.keys({}, { cursor }), ['b', 'a'])
})

conformance(121, 'a page of invalid records is empty and has the cursor of its skeleton', async (k) => {
  k.follow(k.A)
  for (const rkey of ['x', 'y']) k.put(k.A, 'evaluation', rkey, { summary: 7 })
  k.put(k.A, 'evaluation', 'a')
  const [shown, skeleton] = [
    await k.ask(getFeed, {}, { limit: 2 }),
    await k.ask(getFeedSkeleton, {}, { limit: 2 }),
  ]
  assert.deepEqual([shown.status, shown.feed, shown.cursor], [200, [], skeleton.cursor])
  assert.ok(shown.cursor)
})

const place = { value: '2026-03-04T12:00:00.000000Z', uri: 'at://did:plc:x/a.b.c/k' }
const good = { version: 1, feedId: impactFeedId, value: place }
const text = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

conformance(122, 'a cursor that is not one of ours is refused', async (k) => {
  const bad = [
    `${text(good)}=`,
    `${text(good)}+`,
    Buffer.from('{').toString('base64url'),
    text({ ...good, version: 2 }),
    text({ ...good, extra: 1 }),
    text({ ...good, value: 'here' }),
    text({ ...good, value: { ...place, value: 'noon' } }),
    text({ ...good, value: { ...place, uri: 'https://a.example' } }),
  ]
  for (const cursor of bad) {
    const { status, error } = await k.ask(getFeed, {}, { cursor })
    assert.deepEqual([status, error], [400, 'InvalidCursor'], cursor)
  }
  assert.equal((await k.ask(getFeed, {}, { cursor: text(good) })).status, 200)
})

conformance(124, 'each method takes the cursors of the other', async (k) => {
  written(k, 'a', 'b')
  const [shown, skeleton] = [
    await k.ask(getFeed, {}, { limit: 1 }),
    await k.ask(getFeedSkeleton, {}, { limit: 1 }),
  ]
  assert.deepEqual(await k.keys({}, { cursor: shown.cursor }), ['a'])
  assert.equal((await k.items({}, { cursor: skeleton.cursor })).length, 1)
})

conformance(125, 'a cursor of 4097 characters is a fault of shape', async (k) => {
  const { status, error } = await k.ask(getFeed, {}, { cursor: 'x'.repeat(4097) })
  assert.deepEqual([status, error], [400, 'InvalidRequest'])
})
