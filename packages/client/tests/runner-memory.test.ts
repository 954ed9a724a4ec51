/** What a run keeps of the events that it has dealt with. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Did, Nsid, RecordKey } from '@tributary/protocol'
import { memoryInUse } from '@tributary/testkit'
import { type ClientEvent, MemoryStore, runIndexer, type StreamBatch } from '../src/node.ts'
import { did } from './stream-server.ts'

const eventsOfRound = 50_000
const eventsOfBatch = 500
const grownBytesMax = 2_000_000

function deletion(seq: number): ClientEvent {
  return {
    kind: 'commit',
    seq,
    did: did as Did, // has the form of one
    time: '2026-01-01T00:00:00.000000Z',
    collection: 'org.impact.claim.activity' as Nsid, // is one
    rkey: `r${seq % 100}` as RecordKey, // is one
    rev: '3migo7fijwi2k',
    operation: 'delete',
  }
}

test('a run keeps nothing of the events that are handled', async () => {
  const bytesInUse: number[] = []
  async function* replay(): AsyncGenerator<StreamBatch, void> {
    for (let cursor = 0; cursor < 2 * eventsOfRound;) {
      const first = cursor + 1
      cursor += eventsOfBatch
      const events = Array.from({ length: eventsOfBatch }, (_, at) => deletion(first + at))
      yield { events, gaps: [], cursor, live: false }
      if (cursor % eventsOfRound !== 0) continue
      for (let turns = 0; turns < 10; turns++) await nextTurn()
      bytesInUse.push(memoryInUse().heapUsed)
    }
  }
  let handled = 0
  const handlers = { collections: { 'org.impact.*': { delete: () => void handled++ } } }
  await runIndexer({ client: { replay }, store: new MemoryStore(), handlers, onReport: () => undefined })
  assert.equal(handled, 2 * eventsOfRound)
  const [first = 0, second = Infinity] = bytesInUse
  assert.ok(second - first < grownBytesMax, `${second - first} bytes more after the second round`)
})
