import assert from 'node:assert/strict'
import { test } from 'node:test'
import { escapeSigns } from './print-json.ts'

test('JSON on a terminal holds nothing that the terminal obeys, and is the same value', () => {
  const value = { 'a\u009b2J': ['b\u007f\u202ec', 'd\u2028e', 'f\u{e0001}g', 'h\u001b[2J\n', 'ä 🌱'] }
  const text = escapeSigns(JSON.stringify(value, undefined, 2))
  assert.doesNotMatch(text.replaceAll('\n', ''), /[\p{Cc}\p{Cf}\u2028\u2029]/u)
  assert.deepEqual(JSON.parse(text), value)
  assert.equal(text.split('\n').length, JSON.stringify(value, undefined, 2).split('\n').length)
  assert.ok(text.includes('ä 🌱'))
})
