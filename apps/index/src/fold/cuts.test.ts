/** The work of one event that touches more rows than a transaction may is cut into several. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IndexStorageError, type IndexWriter, type TableName } from '@tributary/index-store'
import { feedCollections, type StreamEvent } from '@tributary/protocol'
import {
  accountEvent,
  deleteEvent,
  did,
  putEvent,
  rowsOf,
  Scenario,
  syncEvent,
  views,
} from '../../tests/scenario.ts'
import { Fold } from './fold.ts'

const { activity, award, collection, definition, follow, response } = feedCollections
const source = 'stream:test'
const policy = { updateContentTypes: [] }
const atOnce = { transactionRows: 20, noted: 10 }
const awards = 60
const tables = [
  'records',
  'views',
  'entries',
  'endorsements',
  'follows',
  'accounts',
  'cursors',
  'foldedEvents',
  'awards',
  'responses',
  'superseded',
  'collectionItems',
  'policies',
] as const satisfies readonly TableName[]

/** E gives A awards of B's badge, A refuses every third, and E has records of its own. */
async function crowded(): Promise<Scenario> {
  const world = await Scenario.start()
  const badge = await world.put('B', definition, 'def', { badgeType: 'endorsement' })
  const subject = { $type: 'app.attested.defs#did', did: did('A') }
  const put = (...[name, of, rkey, record]: [string, string, string, object]) =>
    putEvent(world.nextSeq(), world.now, name, of, rkey, { ...record })
  const events: StreamEvent[] = []
  for (let index = 0; index < awards; index++) {
    const given = put('E', award, `awd${index}`, { badge, subject })
    const badgeAward = { uri: given.uri, cid: given.cid }
    events.push(given.event, put('E', activity, `act${index}`, {}).event)
    events.push(put('E', follow, `f${index}`, { subject: did('A') }).event)
    if (index % 3 === 0)
      events.push(put('A', response, `r${index}`, { badgeAward, response: 'rejected' }).event)
  }
  await world.fold.apply(source, events, world.nextSeq())
  return world
}

/** A collection of E that lists the first of its activities. */
function listing(world: Scenario, items: number): StreamEvent {
  const refs = Array.from({ length: items }, (_, index) => {
    const { uri, cid } = putEvent(0, world.now, 'E', activity, `act${index}`, {})
    return { itemIdentifier: { uri, cid } }
  })
  return putEvent(world.nextSeq(), world.now, 'E', collection, 'coll', { items: refs }).event
}

type Change = (world: Scenario) => StreamEvent | StreamEvent[]

const changes: Readonly<Record<string, Change>> = {
  'its author is hidden': (world) => accountEvent(world.nextSeq(), world.now, 'E', false, 'takendown'),
  'its author comes back': (world) => accountEvent(world.nextSeq(), world.now, 'E', true),
  'its author is read again': (world) => syncEvent(world.nextSeq(), world.now, 'E'),
  'its author is deleted': (world) => accountEvent(world.nextSeq(), world.now, 'E', false, 'deleted'),
  'whoever answered is hidden': (world) => accountEvent(world.nextSeq(), world.now, 'A', false, 'takendown'),
  'whoever answered is deleted': (world) => accountEvent(world.nextSeq(), world.now, 'A', false, 'deleted'),
  'the badge is edited': (world) =>
    putEvent(world.nextSeq(), world.now, 'B', definition, 'def', { badgeType: 'other' }).event,
  'a collection lists much': (world) => listing(world, awards),
  'a collection no longer lists much': (world) => listing(world, 1),
  'a collection that listed much is deleted': (world) =>
    deleteEvent(world.nextSeq(), world.now, 'E', collection, 'coll'),
  'a collection lists much, and its author goes': (world) => [
    listing(world, awards),
    accountEvent(world.nextSeq(), world.now, 'E', false, 'takendown'),
  ],
  'whoever made the badge is hidden': (world) =>
    accountEvent(world.nextSeq(), world.now, 'B', false, 'takendown'),
}

async function dump(writer: IndexWriter): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {}
  for (const table of tables) {
    const rows: object[] = await rowsOf(writer, table)
    found[table] = rows
      .map((row) =>
        JSON.stringify(row, (_, value: unknown) => (typeof value === 'bigint' ? `${value}` : value)),
      )
      .toSorted()
  }
  return found
}

/** A writer that calls `onSplit` when a transaction has been split, with how often that was. */
function splitting(writer: IndexWriter, onSplit: (times: number) => void): IndexWriter {
  let times = 0
  return {
    write: (work) =>
      writer.write((batch) => {
        const split = batch.split.bind(batch)
        batch.split = async () => {
          await split()
          onSplit(++times)
        }
        return work(batch)
      }),
    makeDurable: () => writer.makeDurable(),
    [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
  }
}

/** A writer that tells how many rows each transaction was about. */
function sized(writer: IndexWriter, sizes: number[]): IndexWriter {
  return {
    write: (work) =>
      writer.write(async (batch) => {
        let before = 0
        const end = (): void => {
          sizes.push(batch.rows - before)
          before = batch.rows
        }
        const split = batch.split.bind(batch)
        batch.split = () => (end(), split())
        const result = await work(batch)
        end()
        return result
      }),
    makeDurable: () => writer.makeDurable(),
    [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
  }
}

/** The index before the change: its author is away when it is to come back. */
async function before(name: string): Promise<Scenario> {
  const world = await crowded()
  if (name === 'its author comes back') await world.account('E', false, 'deactivated')
  // Items are removed in pages of 500.
  const items = name.includes('listed') ? 600 : name.includes('no longer') ? awards : 0
  if (items > 0) await world.fold.apply(source, [listing(world, items)], 0)
  return world
}

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
