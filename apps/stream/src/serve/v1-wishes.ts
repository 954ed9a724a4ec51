/** What tests of Jetstream v1 ask for. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { V1Filter } from './v1-params.ts'

/** Values that mean something in some place, and those that mean nothing anywhere. */
export const wish = fc.oneof(
  fc.constantFrom(
    'did:plc:a',
    'app.a.b',
    'app.*',
    '.*',
    '',
    'did:',
    'a.b',
    'true',
    '-1',
    '7',
    '1e9',
    '9'.repeat(30),
  ),
  fc.string({ unit: 'binary', maxLength: 400 }),
)
export const names = [
  'wantedCollections',
  'wantedDids',
  'maxMessageSizeBytes',
  'cursor',
  'compress',
  'requireHello',
]

export function checkFilter({ kinds, collections, dids, maxMessageSizeBytes }: V1Filter): void {
  assert.deepEqual(kinds, ['commit', 'identity', 'account'])
  assert.ok(collections?.every((pattern) => pattern.length <= 319 && /\../.test(pattern)))
  assert.ok(dids.every((did) => /^did:[a-z]+:./.test(did)))
  assert.ok(
    Number.isInteger(maxMessageSizeBytes) && maxMessageSizeBytes >= 0 && maxMessageSizeBytes < 2 ** 32,
  )
}
