/** Behaviour cases 62 to 99 of the feed specification, as far as a reader decides them: whose entries may appear. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { recordUri } from '@tributary/protocol'
import type { LabelRow } from './index-fixture.ts'
import { did, noon } from './sample.ts'
import { TestFeed, viewer } from './test-feed.ts'

const [alice, bob, evaluator, organization] = [
  did('alice'),
  did('bob'),
  did('evaluator'),
  did('organization'),
]
const otherLabeler = did('otherlabeler')
const clock = { nowMs: Date.parse(noon) }
let feed: TestFeed

before(async () => {
  const labelers = [did('labeler'), otherLabeler, did('labeler')]
  feed = await TestFeed.start({ now: () => clock.nowMs, settings: { labelers } })
})
after(() => feed[Symbol.asyncDispose]())
beforeEach(() => feed.index.clear())

test('only the entries of followed accounts appear', async () => {
  await feed.index.follow(viewer, alice)
  const uri = await feed.index.entry({ did: alice })
  await feed.index.entry({ did: bob })
  assert.deepEqual(await subjects(), [uri])
})

test('an account that is followed twice appears once', async () => {
  await feed.index.follow(viewer, alice)
  await feed.index.follow(viewer, alice)
  const uri = await feed.index.entry({ did: alice })
  assert.deepEqual(await subjects(), [uri])
})

test("the viewer's own entries never appear, not even when followed or endorsed", async () => {
  await feed.index.follow(viewer, viewer)
  await feed.index.endorsement(evaluator, viewer)
  await feed.index.entry({ did: viewer })
  assert.deepEqual(await subjects({ trustedEvaluators: [evaluator] }), [])
})

test('a viewer who follows nobody and names no evaluator gets an empty feed without a cursor', async () => {
  await feed.index.entry({ did: alice })
  assert.deepEqual(await feed.skeleton(), { subjects: [], cursor: undefined })
  assert.deepEqual(await feed.page(), { feed: [] })
})

test('the follows of another viewer do not count', async () => {
  await feed.index.follow(viewer, organization)
  await feed.index.follow(bob, alice)
  await feed.index.entry({ did: alice })
  assert.deepEqual(await subjects(), [])
})

test('an account is gone from the next request on when its follow is', async () => {
  const follow = await feed.index.follow(viewer, alice)
  await feed.index.entry({ did: alice })
  assert.equal((await subjects()).length, 1)
  await feed.index.remove(follow)
  assert.deepEqual(await subjects(), [])
})

test('a viewer may follow more than 500 accounts', async () => {
  for (let i = 0; i < 501; i++) await feed.index.follow(viewer, did(`author${i}x`))
  const uri = await feed.index.entry({ did: did('author500x') })
  assert.deepEqual(await subjects(), [uri])
})

test('a named evaluator adds the accounts that it endorsed, and not itself', async () => {
  await feed.index.endorsement(evaluator, alice)
  const uri = await feed.index.entry({ did: alice })
  assert.deepEqual(await subjects(), [])
  assert.deepEqual(await subjects({ trustedEvaluators: [evaluator] }), [uri])
  assert.deepEqual(await subjects({ trustedEvaluators: [bob] }), [])
})

test('an evaluator that is followed too appears with its award', async () => {
  await feed.index.follow(viewer, evaluator)
  const award = await feed.index.endorsement(evaluator, alice)
  const uri = await feed.index.entry({ did: alice, at: '2026-03-04T13:00:00Z' })
  assert.deepEqual(await subjects({ trustedEvaluators: [evaluator] }), [uri, award])
  const { feed: items } = await feed.page({ trustedEvaluators: [evaluator] })
  assert.deepEqual(
    items.map(({ view }) => view.kind),
    ['cert.create', 'endorsement.award'],
  )
})

test('an account that is both followed and endorsed, by two evaluators, appears once', async () => {
  await feed.index.follow(viewer, alice)
  await feed.index.endorsement(evaluator, alice)
  await feed.index.endorsement(bob, alice)
  const uri = await feed.index.entry({ did: alice })
  assert.deepEqual(await subjects({ trustedEvaluators: [evaluator, bob] }), [uri])
})

const high = { allowed: ['high-quality'], includeUnrated: false }
const highOrUnrated = { allowed: ['high-quality'], includeUnrated: true }
const row = (val: LabelRow['val'], more: Partial<LabelRow> = {}): LabelRow => ({
  did: organization,
  val,
  ...more,
})
const hour = (h: number): string => `2026-03-04T${String(h).padStart(2, '0')}:00:00Z`
const self = recordUri(organization, 'app.attested.actor.organization', 'self')

interface QualityCase {
  readonly what: string
  readonly labels: readonly LabelRow[]
  readonly rule?: object
  readonly stays: boolean
}

/** An organization and what labelers said of it. The time is noon. */
const qualityCases: readonly QualityCase[] = [
  { what: 'without labels and without a rule', labels: [], stays: true },
  { what: 'labelled likely-test, without a rule', labels: [row('likely-test')], stays: true },
  { what: 'with an allowed label', labels: [row('high-quality')], rule: high, stays: true },
  {
    what: 'with one of two allowed labels',
    labels: [row('standard')],
    rule: ['high-quality', 'standard'],
    stays: true,
  },
  { what: 'with a label that is not allowed', labels: [row('draft')], rule: high, stays: false },
  { what: 'without labels', labels: [], rule: high, stays: false },
  { what: 'without labels, unrated included', labels: [], rule: highOrUnrated, stays: true },
  {
    what: 'labelled likely-test, unrated included',
    labels: [row('likely-test')],
    rule: highOrUnrated,
    stays: false,
  },
  { what: 'with a label and an empty rule', labels: [row('high-quality')], rule: [], stays: false },
  {
    what: 'unrated, with an empty rule that includes it',
    labels: [],
    rule: { allowed: [], includeUnrated: true },
    stays: true,
  },
  {
    what: 'labelled by a labeler that is not trusted',
    labels: [row('high-quality', { src: bob })],
    rule: high,
    stays: false,
  },
  {
    what: 'badly labelled by a labeler that is not trusted',
    labels: [row('draft', { src: bob })],
    rule: highOrUnrated,
    stays: true,
  },
  {
    what: 'well labelled by a labeler that is not trusted, and badly by one that is',
    labels: [row('high-quality', { src: bob }), row('draft')],
    rule: high,
    stays: false,
  },
  { what: 'labelled on its record', labels: [row('high-quality', { uri: self })], rule: high, stays: false },
  { what: 'labelled with a cid', labels: [row('high-quality', { cid: 'bafyx' })], rule: high, stays: false },
  {
    what: 'with an expired label',
    labels: [row('high-quality', { exp: hour(11) })],
    rule: high,
    stays: false,
  },
  {
    what: 'with a label that expires now',
    labels: [row('high-quality', { exp: hour(12) })],
    rule: high,
    stays: false,
  },
  {
    what: 'with a label that expires later',
    labels: [row('high-quality', { exp: hour(13) })],
    rule: high,
    stays: true,
  },
  {
    what: 'with an expired bad label, unrated included',
    labels: [row('draft', { exp: hour(11) })],
    rule: highOrUnrated,
    stays: true,
  },
  {
    what: 'negated at the time of the label',
    labels: [row('high-quality', { cts: hour(9) }), row('high-quality', { cts: hour(9), neg: true })],
    rule: high,
    stays: false,
  },
  {
    what: 'negated after the label',
    labels: [row('high-quality', { cts: hour(9) }), row('high-quality', { cts: hour(10), neg: true })],
    rule: high,
    stays: false,
  },
  {
    what: 'negated before the label',
    labels: [row('high-quality', { cts: hour(9) }), row('high-quality', { cts: hour(8), neg: true })],
    rule: high,
    stays: true,
  },
  {
    what: 'labelled again after a negation',
    labels: [
      row('high-quality', { cts: hour(7) }),
      row('high-quality', { cts: hour(8), neg: true }),
      row('high-quality', { cts: hour(9) }),
    ],
    rule: high,
    stays: true,
  },
  {
    what: 'with a negation that has expired',
    labels: [
      row('high-quality', { cts: hour(8) }),
      row('high-quality', { cts: hour(9), neg: true, exp: hour(10) }),
    ],
    rule: high,
    stays: true,
  },
  {
    what: 'with a negation on its record',
    labels: [
      row('high-quality', { cts: hour(8) }),
      row('high-quality', { cts: hour(9), neg: true, uri: self }),
    ],
    rule: high,
    stays: true,
  },
  {
    what: 'with a negation of another value',
    labels: [row('high-quality', { cts: hour(8) }), row('draft', { cts: hour(9), neg: true })],
    rule: high,
    stays: true,
  },
  {
    what: 'with a negation by another labeler',
    labels: [
      row('high-quality', { cts: hour(8) }),
      row('high-quality', { cts: hour(9), neg: true, src: otherLabeler }),
    ],
    rule: high,
    stays: true,
  },
  {
    what: 'with a newer label that has expired and an older one that has not',
    labels: [row('high-quality', { cts: hour(8) }), row('high-quality', { cts: hour(9), exp: hour(10) })],
    rule: high,
    stays: true,
  },
  {
    what: 'on which two trusted labelers disagree',
    labels: [row('likely-test'), row('high-quality', { src: otherLabeler })],
    rule: high,
    stays: true,
  },
]

for (const { what, labels, rule, stays } of qualityCases) {
  test(`an organization ${what} ${stays ? 'stays' : 'goes'}`, async () => {
    await feed.index.follow(viewer, organization)
    await feed.index.organization(organization)
    const uri = await feed.index.entry({ did: organization })
    for (const label of labels) await feed.index.label(label)
    assert.deepEqual(await subjects(rule ? { organizationQuality: rule } : {}), stays ? [uri] : [])
  })
}

test('the rule never removes an account that is no organization', async () => {
  await feed.index.follow(viewer, alice)
  const uri = await feed.index.entry({ did: alice })
  await feed.index.label({ did: alice, val: 'likely-test' })
  assert.deepEqual(await subjects({ organizationQuality: high }), [uri])
})

test('the rule applies to accounts that evaluators add', async () => {
  await feed.index.endorsement(evaluator, organization)
  await feed.index.organization(organization)
  const uri = await feed.index.entry({ did: organization })
  const params = { trustedEvaluators: [evaluator], organizationQuality: high }
  assert.deepEqual(await subjects(params), [])
  await feed.index.label(row('high-quality'))
  assert.deepEqual(await subjects(params), [uri])
})

test('without trusted labelers every organization is unrated', async () => {
  await using service = await TestFeed.start({ settings: { labelers: [] } })
  await service.index.follow(viewer, organization)
  await service.index.organization(organization)
  await service.index.label(row('likely-test'))
  const uri = await service.index.entry({ did: organization })
  assert.deepEqual((await service.skeleton({ organizationQuality: high })).subjects, [])
  assert.deepEqual((await service.skeleton({ organizationQuality: highOrUnrated })).subjects, [uri])
})

test('an account whose rows the index took out is not there, and its profile is not shown', async () => {
  await feed.index.follow(viewer, evaluator)
  await feed.index.endorsement(evaluator, alice)
  const profile = { $type: 'app.attested.actor.profile', displayName: 'Alice', createdAt: noon }
  await feed.index.record(alice, 'app.attested.actor.profile', profile)
  assert.deepEqual(await endorsedSummary(), { did: alice, displayName: 'Alice' })
  await feed.index.hide(alice)
  assert.deepEqual(await endorsedSummary(), { did: alice })
})

async function subjects(params: object = {}): Promise<string[]> {
  return (await feed.skeleton(params)).subjects
}

async function endorsedSummary(): Promise<unknown> {
  const { feed: items } = await feed.page()
  return items[0]?.view.content['subject']
}
