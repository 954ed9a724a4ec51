import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClientEvent } from './batch.ts'
import { InvalidRecordError, readRecord, type RecordSchema, validRecord } from './typed-record.ts'

const commit = {
  seq: 1,
  did: 'did:web:a.example',
  time: '2026-01-01T00:00:00Z',
  kind: 'commit',
  rev: 'r',
} as const
const place = { collection: 'org.impact.claim.activity', rkey: 'a' }

function put(record: Record<string, unknown>): ClientEvent {
  return { ...commit, ...place, operation: 'create', cid: 'c', record } as ClientEvent // without its brands
}

const schema: RecordSchema<{ title: string }> = {
  '~standard': {
    validate: (value) => {
      const { title } = value as { title?: unknown } // a record is a map
      return typeof title === 'string'
        ? { value: { title } }
        : { issues: [{ message: 'no title' }, { message: 'no' }] }
    },
  },
}

test('a record has the type of its lexicon, or does not fit', async () => {
  assert.deepEqual(readRecord(put({ title: 'a', more: 1 }), schema), { title: 'a' })
  assert.throws(() => readRecord(put({}), schema), { name: 'InvalidRecordError', message: 'no title; no' })
  await assert.rejects(validRecord({}, schema), InvalidRecordError)
})

test('what has no record gives none', () => {
  const refusing: RecordSchema<never> = { '~standard': { validate: () => assert.fail() } }
  const deletion = { ...commit, ...place, operation: 'delete' } as ClientEvent // as above
  const identity = { ...commit, kind: 'identity', identity: { did: commit.did } } as unknown as ClientEvent // as above
  for (const event of [deletion, identity]) assert.equal(readRecord(event, refusing), undefined)
})

test('a schema that answers later is for handlers, and its failure ends nothing', async () => {
  const later: RecordSchema<unknown> = {
    '~standard': { validate: async () => Promise.reject(new Error('late')) },
  }
  assert.throws(() => readRecord(put({}), later), { code: 'InvalidRequest' })
  const good: RecordSchema<number> = { '~standard': { validate: async () => Promise.resolve({ value: 5 }) } }
  assert.equal(await validRecord({}, good), 5)
})
