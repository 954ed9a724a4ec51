import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { commit, gives, hangs, isUseless, Ward, type Behaviour } from '../../tests/healing-ward.ts'

const evilHosts = Array.from({ length: 8 }, (_, n) => `evil${n}`)

/** Hosts behind a relay that behave so, with as many accounts as may wait because of the relay. */
function fullRelay(evil: Behaviour, others: Record<string, Behaviour> = {}): Ward {
  const ward = new Ward({
    ...Object.fromEntries(evilHosts.map((host) => [host, evil])),
    good: gives,
    ...others,
  })
  for (const host of evilHosts) ward.mark(500, host, 'relay')
  return ward
}

/** Is of no use for all accounts but those that are told. */
function usefulFor(dids: Set<Did>): Behaviour {
  return async (_, { did }) => Promise.resolve(dids.has(did) ? commit : undefined)
}

test('accounts of hosts behind a relay that give nothing do not keep accounts of others from waiting', async () => {
  const ward = fullRelay(isUseless)
  await ward.clock.pass(20_000)
  assert.equal(ward.healing.size, 4000)
  const dids = ward.mark(10, 'good', 'relay')
  await ward.clock.pass(20_000)
  assert.equal(dids.filter((did) => ward.whole.has(did)).length, dids.length)
})

test('accounts of which hosts answer slowly do not keep accounts of others from waiting, however fast more come', async () => {
  const ward = fullRelay(async (clock) => {
    await clock.sleep(8000)
    return undefined
  })
  const dids = ward.mark(10, 'good', 'relay')
  for (let n = 0; n < 40; n++) {
    for (const host of evilHosts) ward.mark(500, host, 'relay')
    await ward.clock.pass(1000)
  }
  assert.equal(dids.filter((did) => ward.whole.has(did)).length, dids.length)
  assert.ok(ward.healing.size <= 4000)
})

test('accounts of a host that is away do not give way while hosts of others gave answers of no use', async () => {
  const ward = fullRelay(isUseless, { away: hangs })
  await ward.clock.pass(20_000)
  const dids = ward.mark(100, 'away', 'relay')
  await ward.clock.pass(60_000)
  ward.mark(300, 'good', 'relay')
  assert.deepEqual([ward.givenUp.length, dids.filter((did) => ward.healing.has(did)).length], [400, 100])
})

test('accounts of hosts that are away do not keep accounts of others from waiting', async () => {
  const ward = fullRelay(hangs)
  await ward.clock.pass(20_000)
  const dids = ward.mark(8, 'good', 'relay')
  await ward.clock.pass(20_000)
  assert.deepEqual([dids.filter((did) => ward.whole.has(did)).length, ward.givenUp.length], [8, 8])
})

test('accounts of a PDS for which it gives nothing do not keep its others from waiting', async () => {
  const honest = new Set<Did>()
  const ward = new Ward({ pds: usefulFor(honest) })
  ward.mark(2000, 'pds')
  await ward.clock.pass(60_000)
  const did = 'did:plc:honest' as Did // a name is enough here
  honest.add(did)
  ward.markOne(did, 'pds', 'pds', true)
  await ward.clock.pass(30_000)
  assert.deepEqual([ward.whole.has(did), ward.givenUp.length], [true, 1])
})

test('accounts that are held back do not keep others of their PDS from waiting', async () => {
  const ward = new Ward({ pds: gives })
  ward.notBeforeMs = ward.clock.nowMs() + 3_600_000
  ward.mark(2000, 'pds')
  ward.notBeforeMs = 0
  const did = 'did:plc:other' as Did // a name is enough here
  ward.markOne(did, 'pds', 'pds', true)
  await ward.clock.pass(10_000)
  assert.ok(ward.whole.has(did))
})

test('an account whose document is read only now finds a place at its host, for whose others it gives nothing', async () => {
  const honest = new Set(['did:plc:honest' as Did]) // a name is enough here
  const ward = new Ward({ good: usefulFor(honest) })
  ward.mark(500, 'good', 'relay')
  await ward.clock.pass(60_000)
  for (const did of honest) ward.markOne(did, 'good', 'relay')
  await ward.clock.pass(30_000)
  assert.deepEqual([...ward.whole.keys()], [...honest])
})

test('what a sweep adds takes no place of an account that waits for half an hour, and has its turn later', async () => {
  const ward = new Ward({ pds: isUseless })
  ward.mark(2000, 'pds')
  const did = 'did:plc:swept' as Did // a name is enough here
  const sweep = (): boolean => {
    ward.isSweeping = true
    ward.markOne(did, 'pds', 'pds', true)
    return ward.healing.has(did)
  }
  await ward.clock.pass(2_400_000)
  assert.deepEqual([ward.healing.hasRoomFor(did, 'pds'), sweep(), ward.givenUp.length], [false, false, 0])
  await ward.clock.pass(3_600_000)
  assert.deepEqual([ward.healing.hasRoomFor(did, 'pds'), sweep(), ward.givenUp.length], [true, true, 1])
})

test('an account whose events are under way does not give way', async () => {
  const ward = new Ward({ pds: isUseless })
  ward.unread.add('nowhere')
  const dids = ward.mark(100, 'nowhere', 'pds')
  await ward.clock.pass(20_000)
  for (const did of dids.slice(0, 5)) {
    const account = ward.accounts.get(did)
    if (account) account.underWay = 1
  }
  for (let n = 0; n < 150; n++) ward.markOne(`did:plc:${n}` as Did, 'nowhere', 'pds', true) // a name is enough here
  assert.deepEqual(
    dids.filter((did) => ward.healing.has(did)),
    dids.slice(0, 5),
  )
  assert.equal(ward.healing.size, 100)
})

test('an account whose host is being asked does not give way', async () => {
  let isSlow = false
  const ward = new Ward({
    nowhere: async (clock) => {
      if (isSlow) await clock.sleep(8000)
      return undefined
    },
  })
  ward.unread.add('nowhere')
  ward.mark(100, 'nowhere', 'pds')
  await ward.clock.pass(20_000)
  isSlow = true
  const { length } = ward.asked
  for (let left = 1000; ward.asked.length === length && left > 0; left--) await ward.clock.pass(100)
  const asked = ward.asked.slice(length)
  for (let n = 0; n < 150; n++) ward.markOne(`did:plc:${n}` as Did, 'nowhere', 'pds', true) // a name is enough here
  assert.ok(asked.length > 0 && asked.every((did) => ward.healing.has(did)))
})

/** A few of a hundred accounts, which are all that may wait, were made whole just now. Their places are not free yet. */
async function fewWhole(): Promise<{ ward: Ward; dids: Did[]; whole: Did[] }> {
  const ward = new Ward({ nowhere: gives })
  ward.unread.add('nowhere')
  const dids = ward.mark(100, 'nowhere', 'pds')
  for (let left = 100; ward.whole.size < 4 && left > 0; left--) await ward.clock.pass(50)
  const whole = [...ward.whole.keys()]
  assert.ok(whole.length > 0 && whole.every((did) => ward.healing.has(did)))
  return { ward, dids, whole }
}

test('an account that was made whole is not given up when it gives way', async () => {
  const { ward, dids, whole } = await fewWhole()
  for (let n = 0; n < whole.length; n++) ward.markOne(`did:plc:${n}` as Did, 'nowhere', 'pds', true) // a name is enough here
  assert.deepEqual([dids.filter((did) => !ward.healing.has(did)), ward.givenUp], [whole, []])
})

test('an account that misses something again right after it was made whole does not give way', async () => {
  const { ward, whole } = await fewWhole()
  for (const did of whole) ward.missAgain(did, 'pds')
  for (let n = 0; n < whole.length; n++) ward.markOne(`did:plc:${n}` as Did, 'nowhere', 'pds', true) // a name is enough here
  assert.deepEqual([whole.filter((did) => ward.healing.has(did)), ward.givenUp], [whole, []])
})
