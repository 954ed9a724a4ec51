/** Cases 126 to 149 of the feed specification: what is shown of records, and who they are by. */
import assert from 'node:assert/strict'
import { type Case, getFeed, getFeedSkeleton, type Item, type Name, names } from './case.ts'
import { startConformance } from './conformance.ts'
import { Signed } from './directory.ts'
import { blob, didOf, largeImage, noon, type Ref, smallBlob, smallImage } from './made.ts'

const named = new Signed(didOf('named'))
const unproven = new Signed(didOf('unproven'))
const conformance = startConformance({
  prepare(directory) {
    directory.publish(named, 'alice.test')
    directory.publish(unproven, 'alice')
  },
})

/** What is shown of A's one record; undefined when it is dropped. */
async function shown(k: Case, name: Name, fields: object = {}): Promise<Item | undefined> {
  const rkey = k.nextKey()
  k.follow(k.A)
  k.put(k.A, name, rkey, fields)
  const items = await k.items()
  return items.find(({ subject }) => subject.endsWith(`/${rkey}`))
}

const content = async (k: Case, name: Name, fields: object = {}): Promise<Record<string, unknown>> =>
  (await shown(k, name, fields))?.view.content ?? {}

const location = (k: Case): Ref => k.put(k.B, 'activity', 'loc')

conformance(126, 'an activity shows its places, its image and its dates as written', async (k) => {
  const dates = { startDate: '2026-01-01T00:00:00Z', endDate: '2026-02-01T00:00:00+02:00' }
  const locations = [location(k), location(k)]
  const view = await content(k, 'activity', { locations, image: smallImage(), ...dates })
  assert.deepEqual([view['locationCount'], view['image']], [2, smallImage()])
  assert.deepEqual([view['startDate'], view['endDate']], [dates.startDate, dates.endDate])
})

conformance(127, 'an activity without places has none', async (k) => {
  assert.equal((await content(k, 'activity'))['locationCount'], 0)
})

conformance(128, 'an image of an unknown type is left out, and the entry stays', async (k) => {
  const view = await content(k, 'activity', { image: { $type: 'org.other.defs#image', more: 1 } })
  assert.deepEqual([view['title'], view['image']], ['Trees', undefined])
})

conformance(129, 'an image beyond its limits drops the entry', async (k) => {
  const bad = [
    { mimeType: 'image/gif' },
    { size: -1 },
    { size: 1.5 },
    { size: 5_242_881 },
    { ref: { $link: 'x' } },
  ]
  for (const fields of bad)
    assert.equal(await shown(k, 'activity', { image: smallImage(fields) }), undefined, JSON.stringify(fields))
  assert.ok(await shown(k, 'activity', { image: smallImage({ size: 5_242_880 }) }))
})

conformance(130, 'a record that breaks its lexicon is dropped', async (k) => {
  for (const fields of [{ title: undefined }, { $type: names.collection }, { $type: undefined }])
    assert.equal(await shown(k, 'activity', fields), undefined)
})

conformance(131, 'the image of a collection is its avatar, else its banner', async (k) => {
  const [avatar, banner] = [smallImage(), largeImage()]
  const image = async (fields: object): Promise<unknown> => (await content(k, 'collection', fields))['image']
  assert.deepEqual(await image({ avatar, banner }), avatar)
  assert.deepEqual(await image({ avatar: largeImage(), banner }), banner)
  assert.equal(await image({ name: 'x', image: smallImage() }), undefined)
})

conformance(132, 'the type of a collection is shown and makes no project', async (k) => {
  const item = await shown(k, 'collection', { type: 'project' })
  assert.deepEqual([item?.view.kind, item?.view.content['collectionType']], ['collection.create', 'project'])
})

conformance(133, 'the target of an evaluation is its subject, whether it is there or not', async (k) => {
  const { cid } = k.put(k.B, 'activity', 'act')
  const subject = { uri: `at://${k.B}/${names.activity}/gone`, cid }
  assert.deepEqual((await content(k, 'evaluation', { subject }))['target'], subject)
  assert.equal((await content(k, 'evaluation'))['target'], undefined)
})

conformance(134, 'the target of a measurement is the first of its subjects', async (k) => {
  const subjects = [k.put(k.B, 'activity', 'one'), k.put(k.B, 'activity', 'two')]
  assert.deepEqual((await content(k, 'measurement', { subjects }))['target'], subjects[0])
})

conformance(135, 'the image of an update is its first image blob', async (k) => {
  const webp = smallBlob({ mimeType: 'image/webp' })
  const pieces = [
    smallBlob({ mimeType: 'application/pdf' }),
    { $type: 'org.impact.defs#uri', uri: 'https://a.example/b.png' },
    { $type: 'org.other.defs#x' },
    webp,
    smallBlob(),
  ]
  assert.deepEqual((await content(k, 'attachment', { content: pieces }))['image'], webp)
})

conformance(136, 'a blob of an attachment or an evaluation may have 10,485,760 bytes', async (k) => {
  for (const name of ['attachment', 'evaluation'] as const) {
    assert.equal(await shown(k, name, { content: [smallBlob({ size: 10_485_761 })] }), undefined)
    assert.ok(await shown(k, name, { content: [smallBlob({ size: 10_485_760 })] }))
  }
})

conformance(137, 'a board is dropped for its pictures, and shows its time only', async (k) => {
  const gif = { config: { backgroundImage: smallImage({ mimeType: 'image/gif' }) } }
  assert.equal(await shown(k, 'board', gif), undefined)
  const video = { $type: 'org.impact.defs#smallVideo', video: blob({ mimeType: 'video/quicktime' }) }
  assert.equal(await shown(k, 'board', { contributorConfigs: [{ video }] }), undefined)
  assert.deepEqual(await content(k, 'board'), {
    $type: 'org.impact.feed.defs#hyperboardView',
    createdAt: noon,
  })
})

conformance(138, 'an endorsement shows whom it endorses', async (k) => {
  k.follow(k.E)
  k.endorse(k.E, k.A)
  const [item] = await k.items()
  assert.deepEqual(item?.view.content['subject'], { did: k.A })
})

conformance(139, 'of three records the two valid ones are shown, in order', async (k) => {
  k.follow(k.A)
  k.follow(k.B)
  k.put(k.A, 'evaluation', 'a')
  k.put(k.B, 'evaluation', 'b', { summary: undefined })
  k.put(k.A, 'evaluation', 'c')
  const [items, skeleton] = [await k.ask(getFeed), await k.ask(getFeedSkeleton)]
  assert.deepEqual(
    items.feed.map(({ subject }) => subject.at(-1)),
    ['c', 'a'],
  )
  assert.deepEqual([skeleton.feed.length, items.text.includes(k.B)], [3, false])
})

/** How A is shown, with these profiles. */
async function actor(k: Case, profiles: { attested?: object; social?: object }, by = k.A): Promise<object> {
  k.follow(by)
  k.put(by, 'evaluation', 'eval')
  if (profiles.attested) k.put(by, 'profile', 'self', profiles.attested)
  if (profiles.social) k.put(by, 'socialProfile', 'self', profiles.social)
  const [item] = await k.items()
  const { did, ...rest } = item?.view.actor ?? {}
  assert.equal(did, by)
  return rest
}

const social = { displayName: 'Alice Social', avatar: blob() }
const fromSocial = { displayName: 'Alice Social', avatar: smallImage() }

conformance(140, 'the attested profile comes first', async (k) => {
  const attested = { displayName: 'Alice', avatar: smallImage() }
  assert.deepEqual(await actor(k, { attested, social }), attested)
})

conformance(141, 'an attested profile with only a website leaves no name', async (k) => {
  assert.deepEqual(await actor(k, { attested: { website: 'https://a.example' }, social }), {})
})

conformance(142, 'an attested profile that says nothing leaves the social one', async (k) => {
  assert.deepEqual(await actor(k, { attested: {}, social }), fromSocial)
  k.put(k.A, 'profile', 'self', { displayName: 7 })
  assert.deepEqual((await k.items())[0]?.view.actor, { did: k.A, ...fromSocial })
})

conformance(143, 'a social profile whose avatar is beyond its limits is ignored', async (k) => {
  assert.deepEqual(await actor(k, { social: { ...social, avatar: blob({ size: 1_000_001 }) } }), {})
  k.put(k.A, 'socialProfile', 'self', { ...social, avatar: blob({ mimeType: 'image/webp' }) })
  assert.deepEqual((await k.items())[0]?.view.actor, { did: k.A })
})

conformance(144, 'of a valid but empty social profile only DID and handle are shown', async (k) => {
  k.follow(named.did)
  k.put(named.did, 'evaluation', 'eval')
  k.put(named.did, 'socialProfile', 'self')
  await k.world.counted(/index_handle_lookups_total\{[^}]*result="found"[^}]*\} (\d+)/, 1)
  assert.deepEqual((await k.items())[0]?.view.actor, { did: named.did, handle: 'alice.test' })
})

conformance(145, 'what is no valid handle is left out', async (k) => {
  assert.deepEqual(await actor(k, {}, unproven.did), {})
})

conformance(146, 'of whom nothing is known only the DID is shown', async (k) => {
  assert.deepEqual(await actor(k, {}), {})
})

conformance(147, 'an attested avatar of an unknown type says something, and is not shown', async (k) => {
  assert.deepEqual(await actor(k, { attested: { avatar: { $type: 'org.other.defs#image' } }, social }), {})
})

conformance(148, 'a record of another collection is no profile', async (k) => {
  k.put(k.A, 'evaluation', 'self', { $type: names.profile, displayName: 'Alice' })
  assert.deepEqual(await actor(k, { attested: { $type: names.evaluation, displayName: 'Alice' } }), {})
})

conformance(149, 'a social avatar is shown as a small image', async (k) => {
  assert.deepEqual(await actor(k, { social }), fromSocial)
})
