import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IdentityError, type Identity } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { sampleSource } from '../../tests/sample-source.ts'
import { TestClock } from '../../tests/test-clock.ts'
import type { Source } from '../sources/source.ts'
import { SecondLooks } from './second-looks.ts'

const didOf = (n: number): Did => `did:plc:${n}` as Did // only a name here

/** Looks by a directory that a test lets answer, or not. */
function startLooks() {
  const clock = new TestClock()
  const startMs = clock.nowMs()
  const read: { did: Did; second: number }[] = []
  const directory = { isAway: false, knowsNobody: false, asked: 0 }
  const inactive = new Set<Did>()
  const pdsOf = new Map<Did, string>()
  const looks = new SecondLooks({
    clock,
    resolver: {
      resolve: (did) => {
        directory.asked++
        if (directory.knowsNobody) return Promise.reject(new IdentityError('not-found', 'nobody'))
        const away = new IdentityError('unavailable', 'away', { retryAfterMs: 60_000 })
        return directory.isAway ? Promise.reject(away) : Promise.resolve({ did } as Identity) // no more is read
      },
    },
    onRead: ({ did }) => read.push({ did, second: Math.floor((clock.nowMs() - startMs) / 1000) }),
    isInactive: (did) => inactive.has(did),
    pdsOf: (did) => pdsOf.get(did),
    onDefect: (_, error) => assert.fail(String(error)),
  })
  clock.every(250, () => looks.tick())
  return { clock, looks, read, directory, inactive, pdsOf }
}

function sourceAt(host: string): Source {
  return Object.assign(sampleSource(), { host })
}

test('a document is looked at three times within a minute after an event was left out, and then no more', async () => {
  const { clock, looks, read } = startLooks()
  looks.add(didOf(1), sourceAt('a.example.com'), true)
  await clock.pass(3_600_000)
  assert.deepEqual(
    read.map(({ second }) => second),
    [5, 20, 50],
  )
  assert.equal(looks.size, 0)
})

test('the document of an inactive account is looked at for longer', async () => {
  const { clock, looks, read, inactive } = startLooks()
  looks.add(didOf(1), sourceAt('a.example.com'), true)
  await clock.pass(30_000)
  inactive.add(didOf(1))
  await clock.pass(7_200_000)
  assert.deepEqual(
    read.map(({ second }) => second),
    [5, 20, 50, 170, 770, 4370],
  )
  assert.equal(looks.size, 0)
})

test('a document that cannot be read is looked at until it can, and for a source that is not wanted not at all', async () => {
  const { clock, looks, read, directory } = startLooks()
  const paused = sourceAt('paused.example.com')
  paused.policy = { ...paused.policy, desired: 'paused' }
  looks.add(didOf(1), sourceAt('a.example.com'), true)
  looks.add(didOf(2), paused, true)
  directory.isAway = true
  await clock.pass(7_200_000)
  assert.ok(directory.asked <= 121, `asked ${directory.asked} times`)
  directory.isAway = false
  await clock.pass(61_000)
  assert.deepEqual([read.length > 0, read.some(({ did }) => did !== didOf(1))], [true, false])
})

test('the looks of a source that is paused are taken up when it is wanted again, up to a bound', async () => {
  const { clock, looks, read } = startLooks()
  const source = sourceAt('paused.example.com')
  looks.add(didOf(1), source, true)
  source.policy = { ...source.policy, desired: 'paused' }
  await clock.pass(60_000)
  assert.deepEqual([looks.size, read], [0, []])
  for (let n = 1; n <= 3000; n++) {
    looks.add(didOf(n), source, true)
    if (n % 500 === 0) await clock.pass(60_000)
  }
  assert.equal(source.looks.size, 2000)
  source.policy = { ...source.policy, desired: 'enabled' }
  looks.takeUp(source)
  await clock.pass(6000)
  assert.ok(read.some(({ did }) => did === didOf(1)))
})

test('a document that the directory does not have is looked for longer than a minute', async () => {
  const { clock, looks, read, directory } = startLooks()
  directory.knowsNobody = true
  looks.add(didOf(1), sourceAt('a.example.com'), true)
  await clock.pass(100_000)
  directory.knowsNobody = false
  await clock.pass(7_200_000)
  assert.deepEqual(
    read.map(({ second }) => second),
    [170, 770, 4370],
  )
  assert.equal(looks.size, 0)
})

test('a source fills only its own share of the looks, whatever it names', async () => {
  const { clock, looks, read } = startLooks()
  const hostile = sourceAt('hostile.example.com')
  for (let n = 0; n < 5000; n++) looks.add(didOf(n), hostile, true)
  assert.equal(looks.size, 1000)
  looks.add(didOf(9999), sourceAt('honest.example.com'), true)
  assert.equal(looks.size, 1001)
  await clock.pass(10_000)
  assert.ok(read.some(({ did }) => did === didOf(9999)))
})

test('a PDS fills only its share of the looks of a relay that forwards it', async () => {
  const { clock, looks, read, pdsOf } = startLooks()
  const relay = sourceAt('relay.example.com')
  relay.policy = { ...relay.policy, kind: 'relay' }
  for (let n = 0; n < 2000; n++) {
    pdsOf.set(didOf(n), 'hostile.example.com')
    looks.add(didOf(n), relay, true, true)
  }
  assert.equal(looks.size, 100)
  pdsOf.set(didOf(8888), 'honest.example.com')
  for (const did of [didOf(8888), didOf(9999)]) looks.add(did, relay, true, true)
  assert.equal(looks.size, 102)
  await clock.pass(10_000)
  for (const did of [didOf(8888), didOf(9999)]) assert.ok(read.some((each) => each.did === did))
  // A look that is over makes room.
  await clock.pass(7_200_000)
  assert.equal(looks.size, 0)
  for (let n = 0; n < 200; n++) looks.add(didOf(n), relay, true)
  assert.equal(looks.size, 100)
})

test('PDSs together fill only so many of the looks of a relay, and none of those for its own accounts', () => {
  const { looks, pdsOf } = startLooks()
  const relay = sourceAt('relay.example.com')
  relay.policy = { ...relay.policy, kind: 'relay' }
  for (let n = 0; n < 2000; n++) {
    pdsOf.set(didOf(n), `pds${n % 50}.example.com`)
    looks.add(didOf(n), relay, true, true)
  }
  assert.equal(looks.size, 1000)
  for (let n = 2000; n < 4000; n++) looks.add(didOf(n), relay, true, true)
  assert.equal(looks.size, 2000)
})

test('looks that a source had before a restart do not stay with it when there is no room for them', () => {
  const { looks } = startLooks()
  const source = sourceAt('a.example.com')
  for (let n = 0; n < 1200; n++) source.looks.set(didOf(n), true)
  for (const [did, isContent] of source.looks) looks.add(did, source, isContent, true)
  assert.deepEqual([looks.size, source.looks.size], [1000, 1000])
})

test('a clock that was ahead does not put a look off', async () => {
  const { clock, looks, read } = startLooks()
  looks.add(didOf(1), sourceAt('a.example.com'), true)
  clock.setBack(86_400_000)
  looks.setBack(86_400_000)
  await clock.pass(6000)
  assert.equal(read.length, 1)
})
