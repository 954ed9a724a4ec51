import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freeBytes } from './free-bytes.ts'

test('large bytes are freed, and memory that buffers share is left alone', () => {
  const large = new Uint8Array(1_000_000)
  freeBytes(large.subarray(8))
  assert.equal(large.length, 0)
  const [first, second] = [Buffer.from('one'), Buffer.from('two')]
  assert.equal(first.buffer, second.buffer)
  freeBytes(first)
  assert.equal(second.toString(), 'two')
})
