import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import fc from 'fast-check'
import { systemClock } from './clock.ts'
import type { Lane, LaneSource, Outcome } from './lane.ts'
import { Lanes, type LaneLimits } from './lanes.ts'

interface Event {
  name: string
  message: { bytes: Buffer }
}

class Source implements LaneSource<Source, Event> {
  readonly lanes: Map<Did, Lane<Source, Event>> = new Map()
  readonly largeLanes: Set<Lane<Source, Event>> = new Set()
  waitingBytes = 0
  waitingLanes = 0
  crowdedBy: Lane<Source, Event> | undefined
  crowdedAtMs = 0
}

const limits: LaneLimits = {
  eventsPerLane: 40,
  bytesPerLane: 1000,
  bytesPerSource: 1600,
  bytes: 3000,
  bytesAlways: 100,
  lanesPerSource: { high: 4, low: 2 },
  soonMs: 1e6,
  crowded: { share: 0.5, msMax: 1e6, everyMs: 1000 },
}

const did = (n: number) => `did:plc:${n}` as Did // only a name here
const event = (name: string, bytes = 10): Event => ({ name, message: { bytes: Buffer.alloc(bytes) } })

/** Lanes whose events wait until they are let go. */
function waitingLanes(change: Partial<LaneLimits> = {}) {
  const done: string[] = []
  const full: string[] = []
  const paused: boolean[] = []
  const ready = new Set<string>()
  const waits = new Map<string, () => void>()
  let nowMs = 1_000_000
  const start = ({ name }: Event): Outcome => {
    if (ready.has(name) || name.startsWith('free')) {
      done.push(name)
      return 'done'
    }
    return (signal) =>
      new Promise<void>((resolve) => {
        waits.set(name, resolve)
        signal.addEventListener('abort', () => resolve())
      })
  }
  const lanes = new Lanes<Source, Event>(
    { ...limits, ...change },
    { start, onFull: ({ name }) => full.push(name), onPaused: (_, isPaused) => paused.push(isPaused) },
    { ...systemClock, nowMs: () => nowMs },
  )
  const letGo = async (name: string): Promise<void> => {
    ready.add(name)
    waits.get(name)?.()
    await setImmediate()
  }
  return { lanes, done, full, paused, letGo, tick: (ms: number) => (nowMs += ms) }
}

test('what waits holds up its own account at its own source, and nothing else', async () => {
  const { lanes, done, letGo } = waitingLanes()
  const [a, b] = [new Source(), new Source()]
  lanes.enter(a, did(1), event('a1'))
  lanes.enter(a, did(1), event('free-a2'))
  lanes.enter(a, did(2), event('free-other'))
  lanes.enter(b, did(1), event('free-b1'))
  assert.deepEqual(done, ['free-other', 'free-b1'])
  await letGo('a1')
  assert.deepEqual(done.slice(2), ['a1', 'free-a2'])
  assert.deepEqual([lanes.bytes, a.waitingBytes, a.lanes.size, b.lanes.size], [0, 0, 0, 0])
})

test('events that are away come back in order, and those that must start again go before all others', () => {
  const started: string[] = []
  let isAway = true
  const lanes = new Lanes<Source, Event>(limits, {
    start: ({ name }, lane) => {
      if (name === 'plain' && lane.away > 0) return 'after-those-away'
      started.push(name)
      return isAway && name !== 'plain' ? 'away' : 'done'
    },
    onFull: () => assert.fail('there is room'),
    onPaused: () => undefined,
  })
  const source = new Source()
  const events = ['one', 'two', 'plain', 'three'].map((name) => event(name))
  for (const each of events) lanes.enter(source, did(1), each)
  assert.deepEqual(started, ['one', 'two'])
  const lane = source.lanes.get(did(1))
  const [one, two] = events
  assert.ok(lane && one && two)
  isAway = false
  lanes.giveBack(one, lane, one.message.bytes)
  assert.ok(lanes.mustFollow(lane))
  lanes.giveBack(two, lane, two.message.bytes)
  assert.deepEqual(started.slice(2), ['one', 'two', 'plain', 'three'])
  assert.deepEqual([lanes.bytes, source.lanes.size], [0, 0])
})

test('what comes while events of its lane come back starts after them, and is not taken out before', () => {
  const started: string[] = []
  const source = new Source()
  const lanes = new Lanes<Source, Event>(limits, {
    start: ({ name }, lane) => {
      if (name === 'plain' && lane.away > 0) return 'after-those-away'
      started.push(name)
      return started.length > 3 ? 'done' : 'away'
    },
    onFull: () => assert.fail('there is room'),
    onPaused: () => undefined,
  })
  const [one, two, three, plain] = ['one', 'two', 'three', 'plain'].map((name) => event(name))
  assert.ok(one && two && three && plain)
  for (const each of [one, two]) lanes.enter(source, did(1), each)
  const lane = source.lanes.get(did(1))
  assert.ok(lane)
  lanes.giveBack(one, lane, one.message.bytes)
  lanes.enter(source, did(1), three)
  assert.deepEqual(started, ['one', 'two'])
  assert.equal(lanes.drop(three, lane), false)
  lanes.giveBack(two, lane, two.message.bytes)
  assert.deepEqual(started.slice(2), ['one', 'two', 'three'])
  lanes.enter(source, did(1), plain)
  assert.equal(lanes.drop(plain, lane), false)
  lanes.settle(lane)
  assert.deepEqual(started.slice(5), ['plain'])
  assert.deepEqual([lanes.bytes, source.lanes.size], [0, 0])
})

test('an event that comes back does not wait for what a later one waits for, which waits after it', async () => {
  const started: string[] = []
  let isAway = true
  let letGo = (): void => assert.fail('nothing waits')
  const lanes = new Lanes<Source, Event>(limits, {
    start: ({ name }) => {
      if (name === 'later' && isAway) return () => new Promise<void>((resolve) => (letGo = resolve))
      started.push(name)
      return started.length === 1 ? 'away' : 'done'
    },
    onFull: () => assert.fail('there is room'),
    onPaused: () => undefined,
  })
  const source = new Source()
  const [one, later] = [event('one'), event('later')]
  for (const each of [one, later]) lanes.enter(source, did(1), each)
  const lane = source.lanes.get(did(1))
  assert.ok(lane)
  lanes.giveBack(one, lane, one.message.bytes)
  assert.deepEqual(started, ['one', 'one'])
  isAway = false
  letGo()
  await setImmediate()
  assert.deepEqual(started, ['one', 'one', 'later'])
  assert.deepEqual([lanes.bytes, source.lanes.size, source.waitingLanes], [0, 0, 0])
})

test('an event that waits keeps no more memory than its own bytes', () => {
  const { lanes } = waitingLanes()
  const source = new Source()
  const held = [event('head'), event('next', 700)]
  for (const each of held) lanes.enter(source, did(1), each)
  const kept = held.reduce((sum, { message }) => sum + message.bytes.buffer.byteLength, 0)
  assert.equal(kept, lanes.bytes)
})

test('a lane whose wait is over starts few events in each turn of the event loop, in order', async () => {
  const { lanes, done, letGo } = waitingLanes({ eventsPerLane: 100 })
  const source = new Source()
  lanes.enter(source, did(1), event('head'))
  for (let i = 0; i < 60; i++) lanes.enter(source, did(1), event(`free-${i}`))
  await letGo('head')
  lanes.enter(source, did(1), event('free-60'))
  while (lanes.bytes > 0) {
    const before = done.length
    await setImmediate()
    assert.ok(done.length - before <= 16, `${done.length - before} events started in one turn`)
  }
  assert.deepEqual(done, ['head', ...Array.from({ length: 61 }, (_, i) => `free-${i}`)])
})

test('a lane of which events are away starts more of them in the next turn of the event loop', async () => {
  let started = 0
  let letGo: (() => void) | undefined
  const lanes = new Lanes<Source, Event>(limits, {
    start: () => {
      if (!letGo) return () => new Promise<void>((resolve) => (letGo = resolve))
      started++
      return 'away'
    },
    onFull: () => assert.fail('there is room'),
    onPaused: () => undefined,
  })
  const source = new Source()
  for (let n = 0; n < 20; n++) lanes.enter(source, did(1), event(`${n}`))
  letGo?.()
  await setImmediate()
  assert.equal(started, 16)
  await setImmediate()
  assert.equal(started, 20)
})

test('what waits is bounded for a lane, a source and all, and a source with little has its share all the same', () => {
  const { lanes, full } = waitingLanes({ bytes: 2850 })
  const sources = [new Source(), new Source(), new Source()]
  for (const [s, source] of sources.entries())
    for (let n = 0; n < 8; n++) lanes.enter(source, did(n), event(`${s}.${n}`, 400))
  assert.deepEqual(full, ['0.4', '0.5', '0.6', '0.7', '1.3', '1.4', '1.5', '1.6', '1.7', ...threes('2')])
  assert.equal(lanes.bytes, 2800)
  const late = new Source()
  lanes.enter(late, did(1), event('late', 100))
  assert.equal(late.waitingBytes, 100)
  for (let n = 0; n < 60; n++) lanes.enter(late, did(1), event(`late ${n}`, 0))
  assert.equal(full.filter((name) => name.startsWith('late')).length, 60 - 39)
  lanes.close()
})

test('what waits of one account is bounded in bytes, and leaves its source room for others', () => {
  const { lanes, full } = waitingLanes()
  const source = new Source()
  for (const [name, n, bytes] of [
    ['one', 1, 600],
    ['two', 1, 500],
    ['other', 2, 500],
    ['three', 1, 400],
  ] as const)
    lanes.enter(source, did(n), event(name, bytes))
  assert.deepEqual(full, ['two'])
  lanes.close()
})

test('the account of which most waits gives up its newest events for another of its source that has less', async () => {
  const { lanes, done, full, letGo } = waitingLanes({
    bytesPerLane: 10_000_000,
    bytesPerSource: 16_000_000,
    bytes: 1e9,
  })
  const [source, another] = [new Source(), new Source()]
  for (let n = 0; n < 10; n++) lanes.enter(another, did(n), event(`another-${n}`, 1_200_000))
  lanes.enter(source, did(1), event('one', 1_000_000))
  for (let n = 1; n < 10; n++) lanes.enter(source, did(1), event(`free-one-${n}`, 1_000_000))
  for (let n = 0; n < 6; n++) lanes.enter(source, did(2), event(`two-${n}`, 1_000_000))
  assert.deepEqual([full, source.waitingBytes], [[], 16_000_000])
  lanes.enter(source, did(3), event('three', 10_000))
  assert.deepEqual(full.splice(0), ['free-one-9'])
  lanes.enter(source, did(1), event('free-one-10', 1_000_000))
  assert.deepEqual(full.splice(0), ['free-one-10'], 'nobody has more')
  lanes.enter(source, did(2), event('two-6', 1_000_000))
  assert.deepEqual(full.splice(0), ['free-one-8'])
  assert.equal(source.waitingBytes, 15_010_000)
  await letGo('one')
  assert.equal(source.largeLanes.size, 1, 'nothing is kept of a lane that is over')
  assert.deepEqual(done, ['one', ...Array.from({ length: 7 }, (_, n) => `free-one-${n + 1}`)])
  lanes.close()
})

test('a large account that is with threads does not keep many small ones from giving up events for another', () => {
  const full: string[] = []
  const lanes = new Lanes<Source, Event>(
    { ...limits, bytesPerLane: 10_000_000, bytesPerSource: 2_000_000, bytes: 1e9 },
    {
      start: ({ name }, lane) => {
        if (name === 'large') return lane.away > 0 ? 'after-those-away' : 'away'
        return () => new Promise(() => {})
      },
      onFull: ({ name }) => full.push(name),
      onPaused: () => undefined,
    },
  )
  const source = new Source()
  for (const size of [10, 300_000]) lanes.enter(source, did(0), event('large', size))
  for (let n = 1; n <= 1000; n++) lanes.enter(source, did(n), event(`small-${n}`, 1700))
  assert.deepEqual([full, source.waitingBytes, source.largeLanes.size], [[], 2_000_000, 1])
  lanes.enter(source, did(1001), event('late', 100))
  assert.deepEqual(full, ['small-1'])
  lanes.close()
})

test('the account of which most waits gives up its events, however many of which little waits came before it', () => {
  const { lanes, full } = waitingLanes({ bytesPerLane: 10_000_000, bytesPerSource: 2_000_000, bytes: 1e9 })
  const source = new Source()
  for (let n = 0; n < 2000; n++) lanes.enter(source, did(n), event(`small-${n}`, 100))
  for (const [n, size] of [500_000, 400_000].entries())
    for (const name of ['first', 'second']) lanes.enter(source, did(2000 + n), event(`${name}-${size}`, size))
  assert.deepEqual([full, source.waitingBytes], [[], 2_000_000])
  lanes.enter(source, did(2002), event('late', 100))
  assert.deepEqual(full, ['second-500000'])
  lanes.close()
})

test('of many accounts of which little waits a thousand are looked at for room, and no more', () => {
  const { lanes, full } = waitingLanes({ bytesPerLane: 10_000_000, bytesPerSource: 2_000_000, bytes: 1e9 })
  const source = new Source()
  for (let n = 0; n < 1502; n++) lanes.enter(source, did(n), event(`small-${n}`, n < 1000 ? 1000 : 1990))
  assert.deepEqual(full, [])
  lanes.enter(source, did(1502), event('late', 1500))
  assert.deepEqual(full, ['late'], 'nobody of the first thousand has more')
  lanes.close()
})

test('an account whose events wait for their turn alone makes room for nothing', async () => {
  const { lanes, done, full, letGo } = waitingLanes()
  const source = new Source()
  lanes.enter(source, did(1), event('one', 10))
  for (let n = 0; n < 30; n++) lanes.enter(source, did(1), event(`free-${n}`, n < 15 ? 1 : 60))
  lanes.enter(source, did(2), event('two', 600))
  const going = letGo('one')
  // The first piece starts before the next turn of the event loop.
  await Promise.resolve().then(() => {})
  assert.equal(done.length, 16)
  lanes.enter(source, did(3), event('three', 200))
  assert.deepEqual(full, ['two'])
  await going
  while (done.length < 31) await setImmediate()
  lanes.close()
})

function threes(prefix: string): string[] {
  return Array.from({ length: 8 }, (_, n) => `${prefix}.${n}`)
}

test('an event that is in the way is taken out, and those after it go on', async () => {
  const { lanes, done } = waitingLanes()
  const source = new Source()
  const [first, second] = [event('first'), event('free-second')]
  lanes.enter(source, did(1), first)
  lanes.enter(source, did(1), second)
  const lane = source.lanes.get(did(1))
  assert.ok(lane)
  assert.equal(lanes.drop(second, lane), false)
  assert.equal(lanes.drop(first, lane), true)
  assert.deepEqual(done, ['free-second'])
  assert.deepEqual([lanes.bytes, source.lanes.size, source.waitingLanes], [0, 0, 0])
  // Another lane of the account begins from nothing, whatever the wait of the first does.
  lanes.enter(source, did(1), event('free-third'))
  await setImmediate()
  assert.deepEqual(done, ['free-second', 'free-third'])
})

test('nothing is taken out of a lane that goes on in the next turn of the event loop', async () => {
  const { lanes, done, letGo } = waitingLanes()
  const source = new Source()
  for (const name of ['first', ...Array.from({ length: 20 }, (_, i) => `free-${i}`), 'second'])
    lanes.enter(source, did(1), event(name))
  lanes.enter(source, did(2), event('other'))
  assert.equal(lanes.dropLongest()?.name, 'first')
  assert.equal(done.length, 16)
  assert.equal(lanes.dropLongest()?.name, 'other')
  assert.equal(lanes.dropLongest(), undefined)
  await setImmediate()
  assert.equal(done.length, 20)
  assert.equal(lanes.dropLongest()?.name, 'second')
  await letGo('second')
  assert.deepEqual([lanes.bytes, source.lanes.size], [0, 0])
})

test('a source stops while many of its lanes wait for what should come soon, and not for what takes long', async () => {
  const { lanes, paused, letGo } = waitingLanes()
  const source = new Source()
  for (let n = 0; n < 4; n++) lanes.enter(source, did(n), event(`${n}`))
  assert.deepEqual(paused, [true])
  await letGo('0')
  assert.deepEqual(paused, [true])
  await letGo('1')
  await letGo('2')
  assert.deepEqual(paused, [true, false])
  for (let n = 4; n < 20; n++) {
    lanes.enter(source, did(n), event(`${n}`))
    const lane = source.lanes.get(did(n))
    assert.ok(lane)
    lanes.discount(lane)
  }
  assert.deepEqual([paused, source.waitingLanes], [[true, false], 1])
  lanes.close()
})

test('a lane that fills up stops its source once in a while, until its wait is over', async () => {
  const { lanes, paused, letGo, tick } = waitingLanes()
  const source = new Source()
  const crowd = (head: string): void => {
    lanes.enter(source, did(1), event(head))
    for (let n = 0; n < 25; n++) lanes.enter(source, did(1), event('free'))
  }
  crowd('one')
  assert.deepEqual(paused, [true])
  await letGo('one')
  while (source.lanes.size > 0) await setImmediate()
  assert.deepEqual(paused, [true, false])
  crowd('two')
  assert.deepEqual(paused, [true, false])
  await letGo('two')
  while (source.lanes.size > 0) await setImmediate()
  tick(1001)
  crowd('three')
  assert.deepEqual(paused, [true, false, true])
  lanes.close()
})

test('a source that brings accounts of many hosts is not stopped by a lane that fills up', () => {
  const { lanes, paused } = waitingLanes()
  const source = Object.assign(new Source(), { isShared: true })
  lanes.enter(source, did(1), event('one'))
  for (let n = 0; n < 35; n++) lanes.enter(source, did(1), event('free'))
  assert.deepEqual(paused, [])
  lanes.close()
})

test('what is to go leaves its lane wherever it waits, and the others go on in their order', async () => {
  const { lanes, done, full, letGo } = waitingLanes()
  const source = new Source()
  for (const name of ['goes-1', 'free-1', 'goes-2', 'stays', 'goes-3', 'free-2'])
    lanes.enter(source, did(1), event(name))
  const lane = source.lanes.get(did(1))
  assert.ok(lane)
  assert.equal(
    lanes.makeRoom(lane, ({ name }) => name.startsWith('goes')),
    3,
  )
  assert.deepEqual([full, done, lanes.bytes], [['goes-1', 'goes-2', 'goes-3'], ['free-1'], 20])
  await letGo('stays')
  assert.deepEqual([done, lanes.bytes, source.lanes.size], [['free-1', 'stays', 'free-2'], 0, 0])
})

test('a lane that fills up stops its source though the date was set back since it did last', () => {
  const { lanes, paused, tick } = waitingLanes()
  const source = new Source()
  source.crowdedAtMs = 1_000_000
  tick(-500_000)
  lanes.enter(source, did(1), event('one'))
  for (let n = 0; n < 25; n++) lanes.enter(source, did(1), event('free'))
  assert.deepEqual(paused, [true])
  lanes.close()
})

test('a source that a lane has stopped stays so until the lane has gone on', async () => {
  const { lanes, done, paused, full, letGo } = waitingLanes()
  const source = new Source()
  lanes.enter(source, did(1), event('one'))
  for (let i = 0; i < 35; i++) lanes.enter(source, did(1), event(`free-${i}`))
  assert.deepEqual(paused, [true])
  const going = letGo('one')
  // The first piece starts before the next turn of the event loop.
  await Promise.resolve().then(() => {})
  assert.deepEqual([done.length > 0, source.lanes.size, paused], [true, 1, [true]])
  await going
  while (source.lanes.size > 0) await setImmediate()
  assert.deepEqual([paused, full], [[true, false], []])
})

test('whatever waits, comes back or is dropped, each lane keeps its order and nothing stays behind', async () => {
  const step = fc.record({
    source: fc.nat(2),
    account: fc.nat(2),
    act: fc.constantFrom('enter', 'enter', 'go', 'drop', 'make room'),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const { lanes, done, full, letGo } = waitingLanes()
      const sources = [new Source(), new Source(), new Source()]
      const entered: string[] = []
      const dropped = new Set<string>()
      for (const [i, { source: s, account, act }] of steps.entries()) {
        const source = sources[s]
        assert.ok(source)
        const lane = source.lanes.get(did(account))
        const head = lane?.waiting[0]
        if (act === 'enter') {
          const name = `${i % 3 === 0 ? '' : 'free'}/${s}/${account}/${i}`
          entered.push(name)
          lanes.enter(source, did(account), event(name))
        } else if (act === 'go' && head) await letGo(head.name)
        else if (act === 'drop' && lane && head && lanes.drop(head, lane)) dropped.add(head.name)
        else if (act === 'make room' && lane)
          lanes.makeRoom(lane, ({ name }) => Number(name.split('/').at(-1)) % 2 === 0)
      }
      for (const source of sources)
        for (;;) {
          const head = source.lanes.values().next().value?.waiting[0]
          if (!head) break
          await letGo(head.name)
        }
      const laneOf = (name: string) => name.split('/').slice(1, 3).join('/')
      const expected = entered.filter((name) => !dropped.has(name) && !full.includes(name))
      assert.deepEqual(Object.groupBy(done, laneOf), Object.groupBy(expected, laneOf))
      assert.equal(lanes.bytes, 0)
      for (const { waitingBytes, waitingLanes, lanes } of sources)
        assert.deepEqual([waitingBytes, waitingLanes, lanes.size], [0, 0, 0])
    }),
    { numRuns: 300 },
  )
})
