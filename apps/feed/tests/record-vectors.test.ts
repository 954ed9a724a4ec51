/** The shared examples of good and bad records, read as the feed reads them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordVectors } from '@tributary/testkit'
import { loadLexicons } from '@tributary/xrpc'
import { createRecordReader } from '../src/hydrate/record.ts'
import { collectionOf } from './sample.ts'

const readRecord = createRecordReader(loadLexicons())
const shown = new Set([
  ...Object.values(collectionOf),
  'app.attested.actor.profile',
  'app.social.actor.profile',
])

for (const collection of shown) {
  test(`records of ${collection} are shown when they are valid and only then`, () => {
    const { valid, invalid } = recordVectors(collection)
    assert.ok(valid.length > 0 && invalid.length > 0)
    for (const record of valid)
      assert.ok(readRecord(collection, JSON.stringify(record)), JSON.stringify(record))
    for (const { record, why } of invalid) {
      assert.equal(readRecord(collection, JSON.stringify(record)), undefined, why)
    }
  })
}
