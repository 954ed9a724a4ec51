import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { XrpcError } from '@tributary/xrpc'
import { readCursor, writeCursor } from './cursor.ts'

const feedId = 'org.impact.feed.defs#impactFeed'
/** The years 0000 to 9999, in microseconds. */
const moments = fc.bigInt(-62_167_219_200_000_000n, 253_402_300_799_999_999n)
const rkeys = fc.stringMatching(/^[a-zA-Z0-9_~.:-]{1,40}$/).filter((rkey) => rkey !== '.' && rkey !== '..')

test('every position comes back from its cursor', () => {
  fc.assert(
    fc.property(moments, rkeys, (feedTime, rkey) => {
      const position = { feedTime, uri: `at://did:plc:alice/org.impact.collection/${rkey}` }
      assert.deepEqual(readCursor(writeCursor(feedId, position), feedId), position)
    }),
  )
})

test('any text is a position or an InvalidCursor, and nothing else happens', () => {
  const json = fc.json().map((text) => Buffer.from(text).toString('base64url'))
  const bytes = fc.uint8Array({ maxLength: 200 }).map((value) => Buffer.from(value).toString('base64url'))
  const near = fc
    .tuple(fc.constantFrom('version', 'feedId', 'value', 'other'), fc.jsonValue(), fc.boolean())
    .map(([field, value, isInner]) => {
      const inner = {
        value: '2026-03-04T05:06:07Z',
        uri: 'at://did:plc:alice',
        ...(isInner ? { [field]: value } : {}),
      }
      const outer = { version: 1, feedId, value: inner, ...(isInner ? {} : { [field]: value }) }
      return Buffer.from(JSON.stringify(outer)).toString('base64url')
    })
  fc.assert(
    fc.property(fc.oneof(fc.string(), json, bytes, near), (text) => {
      try {
        const { feedTime, uri } = readCursor(text, feedId)
        assert.ok(typeof feedTime === 'bigint' && uri.startsWith('at://'))
      } catch (error) {
        assert.ok(error instanceof XrpcError && error.error === 'InvalidCursor')
      }
    }),
    { numRuns: 2000 },
  )
})
