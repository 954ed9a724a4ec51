/** Two hosts could have any number of accounts, if these came to each of them from the other. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RelayCore } from './relay-core.ts'

const [here, there] = ['here.example.com', 'there.example.com'] as const
/** Accounts that a host with a hundred slots may have. */
const knownMax = 1000

for (const others of [knownMax - 1, knownMax]) {
  const isFull = others === knownMax

  const start = async (): Promise<RelayCore> => {
    const core = await RelayCore.start([here, there])
    core.send(here, '#commit', core.commit())
    core.says(here, 'deactivated')
    await core.settled()
    core.crowd(there, others)
    return core
  }
  const assertMoved = (core: RelayCore): void =>
    assert.equal(core.account.sourceId, core.source(isFull ? here : there).id)

  test(`an account that comes to a host with ${others} others is ${isFull ? 'refused' : 'taken in'}`, async () => {
    await using core = await start()
    core.home = there
    await core.pass(1)
    core.says(there)
    await core.settled()
    assert.deepEqual(core.refused, isFull ? [`${there} over-quota`] : [])
    assertMoved(core)
  })

  test(`an account that a host with ${others} others has when it is asked is ${isFull ? 'not taken in' : 'taken in'}`, async () => {
    await using core = await start()
    core.says(there)
    await core.settled()
    assert.deepEqual(core.refused, [`${there} wrong-host`])
    core.home = there
    await core.pass(120)
    assertMoved(core)
  })
}
