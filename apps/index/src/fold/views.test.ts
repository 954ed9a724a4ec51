/** What a feed shows of a record is prepared when the record changes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { feedCollections } from '@tributary/protocol'
import { day, did, Scenario } from '../../tests/scenario.ts'

const { activity, evaluation, follow } = feedCollections
const profile = 'app.attested.actor.profile'
const createdAt = `${day}T10:00:00Z`
const trees = { title: 'Trees', shortDescription: 'We planted trees.', createdAt }

/** Views by the last part of the record's address. */
async function views(world: Scenario): Promise<Record<string, unknown>> {
  const rows = (await world.rows('views')).toSorted((a, b) => (a.uri < b.uri ? -1 : 1))
  return Object.fromEntries(rows.map(({ uri, view }) => [uri.split('/').at(-1), JSON.parse(view)]))
}

test('a view follows its record: made, changed, gone with what makes it valid, and with it', async () => {
  await using world = await Scenario.start()
  const view = { $type: 'org.impact.feed.defs#activityView', ...trees, locationCount: 0 }
  await world.put('A', activity, 'act', { ...trees, junk: Array.from({ length: 1000 }, () => ({})) })
  assert.deepEqual(await views(world), { act: view })
  await world.put('A', activity, 'act', { ...trees, title: 'Shrubs' })
  assert.deepEqual(await views(world), { act: { ...view, title: 'Shrubs' } })
  await world.put('A', activity, 'act', { title: 'Shrubs' })
  assert.deepEqual([await views(world), await world.entries()], [{}, ['cert.create act']])
  await world.put('A', activity, 'act', trees)
  await world.delete('A', activity, 'act')
  assert.deepEqual(await views(world), {})
})

test('records that no feed shows have no view, and those of a deleted account lose theirs', async () => {
  await using world = await Scenario.start()
  await world.put('A', follow, 'f', { subject: did('B'), createdAt })
  await world.put('A', profile, 'self', { displayName: 'Alice', createdAt })
  assert.deepEqual(await views(world), { self: { displayName: 'Alice' } })
  await world.account('A', false, 'deactivated')
  assert.deepEqual(await views(world), { self: { displayName: 'Alice' } })
  await world.account('A', false, 'deleted')
  assert.deepEqual(await views(world), {})
})

test('views of records that an earlier version stored are made at the start', async () => {
  await using world = await Scenario.start()
  await world.put('A', activity, 'act', trees)
  await world.put('A', evaluation, 'broken', {})
  await world.put('A', profile, 'self', { displayName: 'Alice', createdAt })
  const before = await views(world)
  await world.connection.write(async (batch) => {
    await batch.remove(
      'views',
      (await batch.loadAll('views')).map(({ uri }) => uri),
    )
    await batch.remove('policies', ['making'])
  })
  await world.reopen({ updateContentTypes: [] })
  assert.deepEqual([Object.keys(before), await views(world)], [['self', 'act'], before])
})
