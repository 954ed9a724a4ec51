import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PlanTurns } from './plan-turns.ts'

test('one plan goes on in each turn of the event loop, and networks take turns at every one', async (t) => {
  const turns = new PlanTurns()
  let turn = 0
  let ticking = setImmediate(function tick() {
    turn++
    ticking = setImmediate(tick)
  })
  t.after(() => clearImmediate(ticking))
  const steps: { network: string; turn: number }[] = []
  const plan = async (network: string, pauses: number): Promise<void> => {
    for (let n = 0; n < pauses; n++) {
      await turns.next(network)
      steps.push({ network, turn })
    }
  }
  const flood = Array.from({ length: 30 }, () => plan('192.0.2.1', 2))
  await plan('192.0.2.2', 5)
  assert.ok(steps.length <= 12, `${steps.length} steps for 5 of one plan`)
  await Promise.all(flood)
  assert.equal(steps.length, 65)
  assert.equal(new Set(steps.map((each) => each.turn)).size, 65)
})
