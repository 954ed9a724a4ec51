/** Accounts that other relays bring: two relays that read each other, a PDS that is not read any more, a host that is banned. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RelayCore } from './relay-core.ts'

const [here, there] = ['here.example.com', 'there.example.com'] as const
const [relay, other] = ['relay.example.com', 'relay-two.example.com'] as const

test('an #account goes round once between relays that read each other', async () => {
  await using core = await RelayCore.start([relay, other])
  core.home = there
  core.says(relay)
  await core.settled()
  for (let round = 0; round < 3; round++)
    for (const host of [other, relay]) {
      core.says(host)
      await core.settled()
    }
  assert.deepEqual([await core.told(), core.refused], [['#account active'], []])
  assert.equal(core.source(relay).oldest, undefined)
})

for (const desired of ['paused', 'removed'] as const) {
  const newHere = async (): Promise<RelayCore> => {
    const core = await RelayCore.start([here, relay])
    core.send(here, '#commit', core.commit())
    await core.settled()
    core.decide(here, desired)
    return core
  }

  test(`an account whose PDS is ${desired} is made whole by a relay that has spoken for it since`, async () => {
    await using core = await newHere()
    core.send(relay, '#commit', core.commit())
    await core.settled()
    core.send(relay, '#commit', { ...core.commit(), tooBig: true })
    await core.settled()
    assert.deepEqual(core.refused, [`${relay} deprecated-flag`])
    await core.untilSync()
  })

  test(`an account whose PDS is ${desired} is made whole when a relay sends something of it that is left out`, async () => {
    await using core = await newHere()
    core.send(relay, '#commit', { ...core.commit(), tooBig: true })
    await core.settled()
    assert.deepEqual(core.refused, [`${relay} deprecated-flag`])
    await core.kill()
    core.decide(here, desired)
    await core.untilSync()
  })
}

test('what a relay forwards of a host while this is banned is made up for when the ban is lifted', async () => {
  await using core = await RelayCore.start([relay])
  core.home = there
  core.send(relay, '#commit', core.commit())
  await core.settled()
  const told = await core.told()
  core.ban(there)
  core.send(relay, '#commit', core.commit())
  await core.settled()
  await core.pass(7200)
  assert.deepEqual([core.asked, core.documentsRead], [0, 1], 'nobody is asked for accounts of a banned host')
  await core.kill()
  await core.settled()
  assert.deepEqual([await core.told(), core.account.isIncomplete], [told, true])
  core.unban(there)
  await core.untilSync()
})

for (const [what, happens] of [
  [
    'before a kill and the removal of its PDS',
    async (core) => {
      core.send(relay, '#commit', core.commit())
      await core.settled()
      assert.deepEqual(core.refused, [`${relay} direct-source`])
      await core.writeState()
      await core.writeState()
      await core.kill()
    },
  ],
  [
    'while its PDS was banned, which is removed then,',
    async (core) => {
      core.decide(here, 'banned')
      core.send(relay, '#commit', core.commit())
      await core.settled()
      assert.deepEqual(core.refused, [`${relay} host-banned`])
    },
  ],
] satisfies [string, (core: RelayCore) => Promise<void>][])
  test(`what a relay forwarded of an account ${what} is made up for`, async () => {
    await using core = await RelayCore.start([here, relay])
    core.send(here, '#commit', core.commit())
    await core.settled()
    await happens(core)
    core.decide(here, 'removed')
    core.source(relay).reading.open()
    await core.untilSync()
  })

test('the accounts of a PDS that is removed are asked for once, and nobody hears of it', async () => {
  await using core = await RelayCore.start([here, relay])
  core.send(here, '#commit', core.commit())
  await core.settled()
  const told = await core.told()
  core.decide(here, 'removed')
  core.source(relay).reading.open()
  await core.pass(3600)
  const { asked } = core
  assert.ok(asked > 0)
  await core.pass(7200)
  assert.deepEqual([core.asked, core.account.isIncomplete, core.source(here).lostAtMs], [asked, false, 0])
  assert.deepEqual(await core.told(), told)
})

test('a PDS that is removed because it is gone leaves no marks on its accounts', async () => {
  await using core = await RelayCore.start([here, relay])
  core.send(here, '#commit', core.commit())
  await core.settled()
  core.areHostsSilent = true
  core.decide(here, 'removed')
  core.source(relay).reading.open()
  await core.pass(6 * 3600)
  const { asked } = core
  assert.ok(asked > 0)
  assert.deepEqual([core.account.isIncomplete, core.source(here).lostAtMs], [false, 0])
  await core.writeState()
  await core.kill()
  core.source(relay).reading.open()
  await core.pass(600)
  assert.equal(core.asked, asked, 'the accounts are asked for once')
})

test('a removal is taken for new once, also by starts that follow', async () => {
  await using core = await RelayCore.start([here, relay])
  core.send(here, '#commit', core.commit())
  await core.settled()
  await core.writeState()
  core.decide(here, 'removed')
  const { lostAtMs } = core.source(here)
  await core.pass(1)
  await core.kill()
  assert.equal(core.source(here).lostAtMs, lostAtMs)
})

for (const [when, removeAndKill] of [
  ['before the state has the removal', async (core) => await core.removeAndKill(here)],
  [
    'after the state has the removal',
    async (core) => {
      core.decide(here, 'removed')
      await core.writeState()
      await core.kill()
    },
  ],
] satisfies [string, (core: RelayCore) => Promise<void>][])
  test(`a kill ${when} loses nothing of what a relay forwarded before of accounts of the removed PDS`, async () => {
    await using core = await RelayCore.start([here, relay])
    core.send(here, '#commit', core.commit())
    await core.settled()
    core.send(relay, '#commit', core.commit())
    await core.settled()
    assert.deepEqual(core.refused, [`${relay} direct-source`])
    // The cursor passes it, so that the relay does not send it again.
    await core.writeState()
    await core.writeState()
    await removeAndKill(core)
    assert.equal(core.source(here).policy.desired, 'removed')
    core.source(relay).reading.open()
    await core.untilSync()
  })
