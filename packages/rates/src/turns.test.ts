import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Turns } from './turns.ts'

/** Turns on a clock that a test moves, and steps that each take a millisecond and note their name. */
function turnsOfSteps() {
  let nowMs = 0
  const taken: string[] = []
  const turns = new Turns(() => nowMs)
  const steps = (name: string, count: number) => {
    let left = count
    return (): boolean => {
      taken.push(name)
      nowMs++
      return --left > 0
    }
  }
  return { turns, taken, steps }
}

test('steps are taken at once for as long as the turn has time, and the rest in later turns', async () => {
  const { turns, taken, steps } = turnsOfSteps()
  turns.run(steps('a', 25))
  assert.equal(taken.length, 10)
  for (const total of [20, 25, 25]) {
    await setImmediate()
    assert.equal(taken.length, total)
  }
})

test('who has much to do shares each turn with the others', async () => {
  const { turns, taken, steps } = turnsOfSteps()
  turns.run(steps('a', 1000))
  turns.run(steps('b', 1))
  turns.run(steps('c', 3))
  assert.equal(taken.join(''), 'a'.repeat(10), 'the turn is over')
  await setImmediate()
  assert.equal(taken.slice(10).join(''), 'abcacacaaa')
})

test('a step does not overtake those that wait, though the turn has time', async () => {
  const { turns, taken, steps } = turnsOfSteps()
  turns.runLater(steps('a', 1))
  turns.run(steps('b', 1))
  assert.deepEqual(taken, [])
  await setImmediate()
  assert.deepEqual(taken, ['a', 'b'])
})
