/** What becomes of an account whose host is read again from its oldest event. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RelayCore } from './relay-core.ts'

const here = 'here.example.com'

test('what a host said of an account before is not said again', async () => {
  await using core = await RelayCore.start([here])
  core.send(here, '#commit', core.commit())
  core.says(here, 'deactivated')
  await core.settled()
  core.says(here)
  await core.pass(10)
  const told = await core.told()
  core.readAgain(here)
  await core.pass(60)
  assert.deepEqual(await core.told(), told)
  assert.deepEqual(core.refused, [`${here} rev-not-increasing`])
})

test('what a host said before is not said again after a kill in the moment in which its position was reset', async () => {
  await using core = await RelayCore.start([here])
  core.send(here, '#commit', core.commit())
  core.says(here, 'deactivated')
  await core.settled()
  core.says(here)
  await core.pass(10)
  await core.writeState()
  const told = await core.told()
  await core.resetAndKill(here)
  await core.pass(60)
  assert.deepEqual(await core.told(), told)
})

test('what a host said of an account while it was not read passes', async () => {
  await using core = await RelayCore.start([here])
  core.send(here, '#commit', core.commit())
  await core.settled()
  core.repoAt = 'nowhere.example.com'
  core.says(here, 'deleted', false)
  await core.pass(10)
  core.readAgain(here)
  await core.settled()
  assert.equal((await core.told()).at(-1), '#account deleted')
})
