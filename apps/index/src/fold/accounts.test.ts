/** What the states of accounts do to the index: feed.md 4.3, design.md section 5. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseDatetime } from '@tributary/index-store'
import { collections } from './record-facts.ts'
import { day, did, Scenario } from '../../tests/scenario.ts'

const { activity, award, collection, definition, evaluation, follow, organization, response } = collections

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

function shown(world: Scenario) {
  return {
    entries: world.entries().toSorted(),
    follows: world.follows(),
    organizations: world.organizations(),
  }
}

function tables(world: Scenario, name: string): string[] {
  return ['records', 'collectionItems', 'awards', 'responses', 'superseded'].filter((table) => {
    const key = table === 'collectionItems' ? 'collectionUri' : 'uri'
    return world.connection.sqlite
      .prepare(`select 1 from ${table} where ${key} like ?`)
      .get(`at://${did(name)}/%`)
  })
}

for (const status of ['deactivated', 'takendown', 'suspended', 'somethingNew', undefined]) {
  test(`an account that is ${status ?? 'inactive'} is hidden, and back as it was when active`, async () => {
    await using world = await populated()
    await world.account('A', false, status)
    assert.deepEqual(shown(world), { entries: ['endorsement.award awd'], follows: [], organizations: [] })
    await world.account('A', true)
    assert.deepEqual(shown(world), { entries: whole, follows: ['A B'], organizations: ['A'] })
  })
}

test('what an account writes and deletes while hidden shows when it is back', async () => {
  await using world = await populated()
  await world.account('A', false, 'deactivated')
  await world.put('A', evaluation, 'new', {})
  await world.delete('A', evaluation, 'eval')
  assert.deepEqual(world.entries(), ['endorsement.award awd'])
  await world.account('A', true)
  assert.deepEqual(world.entries().toSorted(), [
    'endorsement.award awd',
    'evaluation.create new',
    'project.created_with_cert coll',
  ])
})

test('a hidden account takes its badges and its answers with it', async () => {
  await using world = await populated()
  await world.account('B', false, 'takendown')
  assert.deepEqual(world.endorsements(), [])
  await world.account('B', true)
  assert.deepEqual(world.endorsements(), ['E A'])
  const given = world.connection.sqlite
    .prepare<[], { uri: string; cid: string }>("select uri, cid from records where rkey = 'awd'")
    .get()
  await world.put('A', response, 'no', { badgeAward: given, response: 'rejected' })
  assert.deepEqual(world.endorsements(), [])
  await world.account('A', false, 'deactivated')
  assert.deepEqual(world.endorsements(), ['E A'])
  await world.account('A', true)
  assert.deepEqual(world.endorsements(), [])
})

test('a deleted account leaves nothing of its own, and may begin again', async () => {
  await using world = await populated()
  world.connection.sqlite.prepare('insert into handles values (?, ?)').run(did('A'), 'a.test')
  await world.account('A', false, 'deleted')
  assert.deepEqual(shown(world), { entries: ['endorsement.award awd'], follows: [], organizations: [] })
  assert.deepEqual(tables(world, 'A'), [])
  assert.equal(world.connection.sqlite.prepare('select 1 from handles').get(), undefined)
  await world.put('A', evaluation, 'stray', {})
  assert.deepEqual(world.entries(), ['endorsement.award awd'])
  await world.account('A', true)
  assert.deepEqual(world.entries().toSorted(), ['endorsement.award awd', 'evaluation.create stray'])
})

test('events of accounts that the index has nothing of leave no row', async () => {
  await using world = await Scenario.start()
  await world.account('A', true)
  await world.account('E', false, 'deactivated')
  await world.account('E', true)
  await world.identity('B')
  await world.sync('C')
  await world.delete('D', evaluation, 'x')
  for (const table of ['accounts', 'handleRequests', 'superseded']) {
    assert.equal(world.connection.sqlite.prepare(`select 1 from ${table}`).get(), undefined, table)
  }
})

test('an account that was taken down before its first record is not shown with it', async () => {
  for (const status of ['takendown', 'deactivated', 'deleted']) {
    await using world = await Scenario.start()
    await world.account('A', false, status)
    await world.put('A', evaluation, 'eval', {})
    assert.deepEqual(world.entries(), [], status)
    await world.account('A', true)
    assert.deepEqual(world.entries(), ['evaluation.create eval'], status)
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
  assert.deepEqual(world.endorsements(), ['E X', 'E Y'])
  for (const table of ['accounts', 'handleRequests']) {
    const rows = world.connection.sqlite.prepare(`select did from ${table}`).pluck().all()
    assert.deepEqual(rows, [did('E')], table)
  }
})

test('of an inactive account without records the state is kept, and nothing is asked', async () => {
  await using world = await Scenario.start()
  await world.account('A', false, 'takendown')
  await world.identity('A')
  const rows = (table: string) => world.connection.sqlite.prepare(`select did from ${table}`).pluck().all()
  assert.deepEqual([rows('accounts'), rows('handleRequests')], [[did('A')], []])
  await world.put('A', evaluation, 'eval', {})
  assert.deepEqual(rows('handleRequests'), [did('A')])
})

test('the handle is asked for when an account is first met and at each identity event', async () => {
  await using world = await populated()
  const requests = () =>
    world.connection.sqlite.prepare('select did, seq from handleRequests order by did').raw().all()
  assert.deepEqual(requests(), [
    [did('A'), 0n],
    [did('B'), 0n],
    [did('E'), 0n],
  ])
  await world.identity('A')
  assert.deepEqual(requests()[0], [did('A'), 8n])
})

test('a sync marker takes away what came before it; what follows returns to its old place', async () => {
  await using world = await populated()
  await world.put('A', evaluation, 'dated', { createdAt: `${day}T10:00:00Z` })
  const before = world.connection.sqlite
    .prepare('select uri, indexedAt, createdAt from records order by uri')
    .all()
  world.now = `${day}T18:00:00.000000Z`
  await world.sync('A')
  await world.sync('A')
  assert.deepEqual(shown(world), { entries: ['endorsement.award awd'], follows: [], organizations: [] })
  for (const event of world.log.filter((e) => e.kind === 'commit' && e.did === did('A'))) {
    await world.send({ ...event, seq: world.nextSeq(), time: world.now })
  }
  const after = world.connection.sqlite
    .prepare('select uri, indexedAt, createdAt from records order by uri')
    .all()
  assert.deepEqual(after, before)
  assert.deepEqual(world.follows(), ['A B'])
  assert.equal(world.connection.sqlite.prepare('select 1 from superseded').get(), undefined)
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
    const feedTime = world.connection.sqlite.prepare('select feedTime from entries').pluck().get()
    assert.equal(feedTime, parseDatetime(expected))
  }
})

test('a sync marker from upstream is an announcement: what is stored stays until the stream replaces it', async () => {
  await using world = await populated()
  await world.account('A', false, 'deactivated')
  await world.account('A', true)
  await world.sync('A', 'upstream')
  assert.deepEqual(world.entries().toSorted(), whole)
})

test('a record that does not come back after a sync marker is gone', async () => {
  await using world = await populated()
  await world.sync('A')
  await world.put('A', evaluation, 'eval', {})
  assert.deepEqual(world.entries().toSorted(), ['endorsement.award awd', 'evaluation.create eval'])
  await world.delete('A', evaluation, 'eval')
  await world.put('A', activity, 'act', { title: 'changed' })
  assert.deepEqual(world.entries().toSorted(), ['cert.create act', 'endorsement.award awd'])
})

test("an account's host can hide it and bring it back, but not undo a takedown", async () => {
  await using world = await populated()
  const says = (status: string) =>
    world.fold.setHostStatus(did('A'), world.fold.statusSeq(did('A')) ?? 0n, status)
  assert.equal(await says('deactivated'), true)
  assert.deepEqual(world.entries(), ['endorsement.award awd'])
  assert.equal(await says('active'), true)
  assert.deepEqual(world.entries().toSorted(), whole)
  await world.account('A', false, 'deactivated')
  assert.equal(await says('active'), true, 'a reactivation was missed')
  await world.account('A', false, 'takendown')
  assert.equal(await says('active'), false)
  assert.deepEqual(world.entries(), ['endorsement.award awd'])
})

test('an answer that the stream has overtaken is dropped', async () => {
  await using world = await populated()
  const seq = world.fold.statusSeq(did('A')) ?? 0n
  await world.account('A', true)
  assert.equal(await world.fold.setHostStatus(did('A'), seq, 'deactivated'), false)
  assert.deepEqual(world.entries().toSorted(), whole)
})
