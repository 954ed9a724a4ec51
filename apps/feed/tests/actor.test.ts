/** Behaviour cases 139 to 149 of the feed specification: who an entry is by. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { blob, did, largeImage, noon, recordOf, smallImage, uriImage } from './sample.ts'
import { TestFeed, viewer } from './test-feed.ts'

const attestedProfile = 'app.attested.actor.profile'
const socialProfile = 'app.social.actor.profile'
const alice = did('alice')
const full = { displayName: 'Alice Social', description: 'Hi.', avatar: blob() }
const fromSocial = { displayName: 'Alice Social', avatar: smallImage() }
let feed: TestFeed

before(async () => {
  feed = await TestFeed.start()
})
after(() => feed[Symbol.asyncDispose]())
beforeEach(async () => {
  await feed.index.clear()
  await feed.index.follow(viewer, alice)
  await feed.index.entry({ did: alice })
})

interface ActorCase {
  readonly what: string
  /** Fields of the profiles; absent for none. */
  readonly attested?: object
  readonly social?: object
  readonly handle?: string
  /** What the summary holds besides the DID. */
  readonly actor: object
}

const cases: readonly ActorCase[] = [
  { what: 'nothing at all', actor: {} },
  { what: 'a handle alone', handle: 'alice.test', actor: { handle: 'alice.test' } },
  { what: 'a stored handle that is none', handle: 'alice', actor: {} },
  { what: 'a stored handle that is too long', handle: `${'a.'.repeat(127)}test`, actor: {} },
  {
    what: 'both profiles',
    handle: 'alice.test',
    attested: { displayName: 'Alice', avatar: uriImage() },
    social: full,
    actor: { handle: 'alice.test', displayName: 'Alice', avatar: uriImage() },
  },
  { what: 'an attested avatar', attested: { avatar: smallImage() }, actor: { avatar: smallImage() } },
  {
    what: 'an attested profile with only a website',
    attested: { website: 'https://a.example' },
    social: full,
    actor: {},
  },
  {
    what: 'an attested profile with only a description',
    attested: { description: 'Hi.' },
    social: full,
    actor: {},
  },
  { what: 'an attested profile with only pronouns', attested: { pronouns: 'they' }, social: full, actor: {} },
  {
    what: 'an attested profile with only a banner',
    attested: { banner: largeImage() },
    social: full,
    actor: {},
  },
  { what: 'an empty attested profile', attested: {}, social: full, actor: fromSocial },
  {
    what: 'an attested profile with empty texts',
    attested: { displayName: '', description: '' },
    social: full,
    actor: fromSocial,
  },
  {
    what: 'an attested profile without createdAt',
    attested: { displayName: 'A', createdAt: undefined },
    social: full,
    actor: fromSocial,
  },
  {
    what: 'an attested profile with too long a name',
    attested: { displayName: 'é'.repeat(65) },
    social: full,
    actor: fromSocial,
  },
  {
    what: 'an attested profile with too large an avatar',
    attested: { displayName: 'A', avatar: smallImage({ size: 5_242_881 }) },
    social: full,
    actor: fromSocial,
  },
  {
    what: 'an attested profile with a banner of another type',
    attested: { displayName: 'A', banner: largeImage({ mimeType: 'image/gif' }) },
    social: full,
    actor: fromSocial,
  },
  {
    what: 'an attested avatar of an unknown type and no name',
    attested: { avatar: { $type: 'org.example.defs#hologram' } },
    social: full,
    actor: {},
  },
  {
    what: 'an attested profile with the $type of another collection',
    attested: { $type: socialProfile, displayName: 'A' },
    actor: {},
  },
  { what: 'a social profile', social: full, actor: fromSocial },
  {
    what: 'a social avatar of the largest size',
    social: { avatar: blob({ size: 1_000_000 }) },
    actor: { avatar: smallImage({ size: 1_000_000 }) },
  },
  {
    what: 'a social avatar that is too large',
    social: { ...full, avatar: blob({ size: 1_000_001 }) },
    actor: {},
  },
  {
    what: 'a social avatar of another type',
    social: { ...full, avatar: blob({ mimeType: 'image/webp' }) },
    actor: {},
  },
  {
    what: 'a social banner of another type',
    social: { ...full, banner: blob({ mimeType: 'image/webp' }) },
    actor: {},
  },
  { what: 'an empty social profile', handle: 'alice.test', social: {}, actor: { handle: 'alice.test' } },
]

for (const { what, attested, social, handle, actor } of cases) {
  test(`an account with ${what}`, async () => {
    if (handle !== undefined) await feed.index.handle(alice, handle)
    if (attested)
      await feed.index.record(alice, attestedProfile, {
        $type: attestedProfile,
        createdAt: noon,
        ...attested,
      })
    if (social)
      await feed.index.record(alice, socialProfile, { $type: socialProfile, createdAt: noon, ...social })
    assert.deepEqual((await feed.page()).feed[0]?.view.actor, { did: alice, ...actor })
  })
}

test('a profile under another key, or of another account, is not used', async () => {
  const profile = { $type: attestedProfile, displayName: 'A', createdAt: noon }
  await feed.index.record(alice, attestedProfile, profile, { rkey: 'other' })
  await feed.index.record(did('bob'), attestedProfile, profile)
  assert.deepEqual((await feed.page()).feed[0]?.view.actor, { did: alice })
})

test('an endorsement shows both accounts', async () => {
  const subject = did('bob')
  for (const [account, displayName] of [
    [alice, 'Alice'],
    [subject, 'Bob'],
  ] as const) {
    await feed.index.record(account, attestedProfile, {
      $type: attestedProfile,
      displayName,
      createdAt: noon,
    })
    await feed.index.handle(account, `${displayName.toLowerCase()}.test`)
  }
  const record = recordOf('endorsement.award', { subject: { $type: 'app.attested.defs#did', did: subject } })
  await feed.index.entry({ did: alice, kind: 'endorsement.award', record, at: '2026-03-04T13:00:00Z' })
  const [award] = (await feed.page()).feed
  assert.deepEqual(award?.view.actor, { did: alice, handle: 'alice.test', displayName: 'Alice' })
  assert.deepEqual(award.view.content['subject'], { did: subject, handle: 'bob.test', displayName: 'Bob' })
})
