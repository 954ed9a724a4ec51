import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { commitBody, syncBody, tidAt } from '@tributary/testkit'
import { RelayCore } from './relay-core.ts'

const [here, there, elsewhere] = ['here.example.com', 'there.example.com', 'elsewhere.example.com'] as const
const [relay, unread] = ['relay.example.com', 'unread.example.com'] as const

/** What goes wrong around a commit, after which nobody says anything more. */
const ways: Record<string, (core: RelayCore) => Promise<void>> = {
  'the directory was away when the new host of an account spoke': async (core) => {
    core.isDirectoryAway = true
    core.home = there
    core.send(there, '#commit', core.commit())
    await core.pass(5)
    assert.deepEqual(core.refused, [`${there} identity-unavailable`])
    core.isDirectoryAway = false
  },
  'the clock of the relay was an hour behind': async (core) => {
    const body = core.commit()
    const clock = mock.method(Date, 'now', () => core.clock.nowMs() - 3_600_000)
    core.send(here, '#commit', body)
    await core.settled()
    clock.mock.restore()
    assert.deepEqual(core.refused, [`${here} future-rev`])
  },
  'the directory named the old host when the new one spoke': async (core) => {
    core.send(there, '#commit', core.commit())
    await core.settled()
    assert.deepEqual(core.refused, [`${there} wrong-host`])
    core.home = there
  },
  'the directory did not know the account for a moment': async (core) => {
    core.home = undefined
    core.send(here, '#identity', { did: core.did })
    core.send(here, '#commit', core.commit())
    await core.settled()
    assert.deepEqual(core.refused, [`${here} identity-not-found`, `${here} identity-not-found`])
    core.home = here
  },
  'the directory did not know the account when its new host spoke': async (core) => {
    core.home = undefined
    core.send(there, '#commit', core.commit())
    await core.settled()
    assert.deepEqual(core.refused, [`${there} identity-not-found`])
    core.home = there
  },
  'the directory named a wrong host for a moment': async (core) => {
    core.home = elsewhere
    core.repoAt = here
    core.send(here, '#identity', { did: core.did })
    core.send(here, '#commit', core.commit())
    await core.pass(5)
    assert.deepEqual(core.refused, [`${here} wrong-host`, `${here} wrong-host`])
    core.home = here
  },
  'the directory named a host that is not read for a moment': async (core) => {
    core.home = 'unread.example.com'
    core.send(here, '#identity', { did: core.did })
    core.send(here, '#commit', core.commit())
    await core.pass(5)
    assert.deepEqual(core.refused, [`${here} wrong-host`, `${here} wrong-host`])
    core.home = here
  },
  'it did not say which state it continues': async (core) => {
    const { prevData: _, ...commit } = core.commit()
    core.send(here, '#commit', commit)
    await core.settled()
    assert.deepEqual(core.refused, [`${here} missing-prev-data`])
  },
  'it could not be taken while the directory named a host that is not read': async (core) => {
    core.home = 'unread.example.com'
    core.repoAt = here
    core.send(here, '#commit', { ...core.commit(), tooBig: true })
    await core.pass(5)
    assert.deepEqual(core.refused, [`${here} deprecated-flag`])
    core.home = here
  },
  'the old host is late, and the new one silent': async (core) => {
    const late = core.commit()
    core.home = there
    // An event of another host makes us read the document.
    core.says(elsewhere)
    await core.settled()
    core.send(here, '#commit', late)
    await core.settled()
    assert.ok(core.refused.includes(`${here} wrong-host`))
  },
  'the old host is late, and the new one says only that the account is active': async (core) => {
    const late = core.commit()
    core.home = there
    core.says(there)
    await core.settled()
    core.send(here, '#commit', late)
  },
  'the account was at the sender for a moment, and is back': async (core) => {
    core.send(there, '#commit', core.commit())
    await core.settled()
    core.says(here)
    await core.settled()
  },
  'the directory named the old host again, which says that the account is gone': async (core) => {
    core.home = there
    core.says(there)
    core.send(there, '#commit', core.commit())
    await core.pass(120)
    core.repoAt = there
    core.home = here
    core.says(here, 'deleted')
    await core.pass(3)
    assert.equal(core.account.upstreamStatus, 'deleted')
    // What nobody hears of is in the next `#sync`, which shows that one comes.
    core.commit()
    core.home = there
  },
  'the directory named the old host for two minutes, which said that the account has left it': async (
    core,
  ) => {
    core.repoAt = there
    core.send(there, '#commit', core.commit())
    await core.settled()
    core.says(here, 'deactivated')
    await core.pass(150)
    core.home = there
  },
  'the account was at the sender for a moment, and has moved on': async (core) => {
    core.home = elsewhere
    core.send(there, '#commit', core.commit())
    await core.settled()
    assert.deepEqual(core.refused, [`${there} wrong-host`])
  },
}

for (const [what, happens] of Object.entries(ways))
  test(`a commit that was left out is made up for within a minute when ${what}`, async () => {
    await using core = await RelayCore.start([here, there, elsewhere])
    core.send(here, '#commit', core.commit())
    await core.settled()
    await core.pass(120)
    await happens(core)
    await core.untilSync()
    assert.equal(core.account.upstreamStatus, 'active')
  })

for (const [what, happens] of Object.entries(ways))
  test(`a commit that was left out is made up for after a kill, too, when ${what}`, async () => {
    await using core = await RelayCore.start([here, there, elsewhere])
    core.send(here, '#commit', core.commit())
    await core.settled()
    await core.pass(120)
    await happens(core)
    await core.writeState()
    await core.kill({ isAnyoneSending: false })
    await core.untilSync()
    assert.equal(core.account.upstreamStatus, 'active')
  })

test("a host that has nothing to do with an account makes us ask the account's host now and then, and nothing comes of it", async () => {
  await using core = await RelayCore.start([here, there])
  core.send(here, '#commit', core.commit())
  await core.settled()
  await core.pass(120)
  const forged = commitBody(
    core.repo.draft([{ action: 'create', collection: 'a.b.c', rkey: 'x', record: {} }]),
  )
  for (let second = 0; second < 60; second++) {
    core.says(there, 'deleted')
    core.send(there, '#commit', forged)
    await core.pass(1)
  }
  await core.settled()
  assert.ok(core.asked <= 5, `asked ${core.asked} times`)
  assert.deepEqual([core.account.isIncomplete, core.account.isDesynchronized], [false, false])
  assert.equal((await core.told()).length, 1)
})

for (const status of ['deleted', 'active'] as const)
  test(`the host that an account has left in silence cannot say that it is ${status}`, async () => {
    await using core = await RelayCore.start([here, there])
    core.areHostsSilent = true
    core.send(here, '#commit', core.commit())
    if (status === 'active') core.says(here, 'deactivated')
    await core.settled()
    await core.pass(120)
    const before = await core.told()
    core.home = there
    core.says(here, ...(status === 'active' ? [] : [status]))
    await core.settled()
    assert.deepEqual(core.refused, [`${here} wrong-host`])
    assert.deepEqual(await core.told(), before)
  })

test('an account may change its status again and again, and no change waits for the one before', async () => {
  await using core = await RelayCore.start([here])
  core.areHostsSilent = true
  core.send(here, '#commit', core.commit())
  await core.settled()
  await core.pass(120)
  const said = Array.from({ length: 8 }, (_, n) => (n % 2 === 0 ? 'deactivated' : undefined))
  for (const status of said) {
    await core.clock.pass(100)
    core.says(here, status)
    await core.settled()
    assert.equal(core.account.upstreamStatus, status ?? 'active')
  }
})

test('a commit of a host whose clock is ahead of ours leaves a mark on its account', async () => {
  await using core = await RelayCore.start([here])
  core.send(here, '#commit', core.commit())
  await core.settled()
  const rev = tidAt((Date.now() + 600_000) * 1000)
  core.send(here, '#commit', commitBody(core.repo.commit([], rev)))
  await core.settled()
  assert.deepEqual([core.refused, core.account.isIncomplete], [[`${here} future-rev`], true])
})

/** What goes wrong around a commit that another relay forwards, after which nobody says anything more. */
const forwarded: Record<string, (core: RelayCore) => Promise<void>> = {
  'the directory named a host that is read for a moment': async (core) => {
    core.home = core.repoAt = unread
    core.says(here, 'deactivated')
    await core.settled()
    core.send(relay, '#commit', core.commit())
    await core.settled()
    assert.equal(core.account.sourceId, core.source(relay).id)
    await core.pass(120)
    core.home = here
    core.send(relay, '#identity', { did: core.did })
    core.send(relay, '#commit', core.commit())
    await core.settled()
    assert.ok(core.refused.includes(`${relay} direct-source`))
    core.home = unread
  },
  'the directory was away when the account had left a host that is read': async (core) => {
    core.home = unread
    core.isDirectoryAway = true
    core.send(here, '#identity', { did: core.did })
    core.send(relay, '#commit', core.commit())
    await core.pass(5)
    assert.ok(core.refused.includes(`${relay} identity-unavailable`), core.refused.join())
    core.isDirectoryAway = false
  },
}

for (const [what, happens] of Object.entries(forwarded))
  test(`a commit that another relay forwards is made up for within a minute when ${what}`, async () => {
    await using core = await RelayCore.start([here, relay])
    core.send(here, '#commit', core.commit())
    await core.settled()
    await core.pass(120)
    await happens(core)
    await core.untilSync()
    assert.equal(core.account.sourceId, core.source(relay).id)
  })

test('what a relay forwards of an account that is read directly makes us ask nobody', async () => {
  await using core = await RelayCore.start([here, relay])
  core.send(here, '#commit', core.commit())
  await core.settled()
  await core.pass(120)
  core.send(relay, '#commit', core.commit())
  await core.pass(60)
  assert.deepEqual([core.refused, core.asked], [[`${relay} direct-source`], 0])
})

test('a host that an account has left does not get it back because the new host calls it active', async () => {
  await using core = await RelayCore.start([here, there])
  core.send(here, '#commit', core.commit())
  core.says(here, 'deactivated')
  await core.settled()
  const told = await core.told()
  await core.pass(1)
  core.home = there
  core.send(here, '#commit', core.commit())
  await core.settled()
  assert.deepEqual(core.refused, [`${here} wrong-host`])
  assert.deepEqual(await core.told(), [...told, '#account active'])
  assert.equal(core.account.sourceId, core.source(there).id)
})

test('a #sync of an account that was inactive passes, though it says what is known, and only once', async () => {
  await using core = await RelayCore.start([here])
  core.areHostsSilent = true
  core.send(here, '#commit', core.commit())
  core.says(here, 'deactivated')
  core.says(here)
  await core.settled()
  const told = await core.told()
  const { did, repo } = core
  const sync = syncBody(did, repo.rev ?? '', repo.head)
  for (let times = 0; times < 2; times++) core.send(here, '#sync', sync)
  await core.settled()
  assert.deepEqual(await core.told(), [...told, `#sync ${repo.rev}`])
})

test('an account that misses something at a host that nobody brings stays marked', async () => {
  await using core = await RelayCore.start([here, there])
  core.send(here, '#commit', core.commit())
  await core.settled()
  core.home = elsewhere
  core.send(here, '#commit', { ...core.commit(), ops: [] })
  await core.pass(900)
  assert.equal(core.account.isIncomplete, true)
})

test('a clock that was ahead while an account was to be made whole does not put that off', async () => {
  await using core = await RelayCore.start([here])
  core.areHostsSilent = true
  const tenDaysMs = 10 * 86_400_000
  core.clock.setBack(-tenDaysMs)
  core.send(here, '#commit', { ...core.commit(), tooBig: true })
  await core.pass(60)
  core.clock.setBack(tenDaysMs)
  core.areHostsSilent = false
  await core.untilSync()
})

test('what a relay says of an account that another one brings has its document looked at no more often', async () => {
  const other = 'relay2.example.com'
  await using core = await RelayCore.start([relay, other])
  core.home = core.repoAt = unread
  core.send(relay, '#commit', core.commit())
  await core.settled()
  await core.pass(120)
  core.says(other, 'deactivated')
  await core.settled()
  const { documentsRead } = core
  await core.pass(300)
  assert.deepEqual([core.refused, core.documentsRead], [[`${other} unconfirmed-status`], documentsRead])
})
