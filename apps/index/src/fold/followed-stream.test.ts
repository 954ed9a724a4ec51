import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deleteEvent, did } from '../../tests/scenario.ts'
import { fingerprintOf } from './followed-stream.ts'

test('what is remembered of an event has few characters, whatever a stream sends', () => {
  const long = '\x7f'.repeat(1_000_000)
  const events = [
    { kind: 'identity', seq: 1, did: did('A'), time: long, identity: { did: did('A'), seq: 1, time: long } },
    { ...deleteEvent(2, long, 'A', 'app.attested.actor.profile', 'self'), rev: long },
  ] as const
  for (const event of events) assert.ok(fingerprintOf(event).length < 1000, event.kind)
})
