/** The work of one event that touches more rows than a transaction may is cut into several. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IndexStorageError } from '@tributary/index-store'
import { feedCollections, type StreamEvent } from '@tributary/protocol'
import {
  atOnce,
  before,
  changes,
  crowded,
  dump,
  policy,
  sized,
  source,
  splitting,
} from '../../tests/crowded.ts'
import { accountEvent, deleteEvent, did, putEvent, Scenario, views } from '../../tests/scenario.ts'
import { Fold } from './fold.ts'

const { activity, collection } = feedCollections

for (const [name, change] of Object.entries(changes)) {
  test(`${name}: killed at any cut, the next fold goes on and ends in the same rows`, async () => {
    await using once = await before(name)
    await once.fold.apply(source, [change(once)].flat(), 0)
    const expected = await dump(once.connection)
    let cuts = 0
    for (let killAt = 1, isKilled = true; isKilled; killAt++) {
      await using world = await before(name)
      const events = [change(world)].flat()
      isKilled = false
      const killed = splitting(world.connection, (times) => {
        isKilled = times === killAt
        if (isKilled) throw new IndexStorageError('killed')
      })
      const applying = new Fold(killed, policy, views, atOnce).apply(source, events, 0)
      await applying.catch((error: unknown) => assert.ok(isKilled, String(error)))
      if (isKilled) assert.equal(await world.fold.stream.cursor(source), events.at(-1)?.seq)
      cuts = Math.max(cuts, isKilled ? killAt : 0)
      const next = new Fold(world.connection, policy, views, atOnce)
      assert.deepEqual((await next.finish()).failed, [])
      assert.deepEqual(await dump(world.connection), expected, `killed at cut ${killAt}`)
      await next.apply(source, events, 0)
      assert.deepEqual(await dump(world.connection), expected, 'the event again')
    }
    assert.ok(cuts > 0, `${cuts} cuts`)
  })
}

test('collections that list much are written and removed some at a time', async () => {
  await using world = await Scenario.start()
  const [collections, itemsEach] = [30, 60]
  const sizes: number[] = []
  const fold = new Fold(sized(world.connection, sizes), policy, views, atOnce)
  const send = async (events: readonly StreamEvent[]): Promise<number> => {
    sizes.length = 0
    await fold.apply(source, events, 0)
    return Math.max(...sizes)
  }
  const keys = Array.from({ length: collections }, (_, index) => `coll${index}`)
  const lists = (name: string): StreamEvent[] =>
    keys.map((key) => {
      const items = Array.from({ length: itemsEach }, (_, index) => {
        const { uri, cid } = putEvent(0, world.now, 'E', activity, `${key}x${index}`, {})
        return { itemIdentifier: { uri, cid } }
      })
      return putEvent(world.nextSeq(), world.now, 'E', collection, key, { name, items }).event
    })
  const deletions = (): StreamEvent[] =>
    keys.map((key) => deleteEvent(world.nextSeq(), world.now, 'E', collection, key))
  /** Items of one statement. */
  const pageMax = 500
  const listed = collections * itemsEach
  for (const [events, items] of [
    [lists('first'), listed],
    [lists('second'), listed],
    [deletions(), 0],
  ] as const) {
    const most = await send(events)
    assert.ok(most < pageMax + 6 * itemsEach, `${most} rows in a transaction`)
    assert.equal((await world.rows('collectionItems')).length, items)
  }
})

test('a change that waits for a later one of its account is not lost when the fold is killed at a cut', async () => {
  let cuts = 0
  for (let killAt = 1, isKilled = true; isKilled; killAt++) {
    await using world = await crowded()
    isKilled = false
    const killed = splitting(world.connection, (times) => {
      isKilled = times === killAt
      if (isKilled) throw new IndexStorageError('killed')
    })
    const events = [
      accountEvent(world.nextSeq(), world.now, 'E', false, 'deactivated'),
      accountEvent(world.nextSeq(), world.now, 'A', false, 'deactivated'),
      // It hides nothing, because its account is hidden.
      accountEvent(world.nextSeq(), world.now, 'E', false, 'takendown'),
    ]
    const applying = new Fold(killed, policy, views, atOnce).apply(source, events, 0)
    await applying.catch((error: unknown) => assert.ok(isKilled, String(error)))
    const next = new Fold(world.connection, policy, views, atOnce)
    assert.deepEqual((await next.finish()).failed, [])
    assert.deepEqual(await world.entries(), [], `killed at cut ${killAt}`)
    assert.deepEqual(await world.follows(), [])
    cuts = killAt
  }
  assert.ok(cuts > 3, `${cuts} cuts`)
})

test('an account that goes and comes back again and again in one batch is changed once', async () => {
  const cutsOf = async (times: number): Promise<number> => {
    await using world = await crowded()
    let cuts = 0
    const fold = new Fold(
      splitting(world.connection, () => cuts++),
      policy,
      views,
      atOnce,
    )
    const before = [await world.entries(), await world.follows(), await world.endorsements()]
    const events = Array.from({ length: times }, (_, nth) => [
      accountEvent(world.nextSeq(), world.now, 'E', false, 'deactivated'),
      putEvent(world.nextSeq(), world.now, 'E', activity, `while-away${nth}`, {}).event,
      accountEvent(world.nextSeq(), world.now, 'E', true),
    ])
    await fold.apply(source, events.flat(), 0)
    const came = events.map((_, nth) => `cert.create while-away${nth}`)
    const after = [await world.entries(), await world.follows(), await world.endorsements()]
    assert.deepEqual(new Set(after[0]), new Set([...(before[0] ?? []), ...came]))
    assert.deepEqual(after.slice(1), before.slice(1))
    return cuts
  }
  assert.ok((await cutsOf(12)) < 2 * (await cutsOf(1)))
})

test('others write between the transactions of one event', async () => {
  await using world = await crowded()
  const order: string[] = []
  let labels: Promise<unknown> = Promise.resolve()
  const writer = splitting(world.connection, (times) => {
    order.push('cut')
    if (times > 1) return
    labels = world.connection
      .write((batch) => batch.put('cursors', [{ source: 'labels:x', cursor: 1n }]))
      .then(() => order.push('label'))
  })
  const event = accountEvent(world.nextSeq(), world.now, 'E', false, 'takendown')
  await new Fold(writer, policy, views, atOnce).apply(source, [event], 0)
  await labels
  assert.deepEqual(order.slice(0, 3), ['cut', 'label', 'cut'])
})

test('what a host says of an account waits for the work of an event, and is cut too', async () => {
  await using world = await before('its author comes back')
  let cuts = 0
  const fold = new Fold(
    splitting(world.connection, () => cuts++),
    policy,
    views,
    atOnce,
  )
  const statusSeq = (await fold.statusSeq(did('E'))) ?? 0n
  const showing = fold.setHostStatus(did('E'), statusSeq, 'active')
  const hiding = fold.apply(source, [accountEvent(world.nextSeq(), world.now, 'E', false, 'takendown')], 0)
  assert.equal(await showing, true)
  await hiding
  assert.ok(cuts > 5, `${cuts}`)
  assert.deepEqual(await world.entries(), [])
  assert.deepEqual(await world.follows(), [])
})

test('work that fails when it is taken up again costs its event, and the next events are folded', async () => {
  await using world = await crowded()
  const event = accountEvent(world.nextSeq(), world.now, 'E', false, 'takendown')
  const killed = splitting(world.connection, () => {
    throw new IndexStorageError('killed')
  })
  await assert.rejects(new Fold(killed, policy, views, atOnce).apply(source, [event], 0), IndexStorageError)
  const left = (await world.rows('policies')).find(({ name }) => name === 'unfinished')
  assert.ok(left)
  const damaged = { ...left, value: left.value.replace('"activities"', '"other"') }
  await world.connection.write((batch) => batch.put('policies', [damaged]))
  const fold = new Fold(world.connection, policy, views)
  const next = putEvent(world.nextSeq(), world.now, 'A', activity, 'later', {}).event
  const counts = await fold.apply(source, [next], 0)
  assert.deepEqual(
    counts.failed.map(({ seq }) => seq),
    [event.seq],
  )
  assert.equal(counts.applied, 1)
  assert.ok((await world.entries()).includes('cert.create later'))
  assert.deepEqual((await new Fold(world.connection, policy, views).finish()).failed, [], 'once')
})
