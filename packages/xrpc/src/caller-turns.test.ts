import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
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
    await turns.run(address, () => order.push({ address, turn }))
  }
  const flood = Array.from({ length: 50 }, (_, i) => call(`2001:db8::${i}`))
  const own = call('192.0.2.1')
  await own
  assert.ok(order.length <= 3, `${order.length} calls were served before`)
  await Promise.all(flood)
  assert.equal(order.length, 51)
  // The second may come before the turn of the first is over.
  assert.ok(new Set(order.map((each) => each.turn)).size >= 50)
  await call('192.0.2.1')
})

test('calls of one network that wait have a bound, and others are served all the same', async () => {
  const turns = new CallerTurns()
  const waiting = Array.from({ length: 51 }, async () => turns.run('192.0.2.1', nothing))
  const outcomes = Promise.allSettled(waiting)
  await turns.run('192.0.2.2', nothing)
  const refused = (await outcomes).filter(({ status }) => status === 'rejected')
  assert.ok(refused.length <= 1)
  const more = Array.from({ length: 60 }, async () => turns.run('192.0.2.1', nothing))
  const settled = await Promise.allSettled(more)
  assert.ok(settled.some((each) => each.status === 'rejected' && each.reason.status === 429))
})

test('when too many calls wait, the network gives way that has most of them', async () => {
  const turns = new CallerTurns({ perNetwork: 4, all: 6 })
  const waiting = [4, 2].flatMap((calls, i) =>
    Array.from({ length: calls }, async () => turns.run(`192.0.2.${i + 1}`, () => i)),
  )
  // One has its turn.
  const own = Array.from({ length: 2 }, async () => turns.run('192.0.2.9', nothing))
  const outcomes = await Promise.allSettled(waiting)
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
  )
  await Promise.all(own)
})

const nothing = (): void => {}

test('work that throws costs its own caller only, and work that takes its time is waited for', async () => {
  const turns = new CallerTurns()
  let isBusy = false
  const slow = turns.run('192.0.2.1', async () => {
    isBusy = true
    for (let i = 0; i < 3; i++) await nextTurn()
    void turns.run('192.0.2.1', nothing) // a call that comes while its network has its turn
    isBusy = false
  })
  const more = Array.from({ length: 3 }, async (_, i) => turns.run('192.0.2.1', () => i))
  const failing = turns.run('192.0.2.2', () => {
    assert.equal(isBusy, false)
    throw new Error('not this one')
  })
  const next = turns.run('192.0.2.3', () => 'done')
  await assert.rejects(failing, /not this one/)
  assert.equal(await next, 'done')
  await slow
  assert.deepEqual(await Promise.all([...more, turns.run('192.0.2.1', () => 3)]), [0, 1, 2, 3])
})

test('calls that come one after the other never wait, however many they are', async () => {
  const turns = new CallerTurns({ perNetwork: 2, all: 3 })
  for (let n = 0; n < 20; n++) assert.equal(await turns.run('192.0.2.1', () => n), n)
})
