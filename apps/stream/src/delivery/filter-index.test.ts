import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileFilter, compileFilterBesidesDid, type EventFilter, eventKinds } from '@tributary/protocol'
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
  // A client may name a DID twice.
  dids: fc.array(fc.constantFrom(...dids), { maxLength: 4 }),
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
      const entries = filters.map(entryOf)
      for (const entry of entries) index.add(entry)
      const left = entries.filter((_, i) => (leaving >> i) & 1)
      for (const entry of left) index.remove(entry)
      const visited = new Set<Indexed>()
      index.match(event.kind, event.did, event.collection, (entry) => visited.add(entry))
      const staying = entries.filter((entry) => !left.includes(entry))
      const wanted = staying.filter(({ filter }) => compileFilter(filter)(event))
      assert.deepEqual([...visited].toSorted(byPosition(entries)), wanted)
      for (const entry of staying)
        assert.equal(
          index.wantsDid(entry, event.did),
          compileFilter({ dids: entry.filter.dids ?? [] })(event),
        )
    }),
  )
})

test('an event visits a filter of DIDs once, however often it names the DID', () => {
  const index = new FilterIndex<Indexed>()
  const [one, other] = [entryOf({ dids: ['did:plc:a', 'did:plc:a'] }), entryOf({ dids: ['did:plc:a'] })]
  const visited: Indexed[] = []
  index.add(one)
  index.match('commit', 'did:plc:a', 'app.a.b', (entry) => visited.push(entry))
  assert.deepEqual(visited.splice(0), [one])
  index.remove(one)
  for (const entry of [other, one]) index.add(entry)
  index.match('commit', 'did:plc:a', 'app.a.b', (entry) => visited.push(entry))
  assert.deepEqual(visited, [other, one])
  index.remove(one)
  assert.equal(index.wantsDid(one, 'did:plc:a'), false)
  index.match('commit', 'did:plc:a', 'app.a.b', (entry) => visited.push(entry))
  assert.deepEqual(visited, [other, one, other])
})

function entryOf(filter: EventFilter): Indexed {
  return { filter, matchesBesidesDid: compileFilterBesidesDid(filter) }
}

function byPosition(entries: readonly Indexed[]): (a: Indexed, b: Indexed) => number {
  return (a, b) => entries.indexOf(a) - entries.indexOf(b)
}

test('an event does not visit one that wants another collection, kind or account', () => {
  const index = new FilterIndex<Indexed>()
  const never = (): never => assert.fail('visited')
  index.add({ filter: { collections: ['app.a.c'], kinds: ['commit'] }, matchesBesidesDid: never })
  index.add({ filter: { kinds: ['identity'] }, matchesBesidesDid: never })
  index.add({ filter: { dids: ['did:plc:b'] }, matchesBesidesDid: never })
  index.match('commit', 'did:plc:a', 'app.a.b', never)
})
