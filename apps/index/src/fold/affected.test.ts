import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Did, feedCollections, recordUri } from '@tributary/protocol'
import { Affected } from './affected.ts'

test('a record that changes to and fro is noted once with each content', () => {
  const did = 'did:plc:author' as Did // of this test
  for (const collection of [feedCollections.definition, feedCollections.activity]) {
    const uri = recordUri(did, collection, 'one')
    const sizeAfter = (changes: number): number => {
      const affected = new Affected()
      for (let n = 0; n < changes; n++)
        affected.byRecord({ uri, collection, cid: `cid${n % 2}` }, `cid${(n + 1) % 2}`)
      return affected.size
    }
    assert.equal(sizeAfter(100), sizeAfter(2))
  }
})
