import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseRange } from './send-bytes.ts'

test('one range is read, within the size', () => {
  assert.deepEqual(parseRange('bytes=0-', 10), { start: 0, end: 10 })
  assert.deepEqual(parseRange('bytes=2-4', 10), { start: 2, end: 5 })
  assert.deepEqual(parseRange('bytes=2-400', 10), { start: 2, end: 10 })
  assert.deepEqual(parseRange('bytes=-3', 10), { start: 7, end: 10 })
  assert.deepEqual(parseRange('bytes=-30', 10), { start: 0, end: 10 })
})

test('a range behind the end cannot be satisfied', () => {
  assert.equal(parseRange('bytes=10-', 10), 'unsatisfiable')
  assert.equal(parseRange('bytes=-0', 10), 'unsatisfiable')
  assert.equal(parseRange('bytes=0-', 0), 'unsatisfiable')
})

test('what is no single range counts as none', () => {
  for (const header of [
    undefined,
    '',
    'bytes=',
    'bytes=-',
    'bytes=4-2',
    'bytes=0-1,3-4',
    'rows=1-2',
    'bytes=a-b',
  ]) {
    assert.equal(parseRange(header, 10), undefined)
  }
})
