import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KnownCollections } from './known-collections.ts'

const account = (row: number): { row: number } => ({ row })
const namesFrom = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `a.b.name${from + n}`)

test('a collection is new for an account once, until what is stored of the account is dropped', () => {
  const known = new KnownCollections()
  assert.deepEqual(known.note(account(1), 'a.b.one'), ['a.b.one'])
  assert.deepEqual(known.note(account(1), 'a.b.one'), [])
  assert.deepEqual(known.note(account(1), 'a.b.two a.b.one'), ['a.b.two'])
  assert.deepEqual(known.note(account(1), 'a.b.on'), ['a.b.on'])
  assert.deepEqual(known.note(account(1), 'a.b.one a.b.on a.b.two'), [])
  assert.deepEqual(known.note(account(1), ''), [])
  assert.deepEqual(known.note(account(2), 'a.b.one'), ['a.b.one'])
  known.forget(account(1))
  assert.deepEqual(known.note(account(1), 'a.b.one'), ['a.b.one'])
})

test('an account that writes into dozens of collections stores each of them once', () => {
  const known = new KnownCollections()
  const names = namesFrom(0, 100)
  for (const name of names) assert.deepEqual(known.note(account(1), name), [name])
  for (const name of names) assert.deepEqual(known.note(account(1), name), [])
})

test('collections take a bounded amount of memory, in each account and in all', () => {
  const known = new KnownCollections()
  for (const name of namesFrom(0, 101)) known.note(account(1), name)
  // What is no longer remembered is new again.
  assert.deepEqual(known.note(account(1), 'a.b.name0'), ['a.b.name0'])
  for (let row = 2; row < 100_000; row++) known.note(account(row), 'a.b.one')
  assert.deepEqual(known.note(account(2), 'a.b.one'), ['a.b.one'])
  for (let from = 0; from < 30_000; from += 100)
    known.note(account(100_000 + from), namesFrom(from, 100).join(' '))
  assert.deepEqual(known.note(account(99_999), 'a.b.one'), ['a.b.one'])
  assert.deepEqual(known.note(account(99_999), 'a.b.one'), [])
})
