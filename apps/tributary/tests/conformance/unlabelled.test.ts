/** Case 98 of the feed specification: no trusted labelers. */
import assert from 'node:assert/strict'
import { startConformance } from './conformance.ts'
import { didOf } from './made.ts'
import { labelers } from './world.ts'

const conformance = startConformance({
  labelers: [],
  prepare: (directory) => directory.startLabeler(labelers[0], [{ did: didOf('ocji'), val: 'high-quality' }]),
})

conformance(98, 'without trusted labelers every organization is unrated', async (k) => {
  k.put(k.O, 'organization', 'self')
  k.put(k.O, 'activity', 'of')
  k.follow(k.O)
  const rule = (includeUnrated: boolean): object => ({
    organizationQuality: { allowed: ['high-quality'], includeUnrated },
  })
  assert.deepEqual([await k.keys(rule(false)), await k.keys(rule(true))], [[], ['of']])
})
