import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scriptFrom, textOf, type AnyScript, type Result } from './script.ts'
import { shrink } from './shrink.ts'

const hour = 3_600_000

/** Seq 7 is given out again once a power cut comes after a write that comes after a flush. */
async function play({ steps }: AnyScript): Promise<Result> {
  const left = ['flush', 'write', 'cut']
  for (const step of steps) if (step === left[0]) left.shift()
  const isBroken = left.length === 0
  const others = steps.includes('cut') ? ['another promise breaks whenever there is a cut'] : []
  return { broken: [...(isBroken ? [`seq ${steps.length} is given out again`] : []), ...others], trace: [] }
}

test('a script that fails is left with the steps without which it does not fail', async () => {
  const noise = Array.from({ length: 20 }, (_, n) => `step ${n}`)
  const steps = [...noise, 'flush', 'write', ...noise, 'write', ...noise, 'cut', ...noise]
  const short = await shrink({ seed: 1, steps }, play, 'seq 7 is given out again', hour)
  assert.deepEqual(short, { seed: 1, steps: ['flush', 'write', 'cut'] })
})

test('single steps are tried again after others went', async () => {
  // `a` can go only when `b` is gone, which comes later, and neither goes together with a step beside it.
  const needs = async ({ steps }: AnyScript): Promise<Result> => {
    const isThere = ['x', 'y', 'z'].every((step) => steps.includes(step))
    const isBroken = isThere && (steps.includes('a') || !steps.includes('b'))
    return { broken: isBroken ? ['it breaks'] : [], trace: [] }
  }
  const short = await shrink({ seed: 1, steps: ['a', 'x', 'y', 'b', 'z'] }, needs, 'it breaks', hour)
  assert.deepEqual(short.steps, ['x', 'y', 'z'])
})

test('a printed script is read again as it was', () => {
  const script = { seed: 7, accounts: 3, steps: [{ do: 'wait', ms: 5 }, { do: 'seal' }] }
  assert.deepEqual(scriptFrom(textOf(script)), script)
})
