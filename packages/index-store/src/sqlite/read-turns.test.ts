import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ReadTurns } from './read-turns.ts'

/** Takes `count` turns, one after the other, and notes each. */
async function take(
  turns: ReadTurns,
  name: string,
  taken: number,
  count: number,
  order: string[],
): Promise<void> {
  for (let at = 0; at < count; at++) {
    await turns.next(taken + at)
    order.push(name)
  }
}

test('the read with the fewest turns goes first, and of equal ones the one that waited longest', async () => {
  const turns = new ReadTurns()
  const order: string[] = []
  await Promise.all([
    take(turns, 'many', 30, 1, order),
    take(turns, 'few', 2, 1, order),
    take(turns, 'new', 0, 1, order),
    take(turns, 'few, later', 2, 1, order),
  ])
  assert.deepEqual(order, ['new', 'few', 'few, later', 'many'])
})

test('a read that has cost much has every fourth turn while cheaper ones wait', async () => {
  const turns = new ReadTurns()
  const order: string[] = []
  const cheap = (name: string): Promise<void> => take(turns, name, 0, 12, order)
  await Promise.all([take(turns, 'large', 100, 3, order), cheap('a'), cheap('b')])
  const at = order.flatMap((name, index) => (name === 'large' ? [index] : []))
  assert.deepEqual(at, [3, 7, 11])
})

test('one read goes on in each turn of the event loop', async () => {
  const turns = new ReadTurns()
  const order: string[] = []
  let loops = 0
  let isDone = false
  const count = (): void => {
    loops++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  await Promise.all([take(turns, 'a', 0, 10, order), take(turns, 'b', 0, 10, order)])
  isDone = true
  assert.ok(loops >= 20, `${loops} turns of the event loop`)
})
