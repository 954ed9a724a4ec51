import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { MetricsText } from './metrics-text.ts'

/** Renders its own count, and takes 100 ms each time. */
function slowText() {
  const clock = { nowMs: 0, rendered: 0 }
  const text = new MetricsText(
    async () => {
      clock.nowMs += 100
      clock.rendered++
      await nextTurn()
      return String(clock.rendered)
    },
    () => clock.nowMs,
  )
  return { clock, text }
}

test('metrics that are asked for without pause take a twentieth of the time, and are new again after a rest', async () => {
  const { clock, text } = slowText()
  for (let i = 0; i < 1000; i++) {
    await text.read()
    clock.nowMs += 1
  }
  // A second that was saved up, and a twentieth of the two seconds and more that went by.
  assert.ok(clock.rendered >= 10 && clock.rendered <= 12, `${clock.rendered}`)
  assert.equal(await text.read(), String(clock.rendered))
  clock.nowMs += 30_000
  const before = clock.rendered
  assert.equal(await text.read(), String(before + 1))
})

test('those who ask at the same time get one text', async () => {
  const { clock, text } = slowText()
  const texts = await Promise.all(Array.from({ length: 50 }, async () => text.read()))
  assert.deepEqual([new Set(texts), clock.rendered], [new Set(['1']), 1])
})

test('a rendering that fails is tried again', async () => {
  let isBroken = true
  const text = new MetricsText(async () => {
    if (isBroken) throw new Error('no')
    return 'yes'
  })
  await assert.rejects(text.read(), /no/)
  isBroken = false
  assert.equal(await text.read(), 'yes')
})
