import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Signer } from '@tributary/testkit'
import { waitLimits } from '../src/pipeline/limits.ts'
import { RelayCore } from './relay-core.ts'

const host = 'here.example.com'

/** Owners of accounts decide what their documents say, and when these can be read. */
test('an account whose current commit waits for its document does not hold up its host', async () => {
  await using core = await RelayCore.start([host], { TRIBUTARY_RELAY_IDENTITY_WAIT_SECONDS: '3600' })
  const [key, other] = [core.key, Signer.fromSeed('other')]
  const changeKey = async (signer: Signer): Promise<void> => {
    await core.clock.pass(10)
    core.key = signer
    core.asked = 0
    core.send(host, '#identity', { did: core.did })
  }
  core.send(host, '#commit', core.commit())
  await core.settled()
  await changeKey(other)
  core.send(host, '#commit', core.commit())
  await core.settled()
  assert.deepEqual(core.refused, [`${host} bad-signature`])
  // The host is asked for the commit that was left out. What it gives is held for two seconds.
  await changeKey(key)
  while (core.asked === 0) await core.clock.pass(250)
  await changeKey(other)
  await core.settled()
  core.isDirectoryAway = true
  await core.pass(3)
  assert.equal(core.account.underWay, 1)
  // It waits after the commit that the relay has fetched.
  core.send(host, '#commit', core.commit())
  const sendOthers = (count: number): void => {
    for (let n = 0; n < count; n++) core.send(host, '#account', { did: 'did:example:other', active: true })
  }
  sendOthers(waitLimits.pending.events)
  assert.ok(core.source(host).openSpan > waitLimits.pending.events)
  for (const seconds of [waitLimits.pending.waitMs / 1000, 1]) {
    await core.pass(seconds)
    sendOthers(1)
  }
  assert.equal(core.source(host).openSpan, 0)
})

test('no source is read while the stored state falls behind events that are refused', async () => {
  await using core = await RelayCore.start([host])
  await core.writeState()
  core.flood(host, 100_001)
  assert.ok(!core.isPressed)
  // The state is written meanwhile.
  core.flood(host, 100_001)
  assert.ok(core.isPressed)
  await core.writeState()
  await core.writeState()
  assert.deepEqual([core.isPressed, core.source(host).pending], [false, 0])
})

test('an account whose document does not come stops its PDS, and not a relay that brings it', async () => {
  const relay = 'relay.example.com'
  await using core = await RelayCore.start([host, relay])
  const { eventsPerLane, crowded } = waitLimits.lanes
  const stuck = { did: `did:plc:${'stuck'.padEnd(24, 'a')}`, active: true }
  for (const name of [host, relay])
    for (let n = 0; n <= eventsPerLane * crowded.share; n++) core.send(name, '#account', stuck)
  assert.deepEqual(
    [host, relay].map((name) => core.source(name).crowdedBy !== undefined),
    [true, false],
  )
})

test('a burst of one account that comes faster than its document is not left out', async () => {
  await using core = await RelayCore.start([host])
  core.isDirectoryAway = true
  const waiting = Array.from({ length: 1.5 * waitLimits.lanes.eventsPerLane }, () => ({
    did: core.did,
    active: true,
  }))
  const count = waiting.length
  const sendWhileRead = (): void => {
    while (waiting.length > 0 && core.paused.size === 0) core.send(host, '#account', waiting.pop() ?? {})
  }
  sendWhileRead()
  assert.ok(count - waiting.length < waitLimits.lanes.eventsPerLane)
  core.isDirectoryAway = false
  while (waiting.length > 0) {
    await core.clock.pass(100)
    sendWhileRead()
  }
  await core.settled()
  assert.deepEqual(core.refused, [])
  const passed = (await core.told()).filter((each) => each.includes('#account'))
  assert.equal(passed.length, count)
})

test('an account whose document does not come stops its PDS once, and accounts of a PDS do so every ten minutes', async () => {
  await using core = await RelayCore.start([host])
  const source = core.source(host)
  const { eventsPerLane, crowded } = waitLimits.lanes
  const stops: string[] = []
  const crowd = async (name: string, minutes: number): Promise<void> => {
    const stuck = { did: `did:plc:${name.padEnd(24, 'a')}`, active: true }
    for (let n = 0; n < eventsPerLane * crowded.share; n++) core.send(host, '#account', stuck)
    if (source.crowdedBy) stops.push(name)
    await core.pass(5)
    assert.equal(source.crowdedBy, undefined)
    await core.pass(60 * minutes)
  }
  await crowd('one', 11)
  await crowd('one', 0)
  await crowd('two', 9)
  await crowd('three', 1)
  await crowd('four', 0)
  assert.deepEqual(stops, ['one', 'two', 'four'])
})

test('accounts whose own hosts let their documents hang stop no source, and those of the directory do', async () => {
  const relay = 'relay.example.com'
  await using core = await RelayCore.start([host, relay])
  const { high } = waitLimits.lanes.lanesPerSource
  for (let n = 0; n < 4 * high; n++)
    core.send(relay, '#account', { did: `did:web:x${n}.example.net`, active: true })
  assert.deepEqual([...core.paused], [])
  for (let n = 0; n < high; n++)
    core.send(host, '#account', { did: `did:plc:${`${n}`.padStart(24, 'a')}`, active: true })
  assert.deepEqual([...core.paused], [`${host} identities`])
})
