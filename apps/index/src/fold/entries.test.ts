/** Which records make which entries, in which order: feed.md sections 6 and 7. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { feedCollections } from '@tributary/protocol'
import { cidOf, day, did, micros, Scenario } from '../../tests/scenario.ts'

const { activity, attachment, board, collection, evaluation, measurement } = feedCollections

function at(time: string): { createdAt: string } {
  return { createdAt: `${day}T${time}Z` }
}

function listing(...items: unknown[]): { items: unknown[] } {
  return { items: items.map((itemIdentifier) => ({ itemIdentifier })) }
}

/** An activity and a collection by the same author that lists it, created at the given times. */
async function pair(world: Scenario, activityTime: string, collectionTime: string) {
  const listed = await world.put('A', activity, 'act', at(activityTime))
  return await world.put('A', collection, 'coll', { ...at(collectionTime), ...listing(listed) })
}

test('each collection of the table gives its kind, others give no entry', async () => {
  await using world = await Scenario.start()
  await world.put('A', activity, 'a', at('10:00:08'))
  await world.put('A', collection, 'b', at('10:00:07'))
  await world.put('A', evaluation, 'c', at('10:00:06'))
  await world.put('A', measurement, 'd', at('10:00:05'))
  await world.put('A', attachment, 'e', at('10:00:04'))
  await world.put('A', board, 'f', at('10:00:03'))
  await world.put('A', 'org.impact.claim.rights', 'g', at('10:00:02'))
  await world.put('A', 'org.impact.funding.receipt', 'h', at('10:00:01'))
  assert.deepEqual(await world.entries(), [
    'cert.create a',
    'collection.create b',
    'evaluation.create c',
    'measurement.create d',
    'update.create e',
    'hyperboard.create f',
  ])
})

test('a record that breaks its lexicon still makes its entry', async () => {
  await using world = await Scenario.start()
  await world.put('A', activity, 'a', { $type: 'of.another.type', title: 7 })
  assert.deepEqual(await world.entries(), ['cert.create a'])
})

test('case 100: an activity and a collection that lists it within a minute are one project', async () => {
  await using world = await Scenario.start()
  await pair(world, '10:00:00', '10:00:59.999')
  assert.deepEqual(await world.entries(), ['project.created_with_cert coll'])
})

test('case 101: exactly a minute apart they are two entries', async () => {
  await using world = await Scenario.start()
  await pair(world, '10:00:00', '10:01:00')
  assert.deepEqual(await world.entries(), ['collection.create coll', 'cert.create act'])
})

test('a microsecond short of a minute is a pair, in either direction (case 102)', async () => {
  await using world = await Scenario.start()
  await pair(world, '10:00:59.999999', '10:00:00')
  assert.deepEqual(await world.entries(), ['project.created_with_cert coll'])
})

test('case 103: a collection that lists an old content is no project', async () => {
  await using world = await Scenario.start()
  const { uri } = await world.put('A', activity, 'act', at('10:00:00'))
  await world.put('A', collection, 'coll', { ...at('10:00:01'), ...listing({ uri, cid: cidOf('older') }) })
  assert.deepEqual(await world.entries(), ['collection.create coll', 'cert.create act'])
})

test('case 104: a collection of another author is no project', async () => {
  await using world = await Scenario.start()
  const listed = await world.put('A', activity, 'act', at('10:00:00'))
  await world.put('B', collection, 'coll', { ...at('10:00:01'), ...listing(listed) })
  assert.deepEqual(await world.entries(), ['collection.create coll', 'cert.create act'])
})

test('case 105: without valid times of their own, the index times decide', async () => {
  await using world = await Scenario.start()
  world.now = `${day}T10:00:00Z`
  const listed = await world.put('A', activity, 'act', { createdAt: 'soon' })
  world.now = `${day}T10:00:59.9Z`
  await world.put('A', collection, 'near', listing(listed))
  world.now = `${day}T10:01:00Z`
  await world.put('A', collection, 'far', listing(listed))
  assert.deepEqual(await world.entries(), ['collection.create far', 'project.created_with_cert near'])
})

test('a pair is found whichever side comes first', async () => {
  await using world = await Scenario.start()
  const content = { $type: activity, ...at('10:00:00') }
  const listed = { uri: `at://${did('A')}/${activity}/act`, cid: cidOf(content) }
  await world.put('A', collection, 'coll', { ...at('10:00:30'), ...listing(listed) })
  assert.deepEqual(await world.entries(), ['collection.create coll'])
  await world.put('A', activity, 'act', content)
  assert.deepEqual(await world.entries(), ['project.created_with_cert coll'])
})

test('one collection may hide several activities, and one activity may make several projects', async () => {
  await using world = await Scenario.start()
  const one = await world.put('A', activity, 'one', at('10:00:00'))
  const two = await world.put('A', activity, 'two', at('10:00:10'))
  await world.put('A', collection, 'both', { ...at('10:00:20'), ...listing(one, two) })
  await world.put('A', collection, 'first', { ...at('10:00:30'), ...listing(one) })
  assert.deepEqual(await world.entries(), [
    'project.created_with_cert first',
    'project.created_with_cert both',
  ])
})

test('a collection that lists an activity several times is one project', async () => {
  await using world = await Scenario.start()
  const listed = await world.put('A', activity, 'act', at('10:00:00'))
  await world.put('A', collection, 'coll', { ...at('10:00:30'), ...listing(listed, listed, listed) })
  assert.deepEqual(await world.entries(), ['project.created_with_cert coll'])
})

test('case 109: when the collection goes, the activity comes back at its place', async () => {
  await using world = await Scenario.start()
  await pair(world, '10:00:00', '10:00:30')
  await world.put('A', evaluation, 'later', at('10:00:10'))
  await world.delete('A', collection, 'coll')
  assert.deepEqual(await world.entries(), ['evaluation.create later', 'cert.create act'])
})

test('when the activity is edited or deleted, the collection is no project any more', async () => {
  await using world = await Scenario.start()
  await pair(world, '10:00:00', '10:00:30')
  await world.put('A', activity, 'act', { ...at('10:00:00'), title: 'new' })
  assert.deepEqual(await world.entries(), ['collection.create coll', 'cert.create act'])
  await world.put('A', activity, 'act', at('10:00:00'))
  assert.deepEqual(await world.entries(), ['project.created_with_cert coll'])
  await world.delete('A', activity, 'act')
  assert.deepEqual(await world.entries(), ['collection.create coll'])
})

test('when the collection drops an item, that activity is shown again', async () => {
  await using world = await Scenario.start()
  await pair(world, '10:00:00', '10:00:30')
  await world.put('A', collection, 'coll', { ...at('10:00:30'), ...listing() })
  assert.deepEqual(await world.entries(), ['collection.create coll', 'cert.create act'])
})

test('items of any other shape are no items', async () => {
  await using world = await Scenario.start()
  const listed = await world.put('A', activity, 'act', at('10:00:00'))
  await world.put('A', collection, 'a', { ...at('10:00:01'), items: { itemIdentifier: listed } })
  await world.put('A', collection, 'b', {
    ...at('10:00:02'),
    items: [null, 7, listed, { itemIdentifier: listed.uri }],
  })
  assert.deepEqual(await world.entries(), ['collection.create b', 'collection.create a', 'cert.create act'])
})

test('case 110: the setting narrows attachments to its content types, also for those stored before', async () => {
  await using world = await Scenario.start()
  await world.put('A', attachment, 'update', { ...at('10:00:02'), contentType: 'update' })
  await world.put('A', attachment, 'audit', { ...at('10:00:01'), contentType: 'audit' })
  await world.put('A', attachment, 'none', at('10:00:00'))
  assert.equal((await world.entries()).length, 3)
  await world.reopen({ updateContentTypes: ['update'] })
  assert.deepEqual(await world.entries(), ['update.create update'])
  await world.put('A', attachment, 'report', { ...at('10:00:03'), contentType: 'report' })
  assert.deepEqual(await world.entries(), ['update.create update'])
  await world.reopen({ updateContentTypes: [] })
  assert.equal((await world.entries()).length, 4)
})

test('case 113: a valid createdAt wins over the index time', async () => {
  await using world = await Scenario.start()
  world.now = `${day}T01:00:00Z`
  await world.put('A', evaluation, 'dated', at('12:00:00'))
  world.now = `${day}T11:00:00Z`
  await world.put('A', evaluation, 'undated', {})
  assert.deepEqual(await world.entries(), ['evaluation.create dated', 'evaluation.create undated'])
})

test('case 114: an unusable createdAt leaves the index time', async () => {
  await using world = await Scenario.start()
  world.now = `${day}T11:00:00Z`
  const faults = [day, 20260304, { at: `${day}T12:00:00Z` }, `${day}T12:00:00`, null]
  for (const [i, createdAt] of faults.entries()) await world.put('A', evaluation, `r${i}`, { createdAt })
  const times = new Set((await world.rows('entries')).map(({ feedTime }) => feedTime))
  assert.deepEqual([...times], [micros('11:00:00')])
})

test('cases 115 and 116: records of one moment stand by address, the greatest first', async () => {
  await using world = await Scenario.start()
  await world.put('A', evaluation, 'a', { createdAt: `${day}T11:00:00+00:00` })
  await world.put('A', evaluation, 'c', { createdAt: `${day}T13:00:00+02:00` })
  await world.put('A', evaluation, 'b', { createdAt: `${day}T11:00:00.0000001Z` })
  assert.deepEqual(await world.entries(), [
    'evaluation.create c',
    'evaluation.create b',
    'evaluation.create a',
  ])
})

test('a future date stands at the top, to the last microsecond of the year 9999', async () => {
  await using world = await Scenario.start()
  await world.put('A', evaluation, 'a', { createdAt: '9999-12-31T23:59:59.999998Z' })
  await world.put('A', evaluation, 'b', { createdAt: '9999-12-31T23:59:59.999999Z' })
  await world.put('A', evaluation, 'c', { createdAt: '9999-12-31T23:59:59.999997Z' })
  assert.deepEqual(await world.entries(), [
    'evaluation.create b',
    'evaluation.create a',
    'evaluation.create c',
  ])
})

test('case 118: an edit of createdAt does not move a record', async () => {
  await using world = await Scenario.start()
  await world.put('A', evaluation, 'a', at('10:00:00'))
  await world.put('A', evaluation, 'b', at('11:00:00'))
  await world.put('A', evaluation, 'a', at('12:00:00'))
  assert.deepEqual(await world.entries(), ['evaluation.create b', 'evaluation.create a'])
  await world.put('A', evaluation, 'a', { createdAt: 'gone', note: 'no time any more' })
  assert.deepEqual(await world.entries(), ['evaluation.create b', 'evaluation.create a'])
})

test('a record without a valid createdAt moves with each edit until one brings a valid one', async () => {
  await using world = await Scenario.start()
  const feedTime = async () => (await world.rows('entries'))[0]?.feedTime
  world.now = `${day}T11:00:00Z`
  await world.put('A', evaluation, 'a', { note: 'one' })
  world.now = `${day}T12:00:00Z`
  await world.put('A', evaluation, 'a', { note: 'one' })
  assert.equal(await feedTime(), micros('11:00:00'), 'the same content again changes nothing')
  await world.put('A', evaluation, 'a', { note: 'two' })
  assert.equal(await feedTime(), micros('12:00:00'))
  await world.put('A', evaluation, 'a', { note: 'three', ...at('09:00:00') })
  assert.equal(await feedTime(), micros('09:00:00'))
})

test('a record that is deleted and created again starts fresh', async () => {
  await using world = await Scenario.start()
  await world.put('A', evaluation, 'a', at('10:00:00'))
  await world.put('A', evaluation, 'b', at('11:00:00'))
  await world.delete('A', evaluation, 'a')
  assert.deepEqual(await world.entries(), ['evaluation.create b'])
  await world.put('A', evaluation, 'a', at('12:00:00'))
  assert.deepEqual(await world.entries(), ['evaluation.create a', 'evaluation.create b'])
})

test('deletes, updates and re-creations of one record end in its last state', async () => {
  await using world = await Scenario.start()
  await world.delete('A', activity, 'a')
  await world.put('A', activity, 'a', { title: 'one' })
  await world.put('A', activity, 'a', { title: 'two' })
  await world.delete('A', activity, 'a')
  await world.delete('A', activity, 'a')
  assert.deepEqual(await world.entries(), [])
  const { cid } = await world.put('A', activity, 'a', { title: 'three' })
  const stored = await world.rows('records')
  const texts = stored.map((record) => ({ cid: record.cid, json: record.json }))
  assert.deepEqual(texts, [{ cid, json: JSON.stringify({ $type: activity, title: 'three' }) }])
})
