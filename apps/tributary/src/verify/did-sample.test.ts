import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { DidSample } from './did-sample.ts'

const dids = Array.from({ length: 1000 }, (_, i) => `did:plc:${String(i).padStart(24, 'a')}` as Did) // they are some

function sampleOf(max: number, salt: string, added: readonly Did[]): Did[] {
  const sample = new DidSample(max, salt)
  for (const did of added) sample.add(did)
  return sample.dids.toSorted()
}

test('a sample has each DID once and does not depend on how often and in which order they came', () => {
  const sample = sampleOf(10, 'salt', dids)
  assert.equal(new Set(sample).size, 10)
  assert.deepEqual(sampleOf(10, 'salt', [...dids.toReversed(), ...dids.slice(0, 300)]), sample)
  assert.notDeepEqual(sampleOf(10, 'other salt', dids), sample)
})

test('a sample has all when there are no more, and none when none is wanted', () => {
  assert.deepEqual(sampleOf(1000, 'salt', dids), dids.toSorted())
  assert.deepEqual(sampleOf(0, 'salt', dids), [])
})
