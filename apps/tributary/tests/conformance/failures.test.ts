/** Cases 5, 28, 29, 34, 54 and 123 of the feed specification: what was stored wrongly, a store that fails, and what it is not asked for. */
import assert from 'node:assert/strict'
import { type Case, getFeed, getFeedSkeleton, impactFeedId } from './case.ts'
import { startConformance } from './conformance.ts'
import { bearer, isRefused, issuer, token } from './tokens.ts'

const conformance = startConformance()

conformance(29, 'a result that breaks the output lexicon is a failure of ours', async (k) => {
  k.follow(k.A)
  k.put(k.A, 'evaluation', 'eval')
  await k.items()
  await k.world.onDatabase(
    `update views set view = '{"$type":"org.impact.feed.defs#evaluationView","summary":7}'`,
  )
  const { status, error, text } = await k.ask(getFeed)
  assert.deepEqual([status, error], [500, 'InternalError'], text)
})

/** Every read fails from then on. */
function breakStore(k: Case): Promise<void> {
  return k.world.onDatabase('drop table if exists follows')
}

// The last ones: the store stays broken.
conformance(28, 'a failure of the store is told, and nothing of it', async (k) => {
  await breakStore(k)
  for (const method of [getFeed, getFeedSkeleton]) {
    const { status, error, text } = await k.ask(method)
    assert.deepEqual([status, error, /follows|SQL/i.test(text)], [500, 'InternalError', false])
  }
})

conformance(54, 'a token stays spent when its request fails', async (k) => {
  await breakStore(k)
  const sent = bearer(token(issuer(k)))
  const body = k.body({ viewerDid: undefined })
  assert.equal((await k.call(getFeedSkeleton, body, sent)).status, 500)
  isRefused(await k.call(getFeedSkeleton, body, sent), 'NonceNotUnique')
})

conformance(5, 'an empty body is a fault of shape, and nothing is read', async (k) => {
  await breakStore(k)
  for (const method of [getFeed, getFeedSkeleton]) {
    const { status, error } = await k.call(method, {})
    assert.deepEqual([status, error], [400, 'InvalidRequest'])
  }
})

conformance(
  34,
  'a bad token is refused whatever viewer is named, and nothing is read or shown',
  async (k) => {
    await breakStore(k)
    const sent = token(issuer(k), { aud: k.B })
    const answer = await k.call(getFeedSkeleton, k.body(), bearer(sent))
    isRefused(answer, 'InvalidAudience')
    assert.equal(answer.text.includes(sent) || answer.text.includes(k.V), false)
  },
)

conformance(123, 'a cursor of another feed is refused, and nothing is read', async (k) => {
  await breakStore(k)
  const value = { value: '2026-03-04T12:00:00.000000Z', uri: 'at://did:plc:x/a.b.c/k' }
  const cursorOf = (feedId: string): string =>
    Buffer.from(JSON.stringify({ version: 1, feedId, value })).toString('base64url')
  const refused = await k.ask(getFeedSkeleton, {}, { cursor: cursorOf('org.impact.feed.defs#otherFeed') })
  assert.deepEqual([refused.status, refused.error], [400, 'InvalidCursor'])
  assert.equal((await k.ask(getFeedSkeleton, {}, { cursor: cursorOf(impactFeedId) })).status, 500)
})
