import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RelayCore } from './relay-core.ts'

const [here, there] = ['here.example.com', 'there.example.com'] as const

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
