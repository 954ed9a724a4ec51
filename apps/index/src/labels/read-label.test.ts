import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { encode, toBytes } from '@atcute/cbor'
import { parseDatetime } from '@tributary/index-store'
import { parseDidKey } from '@tributary/repo-verify'
import { Signer } from '@tributary/testkit'
import { did } from '../../tests/scenario.ts'
import { readLabel, readLabels } from './read-label.ts'

const labeler = did('L')
const organization = did('O')
const signer = Signer.fromSeed('labeler')
const key = parseDidKey(signer.did())
if (key === undefined) throw new Error('the key cannot be read')

const plain = {
  ver: 1,
  src: labeler,
  uri: organization,
  val: 'high-quality',
  cts: '2026-03-04T05:06:07.000Z',
}

function signed(fields: Record<string, unknown>, by = signer): Record<string, unknown> {
  return { ...fields, sig: toBytes(by.signNow(encode(fields))) }
}

function resultOf(fields: Record<string, unknown>): string {
  return readLabel(signed(fields), labeler, key ?? assert.fail()).result
}

test('a signed label on a bare DID is read, with or without neg, with fields we do not know', () => {
  const expected = {
    src: labeler,
    did: organization,
    uri: organization,
    cid: null,
    val: 'high-quality',
    neg: false,
    cts: parseDatetime(plain.cts),
    exp: null,
  }
  for (const more of [{}, { neg: false }, { later: { field: [1] } }]) {
    assert.deepEqual(readLabel(signed({ ...plain, ...more }), labeler, key), {
      result: 'label',
      label: expected,
    })
  }
  const negation = readLabel(signed({ ...plain, neg: true, exp: '2027-01-01T00:00:00Z' }), labeler, key)
  assert.deepEqual(negation, {
    result: 'label',
    label: { ...expected, neg: true, exp: parseDatetime('2027-01-01T00:00:00Z') },
  })
})

test('a $type beside the signed fields does no harm', () => {
  const label = { ...signed(plain), $type: 'com.atproto.label.defs#label' }
  assert.equal(readLabel(label, labeler, key).result, 'label')
})

test('a label on the organization record is kept under its account', () => {
  const uri = `at://${organization}/app.attested.actor.organization/self`
  const read = readLabel(signed({ ...plain, uri, cid: 'bafyreib' }), labeler, key)
  assert.equal(read.result === 'label' && read.label.did, organization)
  assert.equal(read.result === 'label' && read.label.cid, 'bafyreib')
})

test('what says nothing about the quality of an organization is irrelevant (cases 92 and 93)', () => {
  assert.equal(resultOf({ ...plain, val: 'porn' }), 'irrelevant')
  assert.equal(resultOf({ ...plain, cid: 'bafyreib' }), 'irrelevant')
  assert.equal(
    resultOf({ ...plain, uri: `at://${organization}/app.attested.actor.profile/self` }),
    'irrelevant',
  )
  assert.equal(resultOf({ ...plain, uri: 'https://orchard.example' }), 'irrelevant')
  assert.equal(
    resultOf({ ...plain, uri: `did:web:${'a'.repeat(293)}` }),
    'irrelevant',
    'too long for an index',
  )
  assert.equal(resultOf({ ...plain, cts: 'yesterday' }), 'irrelevant')
  assert.equal(resultOf({ ...plain, exp: 'never' }), 'irrelevant')
  assert.equal(resultOf({ ...plain, exp: null }), 'irrelevant')
})

test('a label of another source, with a wrong signature or without one is refused', () => {
  assert.equal(resultOf({ ...plain, src: organization }), 'wrong-source')
  assert.equal(readLabel(signed(plain, Signer.fromSeed('other')), labeler, key).result, 'bad-signature')
  assert.equal(readLabel({ ...signed(plain), val: 'standard' }, labeler, key).result, 'bad-signature')
  assert.equal(readLabel(plain, labeler, key).result, 'bad-signature')
  assert.equal(readLabel({ ...plain, sig: 'text' }, labeler, key).result, 'bad-signature')
})

test('anything else is malformed', () => {
  for (const value of [null, 7, [], 'label']) assert.equal(readLabel(value, labeler, key).result, 'malformed')
  assert.equal(resultOf({ ...plain, uri: 7 }), 'malformed')
  assert.equal(resultOf({ ...plain, val: 5 }), 'malformed')
  assert.equal(resultOf({ ...plain, cts: 1_772_600_000 }), 'malformed')
  const uri = `at://${organization}/app.attested.actor.organization/self`
  for (const cid of ['bafyreib\u0000', '\ud800', 'b'.repeat(257)])
    assert.equal(resultOf({ ...plain, uri, cid }), 'malformed', 'no database takes it, or none should')
})

test('fields that cannot be written as DAG-CBOR make a label malformed', () => {
  let deep: unknown = 1
  for (let level = 0; level < 100_000; level++) deep = [deep]
  for (const field of [{ $link: 1 }, { $bytes: 1 }, { constructor: 1 }, deep])
    assert.equal(readLabel({ ...signed(plain), field }, labeler, key).result, 'malformed')
  assert.equal(readLabel({ ...plain, sig: { $bytes: '!' } }, labeler, key).result, 'malformed')
})

test('many labels of one message are checked in turns of the event loop', async () => {
  let turns = 0
  const counting = new AbortController()
  const counted = (async () => {
    for (; !counting.signal.aborted; turns++) await nextTurn()
  })()
  const read = await readLabels(Array(640).fill(signed(plain)), labeler, key)
  counting.abort()
  await counted
  assert.equal(read.filter(({ result }) => result === 'label').length, 640)
  assert.ok(turns >= 9, String(turns))
})
