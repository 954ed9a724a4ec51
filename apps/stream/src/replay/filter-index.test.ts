import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileFilter, type EventFilter, eventKinds } from '@tributary/protocol'
import fc from 'fast-check'
import { FilterIndex, type Indexed } from './filter-index.ts'

const collections = ['app.a.b', 'app.a.c', 'app.a.b.d', 'org.x.y', 'org.x.yz']
const patterns = [...collections, 'app.a.*', 'app.a.b.*', 'org.x.*', 'org.none.*']
const dids = ['did:plc:a', 'did:plc:b', 'did:web:c.test']
const subset = <T extends string>(values: readonly T[]): fc.Arbitrary<T[]> =>
  fc.subarray([...values], { maxLength: 3 })
const anyFilter: fc.Arbitrary<EventFilter> = fc.record({
  kinds: subset(eventKinds),
  collections: subset(patterns),
  dids: subset(dids),
})
const anyEvent = fc
  .record({
    kind: fc.constantFrom(...eventKinds),
    did: fc.constantFrom(...dids),
    collection: fc.constantFrom(...collections),
  })
  .map((event) => (event.kind === 'commit' ? event : { ...event, collection: '' }))

test('an event visits exactly those whose filter matches it, also after others have left', () => {
  fc.assert(
    fc.property(fc.array(anyFilter, { maxLength: 12 }), anyEvent, fc.nat(), (filters, event, leaving) => {
      const index = new FilterIndex<Indexed>()
      const entries = filters.map((filter) => ({ filter, matches: compileFilter(filter) }))
      for (const entry of entries) index.add(entry)
      const left = entries.filter((_, i) => (leaving >> i) & 1)
      for (const entry of left) index.remove(entry)
      const visited = new Set<Indexed>()
      index.match(event.kind, event.did, event.collection, (entry) => visited.add(entry))
      const wanted = entries.filter((entry) => !left.includes(entry) && entry.matches(event))
      assert.deepEqual([...visited].toSorted(byPosition(entries)), wanted)
    }),
  )
})

function byPosition(entries: readonly Indexed[]): (a: Indexed, b: Indexed) => number {
  return (a, b) => entries.indexOf(a) - entries.indexOf(b)
}

test('an event does not visit one that wants another collection, kind or account', () => {
  const index = new FilterIndex<Indexed>()
  const never = (): never => assert.fail('visited')
  index.add({ filter: { collections: ['app.a.c'], kinds: ['commit'] }, matches: never })
  index.add({ filter: { kinds: ['identity'] }, matches: never })
  index.add({ filter: { dids: ['did:plc:b'] }, matches: never })
  index.match('commit', 'did:plc:a', 'app.a.b', never)
})
