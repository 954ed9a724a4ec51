/** Cases 85 to 99 of the feed specification: which organizations may appear, by what labelers say. */
import assert from 'node:assert/strict'
import type { Case } from './case.ts'
import { startConformance } from './conformance.ts'
import { type GivenLabel, Signed } from './directory.ts'
import { at, didOf } from './made.ts'
import { labelers } from './world.ts'

const [first, second] = labelers
const stranger = new Signed(didOf('stranger'))
const high = { organizationQuality: ['high-quality'] }
const highOrUnrated = { organizationQuality: { allowed: ['high-quality'], includeUnrated: true } }

/** An organization that was labelled before the services started. */
const organization = (name: string) => didOf(`org${name}`)
const said = (name: string, val: string, more: Partial<GivenLabel> = {}): GivenLabel => ({
  did: organization(name),
  val,
  ...more,
})
const record = (name: string): string => `at://${organization(name)}/app.attested.actor.organization/self`
const early = at('08:00')

const byFirst: readonly GivenLabel[] = [
  said('test', 'likely-test'),
  said('high', 'high-quality'),
  said('draft', 'draft'),
  said('onrecord', 'high-quality', { uri: record('onrecord') }),
  said('withcid', 'high-quality', { cid: `bafyrei${'a'.repeat(52)}` }),
  said('badcts', 'high-quality', { cts: 'yesterday' }),
  said('badexp', 'high-quality', { exp: 'tomorrow' }),
  said('badneg', 'high-quality'),
  said('badneg', 'high-quality', { neg: true, cts: 'later' }),
  said('expired', 'high-quality', { exp: at('11:00') }),
  said('negequal', 'high-quality', { cts: early }),
  said('negequal', 'high-quality', { cts: early, neg: true }),
  said('neglater', 'high-quality', { cts: early }),
  said('neglater', 'high-quality', { cts: at('09:00'), neg: true }),
  said('negearlier', 'high-quality', { cts: early }),
  said('negearlier', 'high-quality', { cts: at('07:00'), neg: true }),
  said('negexpired', 'high-quality', { cts: early }),
  said('negexpired', 'high-quality', { cts: at('09:00'), neg: true, exp: at('10:00') }),
  said('both', 'likely-test'),
]
/** Labels that count for nothing and are not stored: without readable times, or with a cid on an account. */
const unreadable = 4

const conformance = startConformance({
  async prepare(directory) {
    await directory.startLabeler(first, byFirst)
    await directory.startLabeler(second, [said('both', 'high-quality')])
    await directory.startLabeler(stranger, [said('strange', 'high-quality')])
  },
})

/** Whether an organization's record is on V's page. */
async function stays(k: Case, name: string, params: object = {}, rkey = 'self'): Promise<boolean> {
  await k.world.counted(
    /index_labels_total\{[^}]*result="stored"[^}]*\} (\d+)/,
    byFirst.length - unreadable + 1,
  )
  const did = organization(name)
  const key = k.nextKey()
  k.put(did, 'organization', rkey)
  k.put(did, 'activity', key)
  k.follow(did)
  return (await k.keys(params)).includes(key)
}

conformance(85, 'without a rule every organization stays', async (k) => {
  assert.deepEqual([await stays(k, 'none'), await stays(k, 'test')], [true, true])
})

conformance(86, 'an allowed label keeps, another one does not', async (k) => {
  assert.deepEqual([await stays(k, 'high', high), await stays(k, 'draft', high)], [true, false])
})

conformance(87, 'an organization without a label goes, unless the unrated are included', async (k) => {
  assert.deepEqual([await stays(k, 'none', high), await stays(k, 'none', highOrUnrated)], [false, true])
})

conformance(88, 'including the unrated does not help one that is rated otherwise', async (k) => {
  assert.equal(await stays(k, 'test', highOrUnrated), false)
})

conformance(89, 'an account that is no organization stays', async (k) => {
  k.follow(k.A)
  k.put(k.A, 'activity', 'a')
  assert.deepEqual(await k.keys(high), ['a'])
})

conformance(90, 'an organization record under another key makes none', async (k) => {
  assert.equal(await stays(k, 'otherkey', high, 'profile'), true)
})

conformance(91, 'a label of a labeler that is not trusted has no effect', async (k) => {
  assert.equal(await stays(k, 'strange', high), false)
})

conformance(92, 'a label on the record, or with a cid, has no effect', async (k) => {
  assert.deepEqual([await stays(k, 'onrecord', high), await stays(k, 'withcid', high)], [false, false])
})

conformance(93, 'a label or a negation whose times are none does not count', async (k) => {
  assert.deepEqual([await stays(k, 'badcts', high), await stays(k, 'badexp', high)], [false, false])
  assert.equal(await stays(k, 'badneg', high), true)
})

conformance(94, 'an organization whose label has expired is unrated', async (k) => {
  assert.deepEqual([await stays(k, 'expired', high), await stays(k, 'expired', highOrUnrated)], [false, true])
})

conformance(95, 'a negation of the same time or later takes a label off', async (k) => {
  const kept = [
    await stays(k, 'negequal', high),
    await stays(k, 'neglater', high),
    await stays(k, 'negearlier', high),
  ]
  assert.deepEqual(kept, [false, false, true])
})

conformance(96, 'a negation that has expired leaves the label on', async (k) => {
  assert.equal(await stays(k, 'negexpired', high), true)
})

conformance(97, 'one allowed label of several is enough', async (k) => {
  assert.equal(await stays(k, 'both', high), true)
})

conformance(99, 'the rule applies also to whom only an evaluator adds', async (k) => {
  const did = organization('draft')
  k.put(did, 'organization', 'self')
  k.put(did, 'activity', 'of99')
  k.endorse(k.E, did)
  const byE = { trustedEvaluators: [k.E] }
  const has = async (params: object): Promise<boolean> => (await k.keys(params)).includes('of99')
  assert.deepEqual([await has(byE), await has({ ...byE, ...high })], [true, false])
})
