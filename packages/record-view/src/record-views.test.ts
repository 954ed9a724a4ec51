/** The shared examples of good and bad records, prepared as the index prepares them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordVectors } from '@tributary/testkit'
import { loadLexicons } from '@tributary/xrpc'
import { createRecordViews } from './record-views.ts'

const views = createRecordViews(loadLexicons())

for (const collection of views.collections) {
  test(`records of ${collection} have a view when they are valid and only then`, () => {
    const { valid, invalid } = recordVectors(collection)
    assert.ok(valid.length > 0 && invalid.length > 0)
    for (const record of valid.filter((each) => !isAwardToRecord(each)))
      assert.ok(views.of(collection, record), JSON.stringify(record))
    for (const { record, why } of invalid) assert.equal(views.of(collection, record), undefined, why)
  })
}

/** An award to a record is valid, and endorses nobody. */
function isAwardToRecord({ subject, badge }: Record<string, unknown>): boolean {
  return badge !== undefined && JSON.stringify(subject).includes('strongRef')
}

const update = {
  $type: 'org.impact.context.attachment',
  title: 'Week 3',
  createdAt: '2026-03-04T12:00:00.000Z',
}

test('a record with more than 50,000 values has no view, and one below that may have any', () => {
  const small = Array.from({ length: 40_000 }, () => 1)
  const large = Array.from({ length: 50_000 }, () => 1)
  assert.ok(views.of('org.impact.context.attachment', { ...update, junk: small }))
  assert.equal(views.of('org.impact.context.attachment', { ...update, junk: large }), undefined)
  assert.equal(views.of('org.impact.context.attachment', { ...update, junk: [small, small] }), undefined)
})

test('a record with thousands of objects that might be blobs or links has no view, because each costs as much as many values', () => {
  const view = (junk: unknown[]): unknown => views.of('org.impact.context.attachment', { ...update, junk })
  for (const each of [
    { $type: 'blob' },
    { cid: 'none', mimeType: 'image/png', size: 1 },
    { $link: 'none' },
    { $bytes: '!' },
  ]) {
    assert.ok(view(Array.from({ length: 2000 }, () => each)))
    assert.equal(view(Array.from({ length: 5000 }, () => each)), undefined)
  }
  assert.ok(view(Array.from({ length: 5000 }, () => ({ $type: 'blobs', mimeType: 'none' }))))
})

test('a record with much text whose graphemes are counted has no view, and one with as much plain text has any', () => {
  const view = (junk: unknown): unknown => views.of('org.impact.context.attachment', { ...update, junk })
  const text = (chars: number, of: string): string => of.repeat(chars)
  assert.ok(view(text(75_000, 'ä')))
  assert.ok(view(text(240_000, 'a')))
  assert.ok(view(text(800_000, 'a')))
  assert.equal(view(text(160_000, 'ä')), undefined)
  assert.equal(view(Array.from({ length: 3 }, () => text(200_000, 'a'))), undefined)
  assert.ok(view(Array.from({ length: 90 }, () => text(10_000, 'a'))))
  assert.equal(view(Array.from({ length: 2500 }, () => text(65, 'ä'))), undefined)
})

test('a record with thousands of references has no view, because each names a CID to be read', () => {
  const references = (count: number): object[] =>
    Array.from({ length: count }, (_, at) => ({
      $type: 'com.atproto.repo.strongRef',
      uri: `at://did:plc:${'a'.repeat(24)}/app.attested.signature.proof/${at}`,
      cid: 'bafkreift5ympvzivnjvvkjx3stgiwwvwbioqgylc4jfg7fddgerfthwfim',
    }))
  const view = (signatures: object[]): unknown =>
    views.of('org.impact.context.attachment', { ...update, signatures })
  assert.ok(view(references(1000)))
  assert.equal(view(references(5000)), undefined)
})

test('a board has as many contributors with an image as its lexicon allows', () => {
  const ref = { $link: 'bafkreift5ympvzivnjvvkjx3stgiwwvwbioqgylc4jfg7fddgerfthwfim' }
  const image = {
    $type: 'org.impact.defs#smallImage',
    image: { $type: 'blob', ref, mimeType: 'image/png', size: 1 },
  }
  const [board] = recordVectors('org.hyperboards.board').valid
  const contributor = { $type: 'org.impact.claim.activity#contributorIdentity', identity: 'Bob' }
  const contributorConfigs = Array.from({ length: 1000 }, () => ({ contributor, displayName: 'Bob', image }))
  assert.ok(views.of('org.hyperboards.board', { ...board, contributorConfigs }))
})

test('an entry that would show a time that strict readers refuse has no view', () => {
  const activity = {
    $type: 'org.impact.claim.activity',
    title: 'Trees',
    shortDescription: 'We planted trees.',
    createdAt: '2026-03-04T12:00:00Z',
  }
  const view = (fields: object): unknown => views.of('org.impact.claim.activity', { ...activity, ...fields })
  const wrong = [
    '2026-01-01T10:00:00',
    '2026-01-01T10:00:00ZT and anything',
    '2026-01-01T10:00:00+01:00-anything',
    '2026-01-01T10:00:00-00:00',
    '9999-12-31T23:30:00-01:00',
  ]
  assert.ok(view({ startDate: '2026-01-01T10:00:00+01:00', endDate: '9999-12-31T23:59:59.999999Z' }))
  for (const field of ['createdAt', 'startDate', 'endDate'])
    for (const time of wrong) assert.equal(view({ [field]: time }), undefined, `${field} ${time}`)
  // Such a time is nothing that a profile shows.
  const profile = 'app.attested.actor.profile'
  assert.ok(views.of(profile, { $type: profile, displayName: 'Alice', createdAt: '2026-01-01T10:00:00' }))
})

test('a collection that no feed shows has no views', () => {
  assert.equal(views.of('app.attested.graph.follow', { $type: 'app.attested.graph.follow' }), undefined)
})
