/** What becomes of accounts whose host no longer had what came after our position. Nobody says anything more of them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RelayCore } from './relay-core.ts'

const here = 'here.example.com'
const hourSeconds = 3600

/** The account has a commit that passed, and the next one is lost if it is to be. */
async function begin({ isCommitLost = true } = {}): Promise<RelayCore> {
  const core = await RelayCore.start([here])
  core.send(here, '#commit', core.commit())
  await core.settled()
  if (isCommitLost) core.commit()
  return core
}

test('an account whose last commit was lost gets its current commit', async () => {
  await using core = await begin()
  core.lose(here)
  await core.untilSync()
})

test('an account that its host lost without a word is not active any more', async () => {
  await using core = await begin()
  core.repoAt = 'nowhere.example.com'
  core.lose(here)
  await core.pass(30)
  assert.equal((await core.told()).at(-1), '#account deleted')
})

test('an account of which nothing was lost is asked for once, and nobody hears of it', async () => {
  await using core = await begin({ isCommitLost: false })
  const told = await core.told()
  core.lose(here)
  await core.pass(hourSeconds)
  const { asked } = core
  assert.ok(asked > 0)
  await core.pass(2 * hourSeconds)
  assert.equal(core.asked, asked)
  assert.deepEqual(await core.told(), told)
})

test('documents of others that never come do not hold up the walk after a loss', async () => {
  await using core = await RelayCore.start([here])
  core.otherDocumentsMs = 5000
  core.setQuota(here, 1000)
  core.crowd(here, 150)
  core.send(here, '#commit', core.commit())
  await core.settled()
  core.commit()
  core.lose(here)
  await core.pass(300)
  assert.equal((await core.told()).at(-1), `#sync ${core.repo.rev}`)
})

test('accounts are asked for when the host has sent what it still had', async () => {
  await using core = await begin()
  core.lose(here, 2 * hourSeconds)
  const { reading } = core.source(here)
  await core.pass(8)
  assert.equal(core.asked, 0)
  assert.ok(reading.lagMs > 0)
  await core.untilSync()
})

for (const [what, lose] of [
  ['that numbers its events anew', (core) => core.readAgain(here)],
  ['that is moved on past what it was stuck at', (core) => core.moveOn(here, 1)],
] satisfies [string, (core: RelayCore) => void][])
  test(`accounts of a host ${what} are asked for, also after a kill`, async () => {
    await using core = await begin()
    lose(core)
    await core.settled()
    await core.writeState()
    await core.kill({ isAnyoneSending: false })
    core.source(here).reading.open()
    await core.untilSync()
  })

test('accounts are asked for also after a kill', async () => {
  await using core = await begin()
  await core.writeState()
  core.lose(here, 2 * hourSeconds)
  // The cursor passes what was lost.
  core.send(here, '#identity', { did: core.did })
  await core.settled()
  await core.writeState()
  await core.kill()
  core.source(here).reading.open()
  await core.untilSync()
})

test('accounts whose host has not answered are asked for again after a kill', async () => {
  await using core = await begin()
  core.areHostsSilent = true
  core.lose(here)
  await core.pass(30)
  assert.ok(core.asked > 0)
  core.send(here, '#identity', { did: core.did })
  await core.settled()
  await core.writeState()
  await core.kill()
  core.areHostsSilent = false
  core.source(here).reading.open()
  await core.untilSync()
})

test('accounts whose host has not answered for long are asked for after a kill', async () => {
  await using core = await begin()
  core.areHostsSilent = true
  core.lose(here)
  await core.pass(4 * hourSeconds)
  assert.ok(core.account.isIncomplete)
  await core.writeState()
  await core.kill()
  core.areHostsSilent = false
  await core.untilSync()
})
