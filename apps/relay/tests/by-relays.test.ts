/** Accounts that other relays bring: two relays that read each other, a PDS that is not read any more, a host that is banned. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RelayCore } from './relay-core.ts'

const [there, relay, other] = ['there.example.com', 'relay.example.com', 'relay-two.example.com'] as const

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
