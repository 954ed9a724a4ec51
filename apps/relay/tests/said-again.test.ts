/** The host of an account gives the very commit that its last `#sync` was of: consumers know it already. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { syncBody } from '@tributary/testkit'
import { RelayCore } from './relay-core.ts'

const [here, there] = ['here.example.com', 'there.example.com'] as const

/** An account is back, and its host has not been asked yet. */
async function echoed(): Promise<RelayCore> {
  const core = await RelayCore.start([here, there])
  core.areHostsSilent = true
  core.send(here, '#commit', core.commit())
  await core.settled()
  core.says(here, 'deactivated')
  await core.settled()
  core.says(here)
  const sync = syncBody(core.did, core.repo.rev ?? '', core.repo.head)
  core.send(here, '#sync', sync)
  core.send(there, '#sync', sync)
  await core.settled()
  assert.deepEqual([core.refused, core.account.isIncomplete], [[`${there} wrong-host`], true])
  assert.equal((await core.told()).at(-1), `#sync ${core.repo.rev}`)
  await core.writeState()
  return core
}

test('consumers are told once that an account is whole whose #sync another host sent, too', async () => {
  await using core = await echoed()
  const told = await core.told()
  core.areHostsSilent = false
  await core.pass(120)
  await core.writeState()
  await core.kill()
  await core.pass(120)
  assert.deepEqual([await core.told(), core.account.isIncomplete], [told, false])
})

test('an account of which something was left out after its #sync has no second one of the same commit', async () => {
  await using core = await RelayCore.start([here])
  core.send(here, '#commit', core.commit())
  await core.settled()
  core.commit()
  core.lose(here)
  await core.untilSync()
  const told = await core.told()
  core.isDirectoryAway = true
  core.send(here, '#identity', { did: core.did })
  await core.pass(5)
  assert.deepEqual([core.refused, core.account.isIncomplete], [[`${here} identity-unavailable`], true])
  core.isDirectoryAway = false
  await core.pass(120)
  assert.deepEqual([await core.told(), core.account.isIncomplete], [told, false])
})

test('consumers are told of a commit that was left out after a #sync which another host sent, too', async () => {
  await using core = await echoed()
  core.commit()
  core.areHostsSilent = false
  await core.untilSync()
})

test('consumers are told again that an account is whole which was away after its #sync', async () => {
  await using core = await echoed()
  core.says(here, 'deactivated')
  await core.settled()
  core.says(here)
  await core.settled()
  const told = await core.told()
  assert.equal(told.at(-1), '#account active')
  core.areHostsSilent = false
  await core.pass(120)
  assert.deepEqual(
    [await core.told(), core.account.isIncomplete],
    [[...told, `#sync ${core.repo.rev}`], false],
  )
})
