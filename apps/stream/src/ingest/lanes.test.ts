import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Lanes } from './lanes.ts'

interface Item {
  name: string
  bytes: number
}

function lanesFor(run: (item: Item) => Promise<void> | undefined): { lanes: Lanes<Item>; refused: string[] } {
  const refused: string[] = []
  const refuse = (item: Item): number => refused.push(item.name)
  const lanes = new Lanes<Item>(
    { eventsPerDid: 2, bytesPerDid: 100 },
    { run, refuse, onProgress: () => undefined },
  )
  return { lanes, refused }
}

test('events of an account that waits are done in order, and those of others at once', async () => {
  const done: string[] = []
  const key = Promise.withResolvers<void>()
  const { lanes } = lanesFor((item) => {
    if (item.name === 'a1') return key.promise.then(() => void done.push('a1'))
    done.push(item.name)
    return undefined
  })
  for (const name of ['a1', 'a2', 'b1']) lanes.push(name.slice(0, 1), { name, bytes: 10 })
  assert.deepEqual(done, ['b1'])
  assert.equal(lanes.bytes, 20)
  key.resolve()
  await setImmediate()
  assert.deepEqual(done, ['b1', 'a1', 'a2'])
  assert.equal(lanes.bytes, 0)
  assert.equal(lanes.size, 0)
})

test('a lane holds a bounded number of events and bytes', async () => {
  const key = Promise.withResolvers<void>()
  const { lanes, refused } = lanesFor((item) => (item.name === 'a1' ? key.promise : undefined))
  lanes.push('a', { name: 'a1', bytes: 90 })
  lanes.push('a', { name: 'a2', bytes: 60 })
  lanes.push('a', { name: 'a3', bytes: 60 })
  lanes.push('a', { name: 'a4', bytes: 20 })
  lanes.push('a', { name: 'a5', bytes: 1 })
  assert.deepEqual(refused, ['a3', 'a5'])
  key.resolve()
  await setImmediate()
  assert.equal(lanes.bytes, 0)
})
