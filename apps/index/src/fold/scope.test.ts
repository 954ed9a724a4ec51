/** Who is in whose scope: follows, endorsements, organizations. feed.md sections 4 and 5. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { feedCollections } from '@tributary/protocol'
import { cidOf, day, did, Scenario } from '../../tests/scenario.ts'

const { award, definition, follow, organization, response } = feedCollections

const aDid = { $type: 'app.attested.defs#did', did: did('A') }

async function define(world: Scenario, author: string, fields: Record<string, unknown> = {}) {
  return await world.put(author, definition, 'def', { title: 'Grower', badgeType: 'endorsement', ...fields })
}

/** E awards A with E's own endorsement badge. */
async function endorse(world: Scenario, fields: Record<string, unknown> = {}) {
  const badge = await define(world, 'E')
  return await world.put('E', award, 'awd', {
    badge,
    subject: aDid,
    createdAt: `${day}T10:00:00Z`,
    ...fields,
  })
}

async function answer(
  world: Scenario,
  author: string,
  rkey: string,
  badgeAward: unknown,
  given: unknown,
  time: string,
) {
  await world.put(author, response, rkey, { badgeAward, response: given, createdAt: `${day}T${time}Z` })
}

test('a follow counts when its subject is a DID, and goes with its record (cases 63, 64, 67)', async () => {
  await using world = await Scenario.start()
  await world.put('V', follow, 'a', { subject: did('A') })
  await world.put('V', follow, 'b', { subject: did('A') })
  await world.put('V', follow, 'c', { subject: 'alice.test' })
  await world.put('V', follow, 'd', { subject: { did: did('B') } })
  await world.put('V', follow, 'e', { subject: `did:web:${'a'.repeat(2041)}` })
  await world.put('V', 'app.attested.graph.entityFollow', 'f', { subject: did('B') })
  assert.deepEqual(await world.follows(), ['V A', 'V A'])
  await world.delete('V', follow, 'a')
  assert.deepEqual(await world.follows(), ['V A'])
  await world.put('V', follow, 'b', { subject: did('B') })
  assert.deepEqual(await world.follows(), ['V B'])
  await world.put('V', follow, 'b', { subject: 7 })
  assert.deepEqual(await world.follows(), [])
})

test('an award of an endorsement badge endorses and is an entry', async () => {
  await using world = await Scenario.start()
  await endorse(world)
  assert.deepEqual(await world.endorsements(), ['E A'])
  assert.deepEqual(await world.entries(), ['endorsement.award awd'])
})

test('case 84: an award without createdAt endorses all the same', async () => {
  await using world = await Scenario.start()
  await endorse(world, { createdAt: undefined })
  assert.deepEqual(await world.endorsements(), ['E A'])
  assert.deepEqual(await world.entries(), ['endorsement.award awd'])
})

test('cases 73 to 75: awards to records, to other shapes and to oneself are no endorsements', async () => {
  await using world = await Scenario.start()
  const badge = await define(world, 'E')
  const subjects = [
    {
      $type: 'com.atproto.repo.strongRef',
      uri: `at://${did('A')}/org.impact.claim.activity/x`,
      cid: cidOf(1),
    },
    { $type: 'app.attested.defs#other', did: did('A') },
    { did: did('A') },
    { $type: 'app.attested.defs#did', did: 'alice.test' },
    { $type: 'app.attested.defs#did', did: did('E') },
    did('A'),
    undefined,
  ]
  for (const [i, subject] of subjects.entries()) await world.put('E', award, `awd${i}`, { badge, subject })
  assert.deepEqual(await world.endorsements(), [])
  assert.deepEqual(await world.entries(), [])
})

test('case 76: an edited definition breaks its awards until they name the new content', async () => {
  await using world = await Scenario.start()
  const given = await endorse(world)
  const edited = await define(world, 'E', { title: 'Gardener' })
  assert.deepEqual(await world.endorsements(), [])
  assert.deepEqual(await world.entries(), [])
  await world.put('E', award, 'awd', { badge: edited, subject: aDid })
  assert.deepEqual(await world.endorsements(), ['E A'])
  assert.equal(given.uri, `at://${did('E')}/${award}/awd`)
})

test('an award may come before its definition, and goes with it', async () => {
  await using world = await Scenario.start()
  const content = { title: 'Grower', badgeType: 'endorsement' }
  const badge = { uri: `at://${did('E')}/${definition}/def`, cid: cidOf({ $type: definition, ...content }) }
  await world.put('E', award, 'awd', { badge, subject: aDid })
  assert.deepEqual(await world.endorsements(), [])
  await world.put('E', definition, 'def', content)
  assert.deepEqual(await world.endorsements(), ['E A'])
  await world.delete('E', definition, 'def')
  assert.deepEqual(await world.endorsements(), [])
})

test('a badge that is not a definition record is none', async () => {
  await using world = await Scenario.start()
  const badge = await world.put('E', 'org.impact.collection', 'def', { badgeType: 'endorsement' })
  await world.put('E', award, 'awd', { badge, subject: aDid })
  await world.put('E', award, 'awd2', { badge: badge.uri, subject: aDid })
  assert.deepEqual(await world.endorsements(), [])
})

test('case 77: only the badge type endorsement endorses', async () => {
  await using world = await Scenario.start()
  const badge = await define(world, 'E', { badgeType: 'recognition' })
  await world.put('E', award, 'awd', { badge, subject: aDid })
  assert.deepEqual(await world.endorsements(), [])
})

/** Who endorses C when A and E award a badge that B has defined with these fields. */
async function issuersUnder(fields: Record<string, unknown>): Promise<string[]> {
  await using world = await Scenario.start()
  const badge = await define(world, 'B', fields)
  for (const issuer of ['A', 'E']) {
    await world.put(issuer, award, 'awd', {
      badge,
      subject: { $type: 'app.attested.defs#did', did: did('C') },
    })
  }
  return await world.endorsements()
}

test('cases 78 and 79: a definition of another account counts for the issuers it allows', async () => {
  assert.deepEqual(await issuersUnder({}), ['A C', 'E C'])
  assert.deepEqual(await issuersUnder({ allowedIssuers: [{ did: did('A') }] }), ['A C'])
  assert.deepEqual(await issuersUnder({ allowedIssuers: [did('E')] }), ['E C'])
  assert.deepEqual(await issuersUnder({ allowedIssuers: [] }), [])
  assert.deepEqual(await issuersUnder({ allowedIssuers: null }), [])
  assert.deepEqual(await issuersUnder({ allowedIssuers: { did: did('A') } }), [])
})

test('case 80: a rejection by the subject ends the endorsement, its deletion restores it', async () => {
  await using world = await Scenario.start()
  const given = await endorse(world)
  await answer(world, 'A', 'no', given, 'rejected', '11:00:00')
  assert.deepEqual(await world.endorsements(), [])
  assert.deepEqual(await world.entries(), [])
  await world.delete('A', response, 'no')
  assert.deepEqual(await world.endorsements(), ['E A'])
})

test('case 81: the newest answer by feed time counts, not the last to arrive', async () => {
  await using world = await Scenario.start()
  const given = await endorse(world)
  await answer(world, 'A', 'a', given, 'accepted', '12:00:00')
  world.now = `${day}T12:00:01Z`
  await answer(world, 'A', 'b', given, 'rejected', '11:00:00')
  assert.deepEqual(await world.endorsements(), ['E A'])
})

test('answers of one feed time stand by index time, then by address', async () => {
  await using world = await Scenario.start()
  const given = await endorse(world)
  world.now = `${day}T12:00:00Z`
  await answer(world, 'A', 'b', given, 'rejected', '11:00:00')
  world.now = `${day}T12:00:01Z`
  await answer(world, 'A', 'a', given, 'accepted', '11:00:00')
  assert.deepEqual(await world.endorsements(), ['E A'])
  await answer(world, 'A', 'c', given, 'rejected', '11:00:00')
  assert.deepEqual(await world.endorsements(), [])
})

test('cases 82 and 83: answers to an old content, by others, or without a word have no effect', async () => {
  await using world = await Scenario.start()
  const given = await endorse(world)
  await answer(world, 'A', 'old', { uri: given.uri, cid: cidOf('old') }, 'rejected', '11:00:00')
  await answer(world, 'B', 'other', given, 'rejected', '11:00:00')
  await answer(world, 'A', 'empty', given, '', '11:00:01')
  await answer(world, 'A', 'number', given, 7, '11:00:02')
  assert.deepEqual(await world.endorsements(), ['E A'])
})

test('an edited award leaves the answers to its old content behind', async () => {
  await using world = await Scenario.start()
  const given = await endorse(world)
  await answer(world, 'A', 'no', given, 'rejected', '11:00:00')
  const badge = {
    uri: `at://${did('E')}/${definition}/def`,
    cid: cidOf({ $type: definition, title: 'Grower', badgeType: 'endorsement' }),
  }
  await world.put('E', award, 'awd', { badge, subject: aDid, note: 'again' })
  assert.deepEqual(await world.endorsements(), ['E A'])
})

test('case 90: only the key self makes an organization, whatever it holds', async () => {
  await using world = await Scenario.start()
  await world.put('A', organization, 'profile', { name: 'Orchard' })
  await world.put('O', organization, 'self', { anything: true })
  assert.deepEqual(await world.organizations(), ['O'])
  await world.delete('A', organization, 'profile')
  await world.delete('O', organization, 'self')
  assert.deepEqual(await world.organizations(), [])
})
