import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readSettings } from '@tributary/settings'
import { relaySettings } from './settings.ts'

test('a floor of sequence numbers leaves room for more numbers than a relay gives out', () => {
  const read = (floor: number): number =>
    readSettings(relaySettings, { env: { TRIBUTARY_RELAY_LOG_FLOOR_SEQ: String(floor) } }).logFloorSeq
  assert.equal(read(2 ** 52), 2 ** 52)
  // A log that begins here gives out the third number twice, and does not open again.
  assert.throws(() => read(Number.MAX_SAFE_INTEGER), /LOG_FLOOR_SEQ/)
})
