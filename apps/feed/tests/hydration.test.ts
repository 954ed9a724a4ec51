/** Behaviour cases 84 and 126 to 139 of the feed specification: what an entry shows, and which records are dropped. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import type { EntryKind } from '@tributary/protocol'
import {
  blob,
  did,
  largeImage,
  noon,
  recordCid,
  recordOf,
  smallBlob,
  smallImage,
  uriImage,
} from './sample.ts'
import { TestFeed, viewer, type Item } from './test-feed.ts'

const alice = did('alice')
const target = { uri: `at://${did('bob')}/org.impact.claim.activity/3act`, cid: recordCid }
const second = { uri: `at://${did('bob')}/org.impact.claim.activity/3other`, cid: recordCid }
const smallVideo = (fields: object): object => ({ $type: 'org.impact.defs#smallVideo', video: blob(fields) })
/** A CID of 80 bytes: 124 signs in base 36, which the lexicon library reads, and 129 in the base 32 that it writes. */
const longCid = `k${BigInt(`0x0155124c${'ab'.repeat(76)}`).toString(36)}`
const unknownUnion = { $type: 'org.example.defs#hologram', image: { size: -1 } }
let feed: TestFeed

before(async () => {
  feed = await TestFeed.start()
})
after(() => feed[Symbol.asyncDispose]())
beforeEach(async () => {
  await feed.index.clear()
  await feed.index.follow(viewer, alice)
})

interface ContentCase {
  readonly what: string
  readonly kind: EntryKind
  readonly fields?: object
  /** What the content holds besides its `$type` and `createdAt`. */
  readonly content: object
}

const viewOf: Readonly<Record<EntryKind, string>> = {
  'cert.create': 'activityView',
  'collection.create': 'collectionView',
  'project.created_with_cert': 'collectionView',
  'evaluation.create': 'evaluationView',
  'measurement.create': 'measurementView',
  'update.create': 'updateView',
  'endorsement.award': 'endorsementView',
  'hyperboard.create': 'hyperboardView',
}
const activity = { title: 'Trees', shortDescription: 'We planted trees.' }

const contentCases: readonly ContentCase[] = [
  { what: 'nothing optional', kind: 'cert.create', content: { ...activity, locationCount: 0 } },
  {
    what: 'everything',
    kind: 'cert.create',
    fields: {
      locations: [target, second],
      image: smallImage(),
      startDate: '2026-01-02T03:04:05+02:00',
      endDate: '2026-02-03T04:05:06.7Z',
      contributors: [],
      rights: target,
    },
    content: {
      ...activity,
      startDate: '2026-01-02T03:04:05+02:00',
      endDate: '2026-02-03T04:05:06.7Z',
      image: smallImage(),
      locationCount: 2,
    },
  },
  {
    what: 'an image address',
    kind: 'cert.create',
    fields: { image: uriImage() },
    content: { ...activity, image: uriImage(), locationCount: 0 },
  },
  {
    what: 'an image of an unknown type',
    kind: 'cert.create',
    fields: { image: unknownUnion },
    content: { ...activity, locationCount: 0 },
  },
  {
    what: 'an image of a type for other places',
    kind: 'cert.create',
    fields: { image: largeImage() },
    content: { ...activity, locationCount: 0 },
  },
  { what: 'nothing optional', kind: 'collection.create', content: { title: 'Water', itemCount: 0 } },
  {
    what: 'items, a description and a type',
    kind: 'collection.create',
    fields: {
      type: 'project',
      shortDescription: 'All of it.',
      items: [{ itemIdentifier: target }],
      name: 'no',
      image: uriImage(),
    },
    content: { collectionType: 'project', title: 'Water', shortDescription: 'All of it.', itemCount: 1 },
  },
  {
    what: 'avatar and banner',
    kind: 'project.created_with_cert',
    fields: { avatar: smallImage(), banner: largeImage() },
    content: { title: 'Water', image: smallImage(), itemCount: 0 },
  },
  {
    what: 'an avatar of another type and a banner',
    kind: 'collection.create',
    fields: { avatar: largeImage(), banner: largeImage({ size: 10_485_760 }) },
    content: { title: 'Water', image: largeImage({ size: 10_485_760 }), itemCount: 0 },
  },
  {
    what: 'a banner address',
    kind: 'collection.create',
    fields: { banner: uriImage() },
    content: { title: 'Water', image: uriImage(), itemCount: 0 },
  },
  {
    what: 'a subject',
    kind: 'evaluation.create',
    fields: { subject: target },
    content: { summary: 'Done as described.', target },
  },
  { what: 'no subject', kind: 'evaluation.create', content: { summary: 'Done as described.' } },
  {
    what: 'a subject with a $type',
    kind: 'evaluation.create',
    fields: { subject: { $type: 'com.atproto.repo.strongRef', ...target } },
    content: { summary: 'Done as described.', target },
  },
  {
    what: 'two subjects',
    kind: 'measurement.create',
    fields: { subjects: [target, second] },
    content: { metric: 'trees planted', target },
  },
  {
    what: 'an empty list of subjects',
    kind: 'measurement.create',
    fields: { subjects: [] },
    content: { metric: 'trees planted' },
  },
  { what: 'nothing optional', kind: 'update.create', content: { title: 'Week 3' } },
  {
    what: 'several contents',
    kind: 'update.create',
    fields: {
      shortDescription: 'Words.',
      subjects: [target, second],
      content: [
        smallBlob({ mimeType: 'application/pdf' }),
        uriImage('https://orchard.example/picture.png'),
        unknownUnion,
        smallBlob({ mimeType: 'image/webp' }),
        smallBlob({ mimeType: 'image/png' }),
      ],
    },
    content: {
      title: 'Week 3',
      shortDescription: 'Words.',
      image: smallBlob({ mimeType: 'image/webp' }),
      target,
    },
  },
  {
    what: 'an unknown endorsed account',
    kind: 'endorsement.award',
    content: { subject: { did: did('endorsed') } },
  },
  {
    what: 'everything',
    kind: 'hyperboard.create',
    fields: {
      config: { backgroundImage: smallImage() },
      contributorConfigs: [{ contributor: { $type: 'com.atproto.repo.strongRef', ...target } }],
    },
    content: {},
  },
]

for (const { what, kind, fields, content } of contentCases) {
  test(`${kind} with ${what}`, async () => {
    const subject = await feed.index.entry({ did: alice, kind, record: recordOf(kind, fields) })
    const [item] = await items()
    assert.deepEqual(item, {
      subject,
      view: {
        $type: 'org.impact.feed.defs#impactFeedView',
        kind,
        actor: { did: alice },
        content: { $type: `org.impact.feed.defs#${viewOf[kind]}`, createdAt: noon, ...content },
      },
    })
  })
}

interface DropCase {
  readonly what: string
  readonly kind: EntryKind
  readonly fields: object
}

const dropped: readonly DropCase[] = [
  { what: 'no title', kind: 'cert.create', fields: { title: undefined } },
  {
    what: 'the $type of another collection',
    kind: 'cert.create',
    fields: { $type: 'org.impact.collection' },
  },
  { what: 'no $type', kind: 'cert.create', fields: { $type: undefined } },
  { what: 'no createdAt', kind: 'endorsement.award', fields: { createdAt: undefined } },
  { what: 'text after its time', kind: 'hyperboard.create', fields: { createdAt: '2026-07-22T10:00:00ZT!' } },
  { what: 'a date alone as createdAt', kind: 'hyperboard.create', fields: { createdAt: '2026-07-22' } },
  { what: 'a null', kind: 'cert.create', fields: { startDate: null } },
  { what: 'a union type with two fragments', kind: 'cert.create', fields: { image: { $type: 'a#b#c' } } },
  {
    what: 'an award to a record',
    kind: 'endorsement.award',
    fields: { subject: { $type: 'com.atproto.repo.strongRef', ...target } },
  },
  {
    what: 'an award of another type',
    kind: 'endorsement.award',
    fields: { subject: { $type: 'org.example.defs#did', did: alice } },
  },
  ...[
    { mimeType: 'image/gif' },
    { size: -1 },
    { size: 1.5 },
    { size: '2000' },
    { size: 5_242_881 },
    { ref: { $link: 'bafybroken' } },
    { ref: { $link: longCid } },
    { ref: { '/': 'x', bytes: 'x' } },
    { ref: { '/': 'x', bytes: 'x', toString: 'x' } },
    { ref: undefined, $type: undefined, cid: recordCid, size: undefined },
    { ref: undefined },
    { mimeType: undefined },
  ].map((fields) => ({
    what: `a blob with ${JSON.stringify(fields)} as image`,
    kind: 'cert.create' as const,
    fields: { image: smallImage(fields) },
  })),
  {
    what: 'too large an avatar',
    kind: 'collection.create',
    fields: { avatar: smallImage({ size: 5_242_881 }) },
  },
  {
    what: 'too large a banner',
    kind: 'collection.create',
    fields: { banner: largeImage({ size: 10_485_761 }) },
  },
  {
    what: 'a banner of another type',
    kind: 'collection.create',
    fields: { banner: largeImage({ mimeType: 'image/gif' }) },
  },
  {
    what: 'too large a content',
    kind: 'evaluation.create',
    fields: { content: [smallBlob(), smallBlob({ size: 10_485_761 })] },
  },
  {
    what: 'too large a content',
    kind: 'update.create',
    fields: { content: [smallBlob({ size: 10_485_761 })] },
  },
  {
    what: 'a background of another type',
    kind: 'hyperboard.create',
    fields: { config: { backgroundImage: smallImage({ mimeType: 'image/gif' }) } },
  },
  ...Object.entries({
    image: smallImage({ mimeType: 'image/gif' }),
    hoverImage: smallImage({ size: 5_242_881 }),
    video: smallVideo({ mimeType: 'video/quicktime' }),
  }).map(([field, value]) => ({
    what: `a contributor with a bad ${field}`,
    kind: 'hyperboard.create' as const,
    fields: { contributorConfigs: [contributor({}), contributor({ [field]: value })] },
  })),
]

for (const { what, kind, fields } of dropped) {
  test(`${kind} with ${what} is dropped, and stays in the skeleton`, async () => {
    const uri = await feed.index.entry({ did: alice, kind, record: recordOf(kind, fields) })
    assert.deepEqual(await items(), [])
    assert.deepEqual((await feed.skeleton()).subjects, [uri])
  })
}

const kept: readonly DropCase[] = [
  {
    what: 'an image of the largest size',
    kind: 'cert.create',
    fields: { image: smallImage({ size: 5_242_880 }) },
  },
  { what: 'an empty image', kind: 'cert.create', fields: { image: smallImage({ size: 0 }) } },
  ...['image/jpeg', 'image/jpg', 'image/png', 'image/webp'].map((mimeType) => ({
    what: `an image of type ${mimeType}`,
    kind: 'cert.create' as const,
    fields: { image: smallImage({ mimeType }) },
  })),
  {
    what: 'a content of the largest size',
    kind: 'evaluation.create',
    fields: { content: [smallBlob({ size: 10_485_760, mimeType: 'x/y' })] },
  },
  {
    what: 'a content of the largest size',
    kind: 'update.create',
    fields: { content: [smallBlob({ size: 10_485_760 })] },
  },
  {
    what: 'good media everywhere',
    kind: 'hyperboard.create',
    fields: {
      config: { backgroundImage: uriImage() },
      contributorConfigs: [
        contributor({
          image: smallImage(),
          hoverImage: uriImage(),
          video: smallVideo({ mimeType: 'video/webm', size: 20_971_520 }),
        }),
      ],
    },
  },
  { what: 'a target that does not exist', kind: 'evaluation.create', fields: { subject: second } },
  {
    what: 'unknown fields',
    kind: 'measurement.create',
    fields: { mood: { $type: 'x', deep: [1, { a: null }] } },
  },
]

for (const { what, kind, fields } of kept) {
  test(`${kind} with ${what} is shown`, async () => {
    await feed.index.entry({ did: alice, kind, record: recordOf(kind, fields) })
    assert.equal((await items()).length, 1)
  })
}

test('a page is made of what the index prepared, and costs nothing for what else is in a record', async () => {
  await feed.index.entry({ did: alice })
  await feed.index.record(alice, 'app.attested.actor.profile', {
    $type: 'app.attested.actor.profile',
    displayName: 'Alice',
    createdAt: noon,
  })
  const whole = await items()
  assert.equal(whole.length, 1)
  await feed.index.clearRecords()
  assert.deepEqual(await items(), whole)
})

const junk = 'x'.repeat(900_000)

test('unknown fields of images do not go out, whatever form the image has', async () => {
  const known = [uriImage(), smallImage(), largeImage(), smallBlob()]
  const [uri, small, large, piece] = known.map((image) => ({ ...image, junk }))
  await feed.index.entry({ did: alice, rkey: '4', record: recordOf('cert.create', { image: uri }) })
  const pictured = { avatar: { $type: 'other#form' }, banner: large }
  await feed.index.entry({
    did: alice,
    rkey: '3',
    kind: 'collection.create',
    record: recordOf('collection.create', pictured),
  })
  await feed.index.entry({
    did: alice,
    rkey: '2',
    kind: 'update.create',
    record: recordOf('update.create', { content: [piece] }),
  })
  await feed.index.record(alice, 'app.attested.actor.profile', {
    $type: 'app.attested.actor.profile',
    avatar: small,
    createdAt: noon,
  })
  const shown = await items()
  assert.deepEqual(
    shown.map(({ view }) => view.content['image']),
    [smallBlob(), largeImage(), uriImage()],
  )
  assert.deepEqual(shown[0]?.view.actor, { did: alice, avatar: smallImage() })
})

test('an image over 2,048 bytes is left out, and its record stays', async () => {
  const image = uriImage(`data:image/png;base64,${junk}`)
  await feed.index.entry({ did: alice, record: recordOf('cert.create', { image }) })
  assert.deepEqual(
    (await items()).map(({ view }) => view.content),
    [{ ...activity, $type: 'org.impact.feed.defs#activityView', createdAt: noon, locationCount: 0 }],
  )
})

test('no page is above 512 kB: an entry over its share is left out', async () => {
  const long = { uri: `at://did:web:${'d'.repeat(2000)}/a.b.c/${'k'.repeat(500)}`, cid: recordCid }
  await feed.index.record(alice, 'app.attested.actor.profile', {
    $type: 'app.attested.actor.profile',
    avatar: uriImage(`https://orchard.example/${'x'.repeat(1950)}`),
    createdAt: noon,
  })
  for (let i = 0; i < 50; i++) {
    const fields = { summary: '\u0001'.repeat(1000), subject: i % 2 === 0 ? long : target }
    await feed.index.entry({
      did: alice,
      kind: 'evaluation.create',
      record: recordOf('evaluation.create', fields),
    })
  }
  const { text, body } = await feed.ask('org.impact.feed.getFeed', {}, { limit: 50 })
  assert.equal(body.feed?.length, 25)
  assert.ok(Buffer.byteLength(text) < 512_000, `${Buffer.byteLength(text)}`)
})

test('what is stored but is no object is dropped', async () => {
  for (const record of [[], 'text', 7, null]) {
    await feed.index.entry({ did: alice, record: record as object }) // what a record must not be
  }
  assert.deepEqual(await items(), [])
})

function contributor(fields: object): object {
  return {
    contributor: { $type: 'org.impact.claim.activity#contributorIdentity', identity: 'Bob' },
    ...fields,
  }
}

async function items(): Promise<readonly Item[]> {
  return (await feed.page()).feed
}
