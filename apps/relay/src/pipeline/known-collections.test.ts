import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { KnownCollections } from './known-collections.ts'

const did = (n: number): Did => `did:web:host-${n}.example` as Did // of the right form

test('a collection is new for an account once, until what is stored of the account is dropped', () => {
  const known = new KnownCollections()
  assert.deepEqual(known.note(did(1), 'a.b.one'), ['a.b.one'])
  assert.deepEqual(known.note(did(1), 'a.b.one'), [])
  assert.deepEqual(known.note(did(1), 'a.b.two a.b.one'), ['a.b.two'])
  assert.deepEqual(known.note(did(1), 'a.b.on'), ['a.b.on'])
  assert.deepEqual(known.note(did(1), ''), [])
  assert.deepEqual(known.note(did(2), 'a.b.one'), ['a.b.one'])
  known.forget(did(1))
  assert.deepEqual(known.note(did(1), 'a.b.one'), ['a.b.one'])
})

test('names take a bounded amount of memory, in each account and in all', () => {
  const known = new KnownCollections()
  const names = Array.from({ length: 200 }, (_, n) => `a.b.name${n}`)
  for (const name of names) assert.deepEqual(known.note(did(1), name), [name])
  // What is no longer remembered is new again.
  assert.deepEqual(known.note(did(1), 'a.b.name0'), ['a.b.name0'])
  for (let n = 2; n < 50_000; n++) known.note(did(n), 'a.b.one')
  assert.deepEqual(known.note(did(2), 'a.b.one'), ['a.b.one'])
})
