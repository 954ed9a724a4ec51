/** What the states of accounts do to the index: feed.md 4.3, design.md section 5. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseDatetime } from '@tributary/index-store'
import { feedCollections } from '@tributary/protocol'
import { accountEvent, day, did, putEvent, Scenario, syncEvent } from '../../tests/scenario.ts'

const { activity, award, collection, definition, evaluation, follow, organization, response } =
  feedCollections

/** A with an entry of each making, follows and an organization; E, who endorses A by a badge of B. */
async function populated(): Promise<Scenario> {
  const world = await Scenario.start()
  await world.put('A', evaluation, 'eval', {})
  const listed = await world.put('A', activity, 'act', {})
  await world.put('A', collection, 'coll', { items: [{ itemIdentifier: listed }] })
  await world.put('A', follow, 'f', { subject: did('B') })
  await world.put('A', organization, 'self', {})
  const badge = await world.put('B', definition, 'def', { badgeType: 'endorsement' })
  await world.put('E', award, 'awd', { badge, subject: { $type: 'app.attested.defs#did', did: did('A') } })
  return world
}

const whole = ['endorsement.award awd', 'evaluation.create eval', 'project.created_with_cert coll']

async function shown(world: Scenario) {
  return {
    entries: (await world.entries()).toSorted(),
    follows: await world.follows(),
    organizations: await world.organizations(),
  }
}

async function places(world: Scenario): Promise<string[]> {
  const rows = await world.rows('records')
  return rows.map(({ uri, indexedAt, createdAt }) => `${uri} ${indexedAt} ${createdAt}`).toSorted()
}

async function tables(world: Scenario, name: string): Promise<string[]> {
  const found: string[] = []
  for (const table of ['records', 'collectionItems', 'awards', 'responses', 'superseded'] as const) {
    const rows = await world.rows(table)
    const uris = rows.map((row) => ('uri' in row ? row.uri : row.collectionUri))
    if (uris.some((uri) => uri.startsWith(`at://${did(name)}/`))) found.push(table)
  }
  return found
}

for (const status of ['deactivated', 'takendown', 'suspended', 'somethingNew', 'active', undefined]) {
  test(`an account that is not active, with status ${status}, is hidden, and back as it was when active`, async () => {
    await using world = await populated()
    await world.account('A', false, status)
    assert.deepEqual(await shown(world), {
      entries: ['endorsement.award awd'],
      follows: [],
      organizations: [],
    })
    await world.account('A', true)
    assert.deepEqual(await shown(world), { entries: whole, follows: ['A B'], organizations: ['A'] })
  })
}

test('what an account writes and deletes while hidden shows when it is back', async () => {
  await using world = await populated()
  await world.account('A', false, 'deactivated')
  await world.put('A', evaluation, 'new', {})
  await world.delete('A', evaluation, 'eval')
  assert.deepEqual(await world.entries(), ['endorsement.award awd'])
  await world.account('A', true)
  assert.deepEqual((await world.entries()).toSorted(), [
    'endorsement.award awd',
    'evaluation.create new',
    'project.created_with_cert coll',
  ])
})

test('a hidden account takes its badges and its answers with it', async () => {
  await using world = await populated()
  await world.account('B', false, 'takendown')
  assert.deepEqual(await world.endorsements(), [])
  await world.account('B', true)
  assert.deepEqual(await world.endorsements(), ['E A'])
  const given = (await world.rows('records')).find(({ uri }) => uri.endsWith('/awd'))
  const badgeAward = { uri: given?.uri, cid: given?.cid }
  await world.put('A', response, 'no', { badgeAward, response: 'rejected' })
  assert.deepEqual(await world.endorsements(), [])
  await world.account('A', false, 'deactivated')
  assert.deepEqual(await world.endorsements(), ['E A'])
  await world.account('A', true)
  assert.deepEqual(await world.endorsements(), [])
})

test('a deleted account leaves nothing of its own, and may begin again', async () => {
  await using world = await populated()
  await world.connection.write((batch) => batch.put('handles', [{ did: did('A'), handle: 'a.test' }]))
  await world.account('A', false, 'deleted')
  assert.deepEqual(await shown(world), { entries: ['endorsement.award awd'], follows: [], organizations: [] })
  assert.deepEqual(await tables(world, 'A'), [])
  assert.deepEqual(await world.rows('handles'), [])
  await world.put('A', evaluation, 'stray', {})
  assert.deepEqual(await world.entries(), ['endorsement.award awd'])
  await world.account('A', true)
  assert.deepEqual((await world.entries()).toSorted(), ['endorsement.award awd', 'evaluation.create stray'])
})

test('events of accounts that the index has nothing of leave no row', async () => {
  await using world = await Scenario.start()
  await world.account('A', true)
  await world.account('E', false, 'deactivated')
  await world.account('E', true)
  await world.identity('B')
  await world.sync('C')
  await world.delete('D', evaluation, 'x')
  for (const table of ['accounts', 'handleRequests', 'superseded'] as const) {
    assert.deepEqual(await world.rows(table), [], table)
  }
})

test('an account that was taken down before its first record is not shown with it', async () => {
  for (const status of ['takendown', 'deactivated', 'deleted']) {
    await using world = await Scenario.start()
    await world.account('A', false, status)
    await world.put('A', evaluation, 'eval', {})
    assert.deepEqual(await world.entries(), [], status)
    await world.account('A', true)
    assert.deepEqual(await world.entries(), ['evaluation.create eval'], status)
  }
})

test('awards and follows do not make us look up the accounts that they name', async () => {
  await using world = await Scenario.start()
  const badge = await world.put('E', definition, 'def', { badgeType: 'endorsement' })
  for (const name of ['X', 'Y']) {
    const subject = { $type: 'app.attested.defs#did', did: did(name) }
    await world.put('E', award, `awd${name}`, { badge, subject })
    await world.put('E', follow, `f${name}`, { subject: did(name) })
  }
  assert.deepEqual(await world.endorsements(), ['E X', 'E Y'])
  for (const table of ['accounts', 'handleRequests'] as const) {
    const rows = await world.rows(table)
    assert.deepEqual(
      rows.map((row) => row.did),
      [did('E')],
      table,
    )
  }
})

test('of an inactive account without records the state is kept, and nothing is asked', async () => {
  await using world = await Scenario.start()
  await world.account('A', false, 'takendown')
  await world.identity('A')
  const dids = async (table: 'accounts' | 'handleRequests') => (await world.rows(table)).map((row) => row.did)
  assert.deepEqual([await dids('accounts'), await dids('handleRequests')], [[did('A')], []])
  await world.put('A', evaluation, 'eval', {})
  assert.deepEqual(await dids('handleRequests'), [did('A')])
})

test('the handle is asked for when an account is first met and at each identity event', async () => {
  await using world = await populated()
  const requests = async () =>
    (await world.rows('handleRequests')).map((row) => `${row.did} ${row.seq}`).toSorted()
  assert.deepEqual(await requests(), [`${did('A')} 0`, `${did('B')} 0`, `${did('E')} 0`])
  await world.identity('A')
  assert.deepEqual((await requests())[0], `${did('A')} 8`)
})

test('a sync marker takes away what came before it; what follows returns to its old place', async () => {
  await using world = await populated()
  await world.put('A', evaluation, 'dated', { createdAt: `${day}T10:00:00Z` })
  const before = await places(world)
  world.now = `${day}T18:00:00.000000Z`
  await world.sync('A')
  await world.sync('A')
  assert.deepEqual(await shown(world), { entries: ['endorsement.award awd'], follows: [], organizations: [] })
  for (const event of world.log.filter((e) => e.kind === 'commit' && e.did === did('A'))) {
    await world.send({ ...event, seq: world.nextSeq(), time: world.now })
  }
  const after = await places(world)
  assert.deepEqual(after, before)
  assert.deepEqual(await world.follows(), ['A B'])
  assert.deepEqual(await world.rows('superseded'), [])
})

test('a record that comes back more than a week after a sync marker starts fresh, whenever it is read', async () => {
  for (const [time, expected] of [
    [`2026-03-11T12:00:00.000000Z`, `${day}T10:00:00Z`],
    [`2026-03-11T12:00:00.000001Z`, `${day}T11:00:00Z`],
  ] as const) {
    await using world = await Scenario.start()
    await world.put('A', evaluation, 'eval', { createdAt: `${day}T10:00:00Z` })
    await world.sync('A')
    world.now = time
    await world.put('A', evaluation, 'eval', { createdAt: `${day}T11:00:00Z` })
    const [entry] = await world.rows('entries')
    assert.equal(entry?.feedTime, parseDatetime(expected))
  }
})

test('a sync marker from upstream is an announcement: what is stored stays until the stream replaces it', async () => {
  await using world = await populated()
  await world.account('A', false, 'deactivated')
  await world.account('A', true)
  await world.sync('A', 'upstream')
  assert.deepEqual((await world.entries()).toSorted(), whole)
})

test('a record that does not come back after a sync marker is gone', async () => {
  await using world = await populated()
  await world.sync('A')
  await world.put('A', evaluation, 'eval', {})
  assert.deepEqual((await world.entries()).toSorted(), ['endorsement.award awd', 'evaluation.create eval'])
  await world.delete('A', evaluation, 'eval')
  await world.put('A', activity, 'act', { title: 'changed' })
  assert.deepEqual((await world.entries()).toSorted(), ['cert.create act', 'endorsement.award awd'])
})

test("an account's host can hide it and bring it back, but not undo a takedown", async () => {
  await using world = await populated()
  const says = async (status: string) =>
    world.fold.setHostStatus(did('A'), (await world.fold.statusSeq(did('A'))) ?? 0n, status)
  assert.equal(await says('deactivated'), true)
  assert.deepEqual(await world.entries(), ['endorsement.award awd'])
  assert.equal(await says('active'), true)
  assert.deepEqual((await world.entries()).toSorted(), whole)
  await world.account('A', false, 'deactivated')
  assert.equal(await says('active'), true, 'a reactivation was missed')
  await world.account('A', false, 'takendown')
  assert.equal(await says('active'), false)
  assert.deepEqual(await world.entries(), ['endorsement.award awd'])
})

for (const status of ['takendown', 'suspended', 'deactivated', 'deleted'])
  test(`an account that was ${status} is back with the marker that the stream writes for it`, async () => {
    await using world = await populated()
    await world.account('A', false, status)
    await world.sync('A', 'upstream')
    assert.deepEqual(await world.entries(), ['endorsement.award awd'])
    await world.sync('A')
    await world.put('A', evaluation, 'new', {})
    assert.deepEqual((await world.entries()).toSorted(), ['endorsement.award awd', 'evaluation.create new'])
    assert.ok((await world.rows('handleRequests')).some((request) => request.did === did('A')))
  })

test('an account that is back by a marker stays so when an event of the same batch says it once more', async () => {
  await using world = await populated()
  const events = [
    accountEvent(world.nextSeq(), world.now, 'A', false, 'takendown'),
    syncEvent(world.nextSeq(), world.now, 'A'),
    putEvent(world.nextSeq(), world.now, 'A', evaluation, 'new', {}).event,
    accountEvent(world.nextSeq(), world.now, 'A', true),
  ]
  await world.fold.apply('stream:test', events, world.nextSeq())
  assert.deepEqual((await world.entries()).toSorted(), ['endorsement.award awd', 'evaluation.create new'])
})

for (const status of ['throttled', 'desynchronized']) {
  test(`an account that is ${status} at its relay or its host is shown, unless it is hidden besides`, async () => {
    await using world = await populated()
    const says = async (word: string) =>
      world.fold.setHostStatus(did('A'), (await world.fold.statusSeq(did('A'))) ?? 0n, word)
    await world.account('A', false, status)
    assert.deepEqual((await world.entries()).toSorted(), whole)
    assert.deepEqual(await world.follows(), ['A B'])
    assert.equal(await says(status), false)
    assert.equal(await says('deactivated'), true)
    assert.deepEqual(await world.entries(), ['endorsement.award awd'])
    assert.equal(await says(status), true)
    assert.deepEqual((await world.entries()).toSorted(), whole)
    await world.account('A', false, 'takendown')
    assert.equal(await says(status), false)
  })
}

test('an answer that the stream has overtaken is dropped', async () => {
  await using world = await populated()
  const seq = (await world.fold.statusSeq(did('A'))) ?? 0n
  await world.account('A', true)
  assert.equal(await world.fold.setHostStatus(did('A'), seq, 'deactivated'), false)
  assert.deepEqual((await world.entries()).toSorted(), whole)
})
