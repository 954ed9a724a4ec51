import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  compileFilter,
  decodeFrame,
  encodeErrorFrame,
  encodeFrame,
  FrameError,
  isCollectionPattern,
} from './index.ts'

test('a frame reads back as it was written, in canonical key order', () => {
  const bytes = encodeFrame('#account', { seq: 5, did: 'did:plc:a', active: true, status: undefined })
  assert.equal(Buffer.from(bytes.subarray(0, 3)).toString('hex'), 'a26174')
  assert.deepEqual(decodeFrame(bytes), {
    op: 1,
    t: '#account',
    body: { seq: 5, did: 'did:plc:a', active: true },
  })
  assert.deepEqual(decodeFrame(encodeErrorFrame('FutureCursor', 'ahead')), {
    op: -1,
    body: { error: 'FutureCursor', message: 'ahead' },
  })
})

test('anything but two maps is a FrameError', () => {
  const frame = encodeFrame('#info', { name: 'x' })
  assert.throws(() => decodeFrame(new Uint8Array([...frame, 0])), FrameError)
  assert.throws(() => decodeFrame(frame.subarray(0, frame.length - 1)), FrameError)
  assert.throws(() => decodeFrame(Uint8Array.of(0x80, 0x80)), FrameError)
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      try {
        decodeFrame(bytes)
      } catch (error) {
        assert.ok(error instanceof FrameError)
      }
    }),
  )
})

test('the three filters are independent, and collections constrain commits only', () => {
  const wants = compileFilter({
    collections: ['org.impact.context.*', 'app.attested.graph.follow'],
    dids: ['did:plc:a'],
  })
  const commit = (collection: string, did = 'did:plc:a') => wants({ kind: 'commit', did, collection })
  assert.equal(commit('org.impact.context.evaluation'), true)
  assert.equal(commit('org.impact.contextual.evaluation'), false)
  assert.equal(commit('app.attested.graph.follow'), true)
  assert.equal(commit('app.attested.graph.follow', 'did:plc:b'), false)
  assert.equal(wants({ kind: 'account', did: 'did:plc:a' }), true)
  assert.equal(compileFilter({ kinds: ['commit'] })({ kind: 'sync', did: 'did:plc:a' }), false)
  assert.deepEqual(['a.b.*', 'a.*', 'a.b.c', '*', 'a.b*'].map(isCollectionPattern), [
    true,
    false,
    true,
    false,
    false,
  ])
})
