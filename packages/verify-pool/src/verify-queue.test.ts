import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseDidKey } from '@tributary/repo-verify'
import { Signer } from '@tributary/testkit'
import fc from 'fast-check'
import { batchEventsMax, VerifyQueue, type Batch, type Item, type VerifiableEvent } from './verify-queue.ts'

const key = parseDidKey(Signer.fromSeed('verify-queue').did()) ?? assert.fail()
const lane = 'a lane'
const sources = Array.from({ length: 4 }, (_, id) => ({ id }))

interface Event extends VerifiableEvent {
  source: { id: number }
}

/** An event whose bytes begin with its number. */
function item(source: number, number: number, length = 100): Item<Event, string> {
  const bytes = Buffer.alloc(length, source)
  bytes.writeUInt32BE(number)
  const event = { source: sources[source] ?? assert.fail(), message: { bytes } }
  return { event, lane, key, isStrict: true }
}

/** The source and number of each event of a batch, from its bytes. */
function contents({ buffer, ends, items }: Batch<Event, string>): [source: number, number: number][] {
  return items.map(({ event }, i) => {
    const bytes = buffer.subarray(ends[i - 1] ?? 0, ends[i])
    assert.equal(bytes.at(-1), event.source.id, 'the bytes are those of the event')
    return [event.source.id, bytes.readUInt32BE()]
  })
}

test('an event of another source is in the next batch, however many events of one source wait', () => {
  const queue = new VerifyQueue<Event, string>()
  for (let number = 0; number < 1000; number++) queue.add(item(0, number))
  queue.add(item(1, 7))
  queue.add(item(2, 8))
  const next = contents(queue.take(batchEventsMax) ?? assert.fail())
  assert.equal(next.length, batchEventsMax)
  assert.deepEqual(next.slice(0, 3), [
    [0, 0],
    [1, 7],
    [2, 8],
  ])
  assert.deepEqual([queue.size, queue.bytes], [1002 - 64, (1002 - 64) * 100])
})

test('what waits for one source alone is not copied again', () => {
  const queue = new VerifyQueue<Event, string>()
  for (let number = 0; number < 200; number++) queue.add(item(0, number))
  for (const count of [64, 64, 64, 8]) {
    const batch = queue.take(batchEventsMax) ?? assert.fail()
    assert.equal('left' in batch, true, 'the memory where it waited is the batch')
    assert.equal(batch.items.length, count)
  }
  assert.equal(queue.take(1), undefined)
})

test('each event comes out once, those of one source in order, whatever comes and is taken between', () => {
  const step = fc.oneof(
    fc.record({
      source: fc.nat(3),
      count: fc.integer({ min: 1, max: 150 }),
      length: fc.integer({ min: 5, max: 3000 }),
    }),
    fc.record({
      source: fc.nat(3),
      count: fc.constant(1),
      length: fc.integer({ min: 100_000, max: 400_000 }),
    }),
    fc.record({ take: fc.integer({ min: 1, max: batchEventsMax }) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const queue = new VerifyQueue<Event, string>()
      const added: number[][] = [[], [], [], []]
      const taken: number[][] = [[], [], [], []]
      let next = 0
      const take = (eventsMax: number): boolean => {
        const batch = queue.take(eventsMax)
        if (!batch) return false
        const events = contents(batch)
        assert.ok(events.length >= 1 && events.length <= eventsMax)
        for (const [source, number] of events) taken[source]?.push(number)
        queue.giveBack(batch.buffer.fill(0xee))
        return true
      }
      for (const each of steps) {
        if ('take' in each) take(each.take)
        else
          for (let i = 0; i < each.count; i++) {
            added[each.source]?.push(next)
            queue.add(item(each.source, next++, each.length))
          }
      }
      while (take(batchEventsMax));
      assert.deepEqual(taken, added)
      assert.deepEqual([queue.size, queue.bytes], [0, 0])
    }),
  )
})
