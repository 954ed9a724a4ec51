import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RelayCore } from './relay-core.ts'

const [here, there, relay] = ['here.example.com', 'there.example.com', 'relay.example.com'] as const

for (const desired of ['banned', 'paused', 'removed'] as const)
  test(`an account that its host calls inactive is not asked for at a host that is ${desired}`, async () => {
    await using core = await RelayCore.start([here, there])
    core.send(here, '#commit', core.commit())
    core.says(here, 'deactivated')
    await core.settled()
    const told = await core.told()
    const source = core.source(there)
    source.policy = { ...source.policy, desired }
    core.home = there
    await core.pass(60)
    assert.equal(core.account.upstreamStatus, 'deactivated')
    assert.deepEqual([await core.told(), core.asked], [told, 0])
  })

test('a host that is banned while it is asked whether an account is back is not believed', async () => {
  await using core = await RelayCore.start([here, there])
  core.send(here, '#commit', core.commit())
  core.says(here, 'deactivated')
  await core.settled()
  const told = await core.told()
  // A word that is news is asked for twice.
  core.onAsked = () => core.asked === 2 && core.ban(there)
  core.home = there
  await core.pass(120)
  assert.deepEqual([await core.told(), core.asked], [told, 2])
})

test('events that wait for a document when their host is banned are refused, and the account is made whole later', async () => {
  await using core = await RelayCore.start([here])
  core.send(here, '#commit', core.commit())
  await core.settled()
  const told = await core.told()
  await core.pass(1)
  core.isDirectoryAway = true
  core.says(here, 'deactivated')
  core.send(here, '#commit', core.commit())
  await core.clock.pass(100)
  core.ban(here)
  core.isDirectoryAway = false
  await core.pass(60)
  await core.settled()
  assert.deepEqual(core.refused, [`${here} host-banned`, `${here} host-banned`])
  assert.deepEqual([await core.told(), core.asked], [told, 0])
  assert.deepEqual([core.account.upstreamStatus, core.account.isIncomplete], ['active', true])
})

for (const [sender, home] of [
  [here, here],
  [relay, there],
] as const)
  test(`a commit that is verified while its host is banned is refused, also when a relay forwards it (${sender})`, async () => {
    await using core = await RelayCore.start([here, relay])
    core.home = home
    core.send(sender, '#commit', core.commit())
    await core.settled()
    const told = await core.told()
    assert.equal(told.length, 1)
    core.send(sender, '#commit', core.commit())
    core.ban(home)
    await core.settled()
    assert.deepEqual(core.refused, [`${sender} host-banned`])
    assert.deepEqual(await core.told(), told)
  })

test('a host that is paused while an event of it is looked after is believed when it is wanted again', async () => {
  await using core = await RelayCore.start([here, there])
  core.send(here, '#commit', core.commit())
  await core.settled()
  core.send(there, '#commit', core.commit())
  await core.settled()
  assert.deepEqual(core.refused, [`${there} wrong-host`])
  core.decide(there, 'paused')
  await core.pass(10)
  core.home = there
  core.decide(there, 'enabled')
  await core.untilSync()
})

for (const [killedAt, title] of [
  [undefined, 'an account that nobody knows is asked for when its paused host is read again'],
  ['before', 'an account that nobody knows is asked for after a kill and a pause of its host'],
  ['after', 'an account that nobody knows is asked for after a pause of its host and a kill'],
] as const)
  test(title, async () => {
    await using core = await RelayCore.start([here])
    core.isDirectoryAway = true
    core.send(here, '#commit', core.commit())
    await core.pass(700)
    assert.deepEqual(core.refused, [`${here} identity-unavailable`])
    // The cursor passes the event.
    await core.writeState()
    const kill = async (): Promise<void> => {
      await core.writeState()
      await core.kill({ isAnyoneSending: false })
    }
    if (killedAt === 'before') await kill()
    core.decide(here, 'paused')
    await core.pass(1)
    if (killedAt === 'after') {
      await core.pass(3700)
      await kill()
      core.decide(here, 'paused')
    }
    core.isDirectoryAway = false
    await core.pass(3700)
    core.decide(here, 'enabled')
    await core.untilSync()
  })

test('an account that nobody knows is asked for when the ban of its host is lifted', async () => {
  await using core = await RelayCore.start([here])
  core.send(here, '#commit', core.commit())
  core.decide(here, 'banned')
  await core.pass(700)
  assert.deepEqual(core.refused, [`${here} host-banned`])
  core.decide(here, 'enabled')
  await core.untilSync()
})
