import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { eventually, inTime } from './index.ts'

test('a wait ends when its condition holds, with what is awaited, or with what went wrong', async () => {
  let looks = 0
  await eventually(() => ++looks === 3)
  assert.equal(looks, 3)
  await eventually(async () => Promise.resolve(true))
  assert.equal(await inTime(Promise.resolve('there')), 'there')
  await assert.rejects(
    eventually(() => {
      throw new Error('no such thing')
    }),
    /no such thing/,
  )
  await assert.rejects(inTime(Promise.reject(new Error('gone'))), /gone/)
})

test('a wait in vain fails at the line that waited, and says what there is', async () => {
  mock.timers.enable({ apis: ['setTimeout'] })
  const waits = [
    eventually(
      () => false,
      () => ({ rows: ['x'.repeat(5000)] }),
    ),
    inTime(new Promise(() => {}), async () => Promise.reject(new Error('it is closed'))),
  ]
  mock.timers.tick(60_000)
  mock.timers.reset()
  const [first, second] = await Promise.allSettled(waits)
  assert.ok(first?.status === 'rejected' && first.reason instanceof Error)
  assert.match(first.reason.message, /^waited in vain for 60 s; there is: \{ rows: \[ 'xxx/)
  assert.ok(first.reason.message.length < 2100)
  assert.match(first.reason.stack ?? '', /\n +at [^\n]*eventually\.test\.ts/)
  assert.ok(second?.status === 'rejected' && second.reason instanceof Error)
  assert.match(second.reason.message, /nothing that can be said: Error: it is closed/)
})
