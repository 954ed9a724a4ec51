/** What a feed shows of a record is prepared when the record changes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collections } from './record-facts.ts'
import { day, did, Scenario } from '../../tests/scenario.ts'

const { activity, evaluation, follow } = collections
const profile = 'app.attested.actor.profile'
const createdAt = `${day}T10:00:00Z`
const trees = { title: 'Trees', shortDescription: 'We planted trees.', createdAt }

/** Views by the last part of the record's address. */
function views({ connection }: Scenario): Record<string, unknown> {
  const rows = connection.sqlite
    .prepare<[], { uri: string; view: string }>('select uri, view from views order by uri')
    .all()
  return Object.fromEntries(rows.map(({ uri, view }) => [uri.split('/').at(-1), JSON.parse(view)]))
}

test('a view follows its record: made, changed, gone with what makes it valid, and with it', async () => {
  await using world = await Scenario.start()
  const view = { $type: 'org.impact.feed.defs#activityView', ...trees, locationCount: 0 }
  await world.put('A', activity, 'act', { ...trees, junk: Array.from({ length: 1000 }, () => ({})) })
  assert.deepEqual(views(world), { act: view })
  await world.put('A', activity, 'act', { ...trees, title: 'Shrubs' })
  assert.deepEqual(views(world), { act: { ...view, title: 'Shrubs' } })
  await world.put('A', activity, 'act', { title: 'Shrubs' })
  assert.deepEqual([views(world), world.entries()], [{}, ['cert.create act']])
  await world.put('A', activity, 'act', trees)
  await world.delete('A', activity, 'act')
  assert.deepEqual(views(world), {})
})

test('records that no feed shows have no view, and those of a deleted account lose theirs', async () => {
  await using world = await Scenario.start()
  await world.put('A', follow, 'f', { subject: did('B'), createdAt })
  await world.put('A', profile, 'self', { displayName: 'Alice', createdAt })
  assert.deepEqual(views(world), { self: { displayName: 'Alice' } })
  await world.account('A', false, 'deactivated')
  assert.deepEqual(views(world), { self: { displayName: 'Alice' } })
  await world.account('A', false, 'deleted')
  assert.deepEqual(views(world), {})
})

test('views of records that an earlier version stored are made at the start', async () => {
  await using world = await Scenario.start()
  await world.put('A', activity, 'act', trees)
  await world.put('A', evaluation, 'broken', {})
  await world.put('A', profile, 'self', { displayName: 'Alice', createdAt })
  const before = views(world)
  world.connection.sqlite.exec('delete from views; delete from policies')
  await world.reopen({ updateContentTypes: [] })
  assert.deepEqual([Object.keys(before), views(world)], [['self', 'act'], before])
})
