import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadLexicons, methodDefinition } from './lexicons.ts'

test('every lexicon of the repository loads, and every reference in them leads somewhere', () => {
  const lexicons = loadLexicons()
  const missing = [...lexicons].flatMap((document) =>
    referencesIn(document).filter((reference) => lexicons.getDef(reference) === undefined),
  )
  assert.deepEqual([...new Set(missing)], [])
  assert.ok([...lexicons].length > 50)
})

test('a method of the wrong type or an unknown one is a fault at start', () => {
  const lexicons = loadLexicons()
  assert.equal(methodDefinition(lexicons, 'com.atproto.sync.listHosts', 'query').type, 'query')
  assert.throws(() => methodDefinition(lexicons, 'com.atproto.sync.listHosts', 'procedure'))
  assert.throws(() => methodDefinition(lexicons, 'com.example.nothing', 'query'))
})

/** Everything a document refers to, in the absolute form that loading gives references. */
function referencesIn(value: unknown): string[] {
  if (typeof value === 'string') return value.startsWith('lex:') ? [value] : []
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(referencesIn) : []
}
