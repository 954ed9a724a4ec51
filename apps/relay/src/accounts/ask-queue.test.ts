import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AskQueue, type Waiting } from './ask-queue.ts'

interface Item extends Waiting {
  name: string
}

const item = (cause: string, host: string, dueMs = 0, name = ''): Item => ({ cause, host, dueMs, name })

/** A queue with these items. */
function queueOf(items: readonly Item[]): AskQueue<Item> {
  const queue = new AskQueue<Item>()
  for (const each of items) queue.put(each)
  return queue
}

function takeAll(queue: AskQueue<Item>, nowMs: number): Item[] {
  const taken: Item[] = []
  for (let next = queue.take(nowMs); next; next = queue.take(nowMs)) taken.push(next)
  return taken
}

const times = (count: number, make: (n: number) => Item): Item[] =>
  Array.from({ length: count }, (_, n) => make(n))

test('an item is taken when it is due, the one that is due first before others of its lane', () => {
  const queue = queueOf([
    item('a', 'a', 30, 'third'),
    item('a', 'a', 10, 'first'),
    item('a', 'a', 20, 'second'),
  ])
  assert.equal(queue.take(9), undefined)
  assert.deepEqual(
    takeAll(queue, 30).map(({ name }) => name),
    ['first', 'second', 'third'],
  )
})

test('a host and a cause have only their own places', () => {
  const queue = queueOf([
    ...times(100, () => item('one', 'one')),
    ...times(100, (n) => item('many', `host ${n}`)),
    item('honest', 'honest'),
  ])
  const taken = takeAll(queue, 0)
  assert.equal(taken.filter(({ cause }) => cause === 'one').length, 4)
  assert.equal(taken.filter(({ cause }) => cause === 'many').length, 16)
  assert.equal(taken.filter(({ cause }) => cause === 'honest').length, 1)
  for (const each of taken) queue.release(each, 'answered', 0)
  assert.equal(takeAll(queue, 0).length, 20)
})

test('a few hosts that are slow do not take all places of a cause', () => {
  const queue = queueOf(
    Array.from({ length: 4 }, (_, host) => times(10, () => item('relay', `slow ${host}`))).flat(),
  )
  const slow = takeAll(queue, 0)
  assert.equal(slow.length, 8)
  for (let n = 0; n < 3; n++) queue.put(item('relay', 'quick'))
  const quick = takeAll(queue, 0)
  assert.deepEqual(
    quick.map(({ host }) => host),
    ['quick'],
  )
  for (let [next] = quick; next; next = queue.take(0)) queue.release(next, 'answered', 0)
  // An item without a place comes when one of its host is free. Then its cause has places of any host again.
  for (const each of slow) queue.release(each, 'answered', 0)
  assert.equal(takeAll(queue, 0).length, 8)
})

test('the places of a host go round among the causes that want them', () => {
  const queue = queueOf([
    ...times(500, () => item('hostile', 'honest')),
    ...times(8, () => item('honest', 'honest')),
  ])
  const causes: string[] = []
  for (let n = 0; n < 16; n++) {
    const next = queue.take(0)
    assert.ok(next)
    causes.push(next.cause)
    queue.release(next, 'answered', 0)
  }
  assert.equal(causes.filter((cause) => cause === 'honest').length, 8)
})

test('a silent host rests, longer each time, and is then asked one question at a time', () => {
  const queue = queueOf(times(10, () => item('a', 'a')))
  const first = takeAll(queue, 0)
  assert.equal(first.length, 4)
  for (const each of first) queue.release(each, 'silent', 100)
  assert.equal(takeAll(queue, 1099).length, 0)
  const [probe, ...others] = takeAll(queue, 1100)
  assert.ok(probe)
  assert.equal(others.length, 0)
  queue.release(probe, 'silent', 1200)
  assert.equal(queue.silentMs('a', 1200), 1100)
  assert.equal(takeAll(queue, 3199).length, 0)
  const [again] = takeAll(queue, 3200)
  assert.ok(again)
  queue.release(again, 'answered', 3200)
  assert.equal(takeAll(queue, 3200).length, 4)
  assert.equal(queue.silentMs('a', 3200), 0)
})

test('a clock that was ahead for a moment does not make a host seem silent for long', () => {
  const queue = queueOf(times(2, () => item('a', 'a')))
  const [first, second] = takeAll(queue, 100)
  assert.ok(first && second)
  queue.release(first, 'silent', 100)
  queue.release(second, 'silent', 3_600_000)
  queue.setBack(3_599_000, 1000)
  assert.equal(queue.silentMs('a', 1000), 900)
})

test('a host that is silent for the first time by a clock that was ahead is so since that was set back', () => {
  const queue = queueOf(times(2, () => item('a', 'a')))
  const [first, second] = takeAll(queue, 100)
  assert.ok(first && second)
  queue.release(first, 'silent', 3_600_000)
  queue.setBack(3_599_000, 1000)
  assert.equal(queue.silentMs('a', 1500), 500)
  queue.release(second, 'silent', 1500)
})

test('an item that is removed is not taken, wherever it waits', () => {
  const [later, due, parked] = [item('a', 'a', 50), item('a', 'a'), item('b', 'b')]
  const queue = queueOf([...times(4, () => item('b', 'b')), parked, later, due])
  const taken = takeAll(queue, 0)
  assert.ok(taken.includes(due) && !taken.includes(parked))
  assert.equal(queue.remove(due), false)
  assert.ok(queue.remove(later) && queue.remove(parked))
  for (const each of taken) queue.release(each, 'answered', 0)
  assert.deepEqual(takeAll(queue, 100), [])
  queue.put(parked)
  assert.deepEqual(takeAll(queue, 100), [parked])
})
