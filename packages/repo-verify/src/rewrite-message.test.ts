import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decode, encode } from '@atcute/cbor'
import { decodeFrame, encodeFrame } from '@tributary/protocol'
import fc from 'fast-check'
import { readMessage, reframe, withFields, type AccountMessage } from './index.ts'

const nsid = 'com.atproto.sync.subscribeRepos'

function accountMessage(unknown: Record<string, unknown>): AccountMessage {
  const known = { seq: 7, did: 'did:plc:a', time: '2026-07-04T14:39:14Z', active: false, status: 'deleted' }
  const message = readMessage(encodeFrame('#account', { ...unknown, ...known }))
  assert.ok(message.ok && message.kind === 'account', JSON.stringify(message))
  return message
}

/** Names around those of known fields, in every place of the order. */
const fieldName = fc.oneof(
  fc.constantFrom('a', 'zzz', '$type', 'activf', 'actifz', 'status2', 'ü', '', '~'.repeat(30), '!!!!!'),
  fc.string({ maxLength: 40, unit: 'binary' }).filter((name) => !name.startsWith('\ufeff')),
)
const fieldValue = fc.oneof(fc.integer(), fc.boolean(), fc.constant(null), fc.constantFrom('x', 'ü', ''))
const unknownFields = fc.dictionary(fieldName, fieldValue, { maxKeys: 30 })
const taken = new Set(['__proto__', 'constructor', '$link', '$bytes', 'repo'])

test('fields are put in, replaced and left out as an encoder would, whatever stands around them', () => {
  fc.assert(
    fc.property(unknownFields, fieldName, fieldValue, (unknown, name, value) => {
      fc.pre([...Object.keys(unknown), name].every((key) => !taken.has(key)))
      const message = accountMessage(unknown)
      const { body } = decodeFrame(message.bytes)
      const changed = withFields(
        message,
        new Map([
          ['active', encode(true)],
          ['status', undefined],
          [name, encode(value)],
        ]),
      )
      const { status: _, ...rest } = { ...body, active: true, [name]: value } as Record<string, unknown>
      const expected =
        name === 'status' ? { ...rest, status: value } : name === 'active' ? { ...rest, active: value } : rest
      assert.deepEqual(Buffer.from(changed), Buffer.from(encodeFrame('#account', expected)))
      assert.equal(readMessage(withFields(message, new Map([['status', undefined]]))).ok, true)
    }),
    { numRuns: 2000 },
  )
})

test('a message in another framing says the same, with the name of its own kind', () => {
  fc.assert(
    fc.property(unknownFields, (unknown) => {
      fc.pre(Object.keys(unknown).every((key) => !taken.has(key)))
      const message = accountMessage({ ...unknown, $type: 'com.atproto.sync.subscribeRepos#commit' })
      const { body } = decodeFrame(message.bytes)
      const expected = { $type: 'message', payload: { ...body, $type: `${nsid}#account` } }
      const cbor = reframe(message, nsid, 'cbor')
      assert.deepEqual(decode(cbor), expected)
      assert.deepEqual(cbor, Buffer.from(encode(expected)))
      assert.deepEqual(JSON.parse(reframe(message, nsid, 'json').toString()), expected)
    }),
    { numRuns: 2000 },
  )
})
