import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Subscriber } from '@tributary/fanout'
import { Turns } from '@tributary/rates'
import { ProgressNotices } from './progress-notices.ts'
import { ownRendition } from './rendition.ts'

test('many quiet subscribers are told of their progress in many turns of the event loop, each once', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  let nowMs = 0
  const notices = new ProgressNotices(1000, new Turns(() => (nowMs += 4)))
  const told: number[] = []
  const subscribers = Array.from({ length: 50 }, (_, index) => {
    const subscriber = {
      state: 'live',
      startCursor: 0,
      bytesSent: 0,
      isHolding: false,
      group: { headSeq: 7, flush: () => {} },
      write: (_: unknown, seq: number) => {
        subscriber.bytesSent++
        assert.equal(seq, 7)
        told.push(index)
      },
    }
    return subscriber as unknown as Subscriber // all that is looked at
  })
  for (const subscriber of subscribers) notices.add(subscriber, ownRendition)
  t.mock.timers.tick(1000)
  let turns = 0
  for (let before = -1; told.length > before; turns++) {
    before = told.length
    await setImmediate()
  }
  assert.ok(turns > 10, `all were told in ${turns} turns`)
  assert.deepEqual(
    told,
    subscribers.map((_, index) => index),
  )
  t.mock.timers.tick(1000)
  for (const subscriber of subscribers) notices.delete(subscriber)
})
