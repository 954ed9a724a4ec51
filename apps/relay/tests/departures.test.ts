/** An account that leaves for a host that is not read gives its slot to another one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RelayCore } from './relay-core.ts'

const here = 'here.example.com'
const unread = 'unread.example.com'

/** The account holds the only slot of its host. */
async function start(): Promise<RelayCore> {
  const core = await RelayCore.start([here], { TRIBUTARY_RELAY_ACCOUNT_QUOTA: '1' })
  core.send(here, '#commit', core.commit())
  await core.settled()
  assert.deepEqual(core.slots(here), { active: 1, waiting: 0 })
  return core
}

test('an account that its host deletes after it has left gives its slot back, also over a restart', async () => {
  await using core = await start()
  core.home = unread
  await core.pass(1)
  core.says(here, 'deleted')
  await core.settled()
  assert.deepEqual(core.refused, [`${here} wrong-host`])
  assert.deepEqual(core.slots(here), { active: 0, waiting: 0 })
  await core.writeState()
  // The log names its source once more, and is folded into the stored state.
  await core.takeDown()
  await core.kill()
  assert.deepEqual(core.refused, [])
  assert.deepEqual(core.slots(here), { active: 0, waiting: 0 })
  core.crowd(here, 1)
  assert.deepEqual(core.slots(here), { active: 1, waiting: 0 })
  assert.deepEqual(await core.told(), [`#commit ${core.repo.rev}`, '#account takendown'])
})

test('an account that comes back to its host takes a slot as a new one does', async () => {
  await using core = await start()
  core.home = unread
  await core.pass(1)
  core.says(here, 'deactivated')
  await core.settled()
  core.crowd(here, 1)
  core.home = here
  await core.pass(1)
  core.says(here)
  await core.settled()
  assert.deepEqual(core.slots(here), { active: 1, waiting: 1 })
  assert.equal((await core.told()).at(-1), '#account throttled')
})

test('an account whose document is gone when its host deletes it gives its slot back', async () => {
  await using core = await start()
  core.home = undefined
  await core.pass(1)
  core.says(here, 'deleted')
  await core.settled()
  await core.pass(5)
  assert.deepEqual(core.refused, [`${here} identity-not-found`])
  assert.deepEqual(core.slots(here), { active: 0, waiting: 0 })
})

test('an account that has left without a word gives its slot back when an operator has it asked for', async () => {
  await using core = await start()
  core.home = unread
  await core.pass(1)
  await core.recheck()
  assert.deepEqual(core.slots(here), { active: 0, waiting: 0 })
  core.home = here
  await core.pass(1)
  await core.recheck()
  assert.deepEqual(core.slots(here), { active: 1, waiting: 0 })
})

test('what a host answers to an operator is not logged once the relay stops', async () => {
  await using core = await start()
  core.says(here, 'deactivated')
  await core.settled()
  core.onAsked = () => core.endRecovery()
  await core.recheck()
  assert.equal((await core.told()).at(-1), '#account deactivated')
})

test('what another host says of an account, and a document that is not there for a moment, take no slot away', async () => {
  const other = 'other.example.com'
  await using core = await RelayCore.start([here, other])
  core.send(here, '#commit', core.commit())
  await core.settled()
  core.says(other, 'deleted')
  await core.settled()
  assert.deepEqual([core.refused, core.slots(here).active], [[`${other} wrong-host`], 1])
  core.home = undefined
  await core.pass(1)
  core.says(here)
  await core.settled()
  assert.deepEqual(core.slots(here), { active: 1, waiting: 0 })
})

test('an account without a slot that moves waits at its new host, also after a kill', async () => {
  const other = 'other.example.com'
  await using core = await RelayCore.start([here, other], { TRIBUTARY_RELAY_ACCOUNT_QUOTA: '1' })
  for (const host of [here, other]) core.crowd(host, 1)
  core.send(here, '#commit', core.commit())
  await core.settled()
  assert.deepEqual(core.slots(here), { active: 1, waiting: 1 })
  core.home = other
  await core.pass(1)
  core.send(other, '#commit', core.commit())
  await core.settled()
  assert.deepEqual([core.slots(here).waiting, core.slots(other).waiting], [0, 1])
  await core.writeState()
  await core.kill({ isAnyoneSending: false })
  assert.deepEqual([core.slots(here).waiting, core.slots(other).waiting], [0, 1])
})
