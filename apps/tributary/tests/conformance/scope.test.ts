/** Cases 62 to 84 of the feed specification: whose records may appear. */
import assert from 'node:assert/strict'
import type { Did } from '@tributary/protocol'
import type { Case } from './case.ts'
import { startConformance } from './conformance.ts'
import { at } from './made.ts'

const conformance = startConformance()

/** E endorses A, who has one record, `act`. */
function endorsed(k: Case, fields: Record<string, unknown> = {}): ReturnType<Case['endorse']> {
  k.put(k.A, 'activity', 'act')
  return k.endorse(k.E, k.A, fields)
}

const byE = (k: Case): object => ({ trustedEvaluators: [k.E] })

/** Whether A is in the scope by E's award. */
async function isValid(k: Case): Promise<boolean> {
  const keys = await k.keys(byE(k))
  return keys.includes('act')
}

conformance(62, 'only the activities of followed accounts are returned', async (k) => {
  k.follow(k.A)
  k.put(k.A, 'activity', 'a')
  k.put(k.B, 'activity', 'b')
  assert.deepEqual(await k.keys(), ['a'])
})

conformance(63, 'a follow whose subject is no DID is skipped', async (k) => {
  k.follow('alice.test')
  k.follow({ did: k.A })
  k.follow(k.B)
  k.put(k.B, 'activity', 'b')
  assert.deepEqual(await k.keys(), ['b'])
})

conformance(64, 'two follows of one account give its records once', async (k) => {
  k.follow(k.A)
  k.follow(k.A)
  k.put(k.A, 'activity', 'a')
  assert.deepEqual(await k.keys(), ['a'])
})

conformance(65, 'the viewer who follows itself is left out', async (k) => {
  k.follow(k.V)
  k.put(k.V, 'activity', 'v')
  assert.deepEqual(await k.keys(), [])
})

conformance(66, 'without follows and evaluators the feed is empty, without a cursor', async (k) => {
  const { text } = await k.ask('org.impact.feed.getFeed')
  assert.equal(text, '{"feed":[]}')
})

conformance(67, 'a follow that is deleted counts no more from the next request on', async (k) => {
  const rkey = k.follow(k.A)
  k.put(k.A, 'activity', 'a')
  assert.deepEqual(await k.keys(), ['a'])
  k.remove(k.V, 'follow', rkey)
  assert.deepEqual(await k.keys(), [])
})

conformance(68, 'the 501st follow counts', async (k) => {
  const letters = (n: number): string =>
    String(n).replaceAll(/./g, (digit) => 'klmnopqrst'[Number(digit)] ?? '')
  for (let n = 1; n <= 501; n++) k.follow(k.did(`f${letters(n)}`))
  k.put(k.did(`f${letters(501)}`), 'activity', 'last')
  assert.deepEqual(await k.keys(), ['last'])
})

conformance(69, 'a named evaluator adds whom it endorses, and not itself', async (k) => {
  endorsed(k)
  assert.deepEqual(await k.keys(byE(k)), ['act'])
  assert.deepEqual(await k.keys(), [])
})

conformance(70, 'an evaluator that is followed shows its award', async (k) => {
  endorsed(k)
  k.follow(k.E)
  const kinds = (await k.kinds(byE(k))).map((entry) => String(entry.split(' ')[0]))
  assert.deepEqual(new Set(kinds), new Set(['cert.create', 'endorsement.award']))
  assert.equal(kinds.length, 2)
})

conformance(71, 'the viewer is left out also when it is endorsed', async (k) => {
  k.endorse(k.E, k.V)
  k.put(k.V, 'activity', 'v')
  assert.deepEqual(await k.keys(byE(k)), [])
})

conformance(72, 'an endorsed account without a known handle is returned', async (k) => {
  endorsed(k)
  const [item] = await k.items(byE(k))
  assert.deepEqual(item?.view.actor, { did: k.A })
})

conformance(73, 'an award to a record is no endorsement and no entry', async (k) => {
  const record = k.put(k.A, 'activity', 'act')
  const badge = k.put(k.E, 'definition', 'def')
  const subject = { $type: 'com.atproto.repo.strongRef', ...record }
  k.put(k.E, 'award', 'awd', { badge, subject })
  k.follow(k.E)
  assert.deepEqual(await k.keys(byE(k)), [])
})

conformance(74, 'a subject of another type with a did is no endorsement', async (k) => {
  k.put(k.A, 'activity', 'act')
  const badge = k.put(k.E, 'definition', 'def')
  k.put(k.E, 'award', 'awd', { badge, subject: { $type: 'app.attested.defs#other', did: k.A } })
  assert.equal(await isValid(k), false)
})

conformance(75, 'an award to its own issuer adds nobody and makes no entry', async (k) => {
  k.endorse(k.E, k.E)
  k.follow(k.E)
  assert.deepEqual(await k.keys(byE(k)), [])
})

conformance(76, 'an award of another content of the definition is not valid', async (k) => {
  const badge = k.put(k.E, 'definition', 'def')
  endorsed(k, { badge })
  assert.equal(await isValid(k), true)
  k.put(k.E, 'definition', 'def', { title: 'Better work' })
  assert.equal(await isValid(k), false)
})

conformance(77, 'awards of a badge of recognition are not valid', async (k) => {
  endorsed(k, { badge: k.put(k.E, 'definition', 'def', { badgeType: 'recognition' }) })
  assert.equal(await isValid(k), false)
})

conformance(78, 'a definition in another repository that allows the issuer counts', async (k) => {
  endorsed(k, { badge: k.put(k.B, 'definition', 'def', { allowedIssuers: [{ did: k.E }] }) })
  assert.equal(await isValid(k), true)
})

conformance(79, 'the list of allowed issuers decides', async (k) => {
  const issuer = k.did('i')
  const valid = async (allowedIssuers: unknown, by: Did): Promise<boolean> => {
    const rkey = k.nextKey()
    const badge = k.put(k.B, 'definition', rkey, { allowedIssuers })
    const subject = k.did(
      `s${rkey.slice(-2).replaceAll(/\d/g, (digit) => 'abcdefghij'[Number(digit)] ?? '')}`,
    )
    k.put(subject, 'activity', `of${rkey}`)
    k.endorse(by, subject, { badge })
    return (await k.keys({ trustedEvaluators: [by] })).includes(`of${rkey}`)
  }
  assert.equal(await valid([{ did: issuer }], k.E), false)
  assert.equal(await valid([{ did: issuer }], issuer), true)
  assert.equal(await valid([issuer], issuer), true)
  assert.equal(await valid([], issuer), false)
  assert.equal(await valid({ did: issuer }, issuer), false)
})

conformance(80, 'an award that its subject rejected counts for nothing', async (k) => {
  k.respond(k.A, endorsed(k), 'rejected')
  k.follow(k.E)
  assert.deepEqual(await k.keys(byE(k)), [])
})

conformance(81, 'the newest answer by its own time counts', async (k) => {
  const award = endorsed(k)
  k.respond(k.A, award, 'accepted', at('11:00'), at('12:00'))
  k.respond(k.A, award, 'rejected', at('10:00'), at('13:00'))
  assert.equal(await isValid(k), true)
})

conformance(82, 'a rejection of an old content of the award has no effect', async (k) => {
  const { uri } = endorsed(k)
  k.respond(k.A, { uri, cid: `bafyrei${'a'.repeat(52)}` }, 'rejected')
  assert.equal(await isValid(k), true)
})

conformance(83, 'a rejection by another account has no effect', async (k) => {
  k.respond(k.B, endorsed(k), 'rejected')
  assert.equal(await isValid(k), true)
})

conformance(84, 'an award that breaks its lexicon counts and is not shown', async (k) => {
  endorsed(k, { createdAt: undefined })
  k.follow(k.E)
  assert.equal((await k.keys(byE(k))).length, 2)
  assert.deepEqual(await k.kinds(byE(k)), ['cert.create act'])
})
