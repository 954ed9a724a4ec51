/** Cases 28, 29 and 54 of the feed specification: a store that fails, and what was stored wrongly. */
import assert from 'node:assert/strict'
import { getFeed, getFeedSkeleton } from './case.ts'
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

// The last ones: the store stays broken.
conformance(28, 'a failure of the store is told, and nothing of it', async (k) => {
  await k.world.onDatabase('drop table follows')
  for (const method of [getFeed, getFeedSkeleton]) {
    const { status, error, text } = await k.ask(method)
    assert.deepEqual([status, error, /follows|SQL/i.test(text)], [500, 'InternalError', false])
  }
})

conformance(54, 'a token stays spent when its request fails', async (k) => {
  const sent = bearer(token(issuer(k)))
  const body = k.body({ viewerDid: undefined })
  assert.equal((await k.call(getFeedSkeleton, body, sent)).status, 500)
  isRefused(await k.call(getFeedSkeleton, body, sent), 'NonceNotUnique')
})
