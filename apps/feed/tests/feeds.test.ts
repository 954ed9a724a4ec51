/** Feeds are looked up by `feedId`: a second one is an object beside the first. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { FeedAlgorithm } from '../src/feeds/feed-algorithm.ts'
import { feeds } from '../src/feeds/registry.ts'
import { did } from './sample.ts'
import { impactFeedId, TestFeed, viewer } from './test-feed.ts'
import { getFeedSkeleton } from './token-issuer.ts'

/** Endorsements of the accounts that the viewer follows. */
const endorsements: FeedAlgorithm = {
  feedId: 'org.example.feed#endorsements',
  paramsType: 'org.example.feed#endorsementsParams',
  readParams: (params) => ({
    published: params,
    viewerDid: viewer,
    rules: (limit = 1) => ({ limit, evaluators: [], kinds: ['endorsement.award'] }),
  }),
}
const [alice] = [did('alice')]
let feed: TestFeed
let endorsement: string

before(async () => {
  feed = await TestFeed.start({ feeds: [...feeds, endorsements] })
  await feed.index.follow(viewer, alice)
  await feed.index.entry({ did: alice })
  endorsement = await feed.index.entry({ did: alice, kind: 'endorsement.award' })
  await feed.index.entry({ did: alice, kind: 'endorsement.award' })
})
after(() => feed[Symbol.asyncDispose]())

function ask(fields: object = {}) {
  const params = { $type: endorsements.paramsType }
  return feed.call(getFeedSkeleton, { feedId: endorsements.feedId, params, ...fields })
}

test('a feed answers by its own rules, under its own name', async () => {
  const { body } = await ask()
  assert.equal(body.feed?.length, 1)
  const rest = await ask({ cursor: body.cursor })
  const subjects = [...(body.feed ?? []), ...(rest.body.feed ?? [])].map(({ subject }) => subject)
  assert.equal(subjects.length, 2)
  assert.ok(subjects.includes(endorsement))
  assert.equal((await feed.skeleton()).subjects.length, 3)
})

test('params and cursors of one feed are refused by another', async () => {
  const { body } = await ask()
  const other = await feed.skeleton({}, { limit: 1 })
  assert.equal((await ask({ cursor: other.cursor })).body.error, 'InvalidCursor')
  const crossed = await ask({ feedId: impactFeedId, cursor: body.cursor })
  assert.deepEqual([crossed.status, crossed.body.error], [400, 'InvalidRequest'])
  assert.match(crossed.body.message ?? '', /impactFeedParams/)
})

test('a feed that nobody knows is refused with the names of those that there are', async () => {
  const { status, body } = await ask({ feedId: 'org.example.feed#another' })
  assert.deepEqual([status, body.error], [400, 'UnsupportedFeed'])
  assert.equal(body.message, `feedId must be ${impactFeedId} or ${endorsements.feedId}`)
})
