import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CallerTurns } from './caller-turns.ts'

test('one call has its turn at a time, and a caller waits for one of each other network, not for all', async (t) => {
  const turns = new CallerTurns()
  let turn = 0
  let ticking = setImmediate(function tick() {
    turn++
    ticking = setImmediate(tick)
  })
  t.after(() => clearImmediate(ticking))
  const order: { address: string; turn: number }[] = []
  const call = async (address: string): Promise<void> => {
    await turns.take(address)
    order.push({ address, turn })
  }
  const flood = Array.from({ length: 50 }, (_, i) => call(`2001:db8::${i}`))
  const own = call('192.0.2.1')
  await own
  assert.ok(order.length <= 3, `${order.length} calls were served before`)
  await Promise.all(flood)
  assert.equal(order.length, 51)
  assert.equal(new Set(order.map((each) => each.turn)).size, 51)
  await call('192.0.2.1')
})

test('calls of one network that wait have a bound, and others are served all the same', async () => {
  const turns = new CallerTurns()
  const waiting = Array.from({ length: 51 }, async () => turns.take('192.0.2.1'))
  const outcomes = Promise.allSettled(waiting)
  await turns.take('192.0.2.2')
  const refused = (await outcomes).filter(({ status }) => status === 'rejected')
  assert.ok(refused.length <= 1)
  const more = Array.from({ length: 60 }, async () => turns.take('192.0.2.1'))
  const settled = await Promise.allSettled(more)
  assert.ok(settled.some((each) => each.status === 'rejected' && each.reason.status === 429))
})
