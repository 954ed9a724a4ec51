import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Signer } from '@tributary/testkit'
import { RelayCore } from './relay-core.ts'

const [here, there] = ['here.example.com', 'there.example.com'] as const

/**
 * A host sends an event that waits, and then three of the account: an `#identity` and an `#account` that
 * are refused, because the directory names another host at that moment, and an `#account` that passes.
 */
async function refuseThenLog(core: RelayCore): Promise<void> {
  core.send(here, '#commit', core.commit())
  await core.settled()
  await core.writeState()
  core.sendStuck(here)
  await core.clock.pass(100)
  core.home = there
  core.send(here, '#identity', { did: core.did })
  await core.settled()
  core.says(here, 'deactivated')
  await core.settled()
  assert.deepEqual(core.refused, [`${here} wrong-host`, `${here} wrong-host`])
  core.home = here
  await core.clock.pass(100)
  core.says(here)
  await core.settled()
}

const kills: Record<string, (core: RelayCore) => Promise<void>> = {
  'the state was written': async (core) => {
    await core.kill()
  },
  'the state was written after they were refused': async (core) => {
    await core.writeState()
    await core.kill()
  },
  'the state was written between two kills': async (core) => {
    await core.kill({ isAnyoneSending: false })
    await core.writeState()
    await core.kill()
  },
}

for (const [when, kill] of Object.entries(kills))
  test(`events that were refused do not pass after a kill, out of their order, when ${when}`, async () => {
    await using core = await RelayCore.start([here, there])
    await refuseThenLog(core)
    // A #sync may follow, which makes up for what was refused.
    const told = async () => (await core.told()).filter((each) => !each.startsWith('#sync'))
    const before = await told()
    assert.equal(before.at(-1), '#account active')
    await kill(core)
    await core.settled()
    assert.deepEqual(await told(), before)
    assert.equal(core.account.upstreamStatus, 'active')
  })

test('a commit that was refused, and comes again after a kill when newer ones are in the log, is made up for', async () => {
  await using core = await RelayCore.start([here, there])
  core.send(here, '#commit', core.commit())
  await core.settled()
  await core.writeState()
  core.sendStuck(here)
  // Or it would be made up for before the kill.
  core.areHostsSilent = true
  const broken = core.commit()
  core.send(here, '#commit', { ...broken, ops: [] })
  core.send(here, '#commit', core.commit())
  await core.settled()
  assert.deepEqual(core.refused, [`${here} invalid-mst`])
  core.areHostsSilent = false
  await core.kill()
  await core.untilSync()
})

test('the host that an account has left is not heard after a kill, though the stored document still names it', async () => {
  await using core = await RelayCore.start([here, there])
  core.send(here, '#commit', core.commit())
  await core.settled()
  await core.writeState()
  core.home = there
  await core.clock.pass(100)
  core.says(there)
  await core.settled()
  await core.kill()
  core.says(here, 'deleted')
  await core.settled()
  assert.deepEqual(core.refused, [`${here} wrong-host`])
  assert.equal(core.account.upstreamStatus, 'active')
})

test('a key that an account has replaced does not count after a kill, though the stored document still holds it', async () => {
  await using core = await RelayCore.start([here])
  core.send(here, '#commit', core.commit())
  await core.settled()
  await core.writeState()
  const oldKey = core.key
  core.key = core.repo.signer = Signer.fromSeed('new')
  await core.clock.pass(100)
  core.send(here, '#identity', { did: core.did })
  core.send(here, '#commit', core.commit())
  await core.settled()
  await core.kill()
  const { rev } = core.repo
  core.repo.signer = oldKey
  core.send(here, '#commit', core.commit())
  await core.settled()
  assert.deepEqual(core.refused, [`${here} bad-signature`])
  assert.equal(core.account.rev, rev)
})

const firstWords: Record<string, (core: RelayCore) => void> = {
  'an #account': (core) => core.says(there),
  'a commit that continues nothing known': (core) => core.send(there, '#commit', core.commit()),
}

for (const [what, speak] of Object.entries(firstWords))
  test(`what was lost on a move is made up for, when all that the log has of the new host is ${what}`, async () => {
    await using core = await RelayCore.start([here, there])
    core.send(here, '#commit', core.commit())
    await core.settled()
    await core.writeState()
    // Nobody hears of it.
    core.commit()
    core.home = there
    core.areHostsSilent = true
    await core.clock.pass(100)
    speak(core)
    await core.settled()
    await core.kill()
    core.areHostsSilent = false
    await core.untilSync()
  })

test('seqs that a log without records leaves out hold no cursor up', async () => {
  await using core = await RelayCore.start([here], { TRIBUTARY_RELAY_LOG_FLOOR_SEQ: '1000' })
  core.isDirectoryAway = true
  core.send(here, '#commit', core.commit())
  await core.pass(5)
  await core.writeState()
  assert.deepEqual([core.refused, core.source(here).cursor], [[`${here} identity-unavailable`], 1])
})

test('an event that waits while an operator moves its host on is not lost by a kill', async () => {
  await using core = await RelayCore.start([here, there])
  core.send(here, '#commit', core.commit())
  await core.settled()
  await core.pass(120)
  core.isDirectoryAway = true
  core.home = there
  core.send(there, '#commit', core.commit())
  await core.clock.pass(100)
  core.moveOn(there, 5)
  assert.deepEqual([core.source(there).receivedSeq, core.refused], [6, []], 'it is read from there')
  await core.writeState()
  core.isDirectoryAway = false
  await core.kill()
  await core.settled()
  assert.equal((await core.told()).at(-1), `#commit ${core.repo.rev}`)
  // What cannot be read is met again, and left out at once.
  assert.equal(core.source(there).movedOnTo, 6)
})

test('an account of which only an #identity has passed is not remembered, also after a kill', async () => {
  await using core = await RelayCore.start([here])
  core.send(here, '#identity', { did: core.did })
  await core.settled()
  assert.deepEqual(await core.told(), ['#identity'])
  assert.equal(core.accounts, 0)
  await core.kill({ isAnyoneSending: false })
  assert.equal(core.accounts, 0)
})
