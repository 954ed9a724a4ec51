/** How much the fold does at once: rows of a transaction, what is noted before it is settled, and texts that are read. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Content, IndexWriter } from '@tributary/index-store'
import { feedCollections, type StreamEvent } from '@tributary/protocol'
import { accountEvent, deleteEvent, did, putEvent, Scenario, views } from '../../tests/scenario.ts'
import { changeAccount } from './account-changes.ts'
import { applyEvent } from './apply-event.ts'
import { Endorsements } from './endorsements.ts'
import { Fold } from './fold.ts'
import { IndexRows } from './index-rows.ts'
import { settle, writeChanges } from './settle.ts'

const { activity, attachment, award, collection, definition, evaluation, response } = feedCollections
const source = 'stream:test'
const policy = { updateContentTypes: [] }
const names = Array.from({ length: 20 }, (_, index) => `author${String.fromCharCode(98 + index)}`)
const recordsEach = 50
/** Rows that statements tell of for each record of an account that comes back: it is read and shown, and then settled. */
const rowsPerRecordMax = 4

/** Accounts with as many activities each. */
async function crowd(): Promise<Scenario> {
  const world = await Scenario.start()
  const events: StreamEvent[] = names.flatMap((name) =>
    Array.from(
      { length: recordsEach },
      (_, index) => putEvent(world.nextSeq(), world.now, name, activity, `r${index}`, {}).event,
    ),
  )
  await world.fold.apply(source, events, world.nextSeq())
  return world
}

/** A writer that tells how many rows each transaction was about. */
function counting(writer: IndexWriter, rows: number[]): IndexWriter {
  return {
    write: (work) =>
      writer.write(async (batch) => {
        const result = await work(batch)
        rows.push(batch.rows)
        return result
      }),
    makeDurable: () => writer.makeDurable(),
    [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
  }
}

test('a transaction ends with the event that makes it large, and the next one goes on there', async () => {
  await using world = await crowd()
  const rows: number[] = []
  const transactionRows = 200
  const fold = new Fold(counting(world.connection, rows), policy, views, { transactionRows })
  const send = async (active: boolean): Promise<void> => {
    const events = names.map((name) =>
      accountEvent(world.nextSeq(), world.now, name, active, active ? undefined : 'deactivated'),
    )
    const last = events.at(-1)?.seq ?? 0
    rows.length = 0
    assert.deepEqual(await fold.apply(source, events, 0), {
      applied: names.length,
      repeated: 0,
      malformed: 0,
      failed: [],
    })
    const most = Math.max(...rows)
    assert.ok(most <= (transactionRows + recordsEach) * rowsPerRecordMax, `${most} rows in a transaction`)
    assert.ok(rows.length > 2, `${rows.length} transactions`)
    assert.equal(await fold.stream.cursor(source), last)
  }
  await send(false)
  assert.equal((await world.entries()).length, 0)
  await send(true)
  assert.equal((await world.entries()).length, names.length * recordsEach)
})

test('a transaction has no more rows when its events are read a few at a time', async () => {
  await using world = await crowd()
  const events = Array.from(
    { length: 30 },
    (_, at) => putEvent(world.nextSeq(), world.now, 'z', evaluation, `r${at}`, {}).event,
  )
  const rows: number[] = []
  const transactionRows = 20
  const fold = new Fold(counting(world.connection, rows), policy, views, { transactionRows })
  await fold.apply(source, events, 0, { read: (event) => event, bytesOf: () => 1_000_000 })
  assert.ok(Math.max(...rows) < 2 * transactionRows, `${Math.max(...rows)} rows in a transaction`)
  assert.equal(await fold.stream.cursor(source), events.at(-1)?.seq)
})

test('among events of which one fails, a large one ends the transaction and none is passed over', async () => {
  await using world = await crowd()
  const { event } = putEvent(world.nextSeq(), world.now, 'z', evaluation, 'bad', {})
  const bad = { ...event, record: { n: 1n } }
  const hidden = names.map((name) => accountEvent(world.nextSeq(), world.now, name, false, 'takendown'))
  const rows: number[] = []
  const fold = new Fold(counting(world.connection, rows), policy, views, { transactionRows: 1 })
  const { applied, failed } = await fold.apply(source, [bad, ...hidden], 0)
  assert.deepEqual([applied, failed.length], [names.length, 1])
  assert.ok(rows.length > names.length / 2, `${rows.length} transactions`)
  assert.deepEqual(await world.entries(), [])
})

test('after a fault of the database between two transactions of a batch, the cursor says what has happened', async () => {
  await using world = await crowd()
  const { connection } = world
  const gone = new Error('the disk is gone')
  // The first looks whether anything is left to do.
  let left = 3
  const writer: IndexWriter = {
    write: (work) => (left-- > 0 ? connection.write(work) : Promise.reject(gone)),
    makeDurable: () => connection.makeDurable(),
    [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose](),
  }
  const events = names.map((name) => accountEvent(world.nextSeq(), world.now, name, false, 'takendown'))
  const fold = new Fold(writer, policy, views, { transactionRows: 1 })
  await assert.rejects(fold.apply(source, events, 0), gone)
  assert.equal(await world.fold.stream.cursor(source), events[1]?.seq)
  assert.equal((await world.entries()).length, (names.length - 2) * recordsEach)
})

test('what an account with many records notes is settled in slices', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'fold-slices-'))
  await using world = await Scenario.start(policy, { path: join(directory.path, 'index.sqlite'), turnMs: 0 })
  const badge = await world.put('B', definition, 'def', { badgeType: 'endorsement' })
  const subject = { $type: 'app.attested.defs#did', did: did('A') }
  const events: StreamEvent[] = []
  for (let index = 0; index < 300; index++) {
    const given = putEvent(world.nextSeq(), world.now, 'E', award, `awd${index}`, { badge, subject })
    const badgeAward = { uri: given.uri, cid: given.cid }
    const answer = { badgeAward, response: 'rejected' }
    events.push(given.event, putEvent(world.nextSeq(), world.now, 'A', response, `r${index}`, answer).event)
  }
  for (let index = 0; index < 400; index++)
    events.push(putEvent(world.nextSeq(), world.now, 'A', activity, `act${index}`, {}).event)
  await world.fold.apply(source, events, world.nextSeq())
  const noted = 20
  /** Does all of a change in one transaction and returns the most that was noted in any turn. */
  const mostNoted = async (change: 'hide' | 'show' | 'purge'): Promise<number> => {
    const rows = new IndexRows(undefined, noted)
    let [most, isDone] = [0, false]
    const look = (): void => {
      most = Math.max(most, rows.affected.size)
      if (!isDone) setImmediate(look)
    }
    look()
    await world.connection.write(async (batch) => {
      const accounts = await batch.load('accounts', [did('A')])
      const hidden = change === 'show' ? 0n : 1n
      await batch.put(
        'accounts',
        accounts.map((account) => ({ ...account, hidden })),
      )
      await changeAccount(batch, rows, { change, did: did('A') }, policy)
      await settle(batch, rows.affected)
    })
    isDone = true
    return most
  }
  const awards = (entries: string[]): number =>
    entries.filter((entry) => entry.startsWith('endorsement')).length
  /** A's answers are one page. */
  const pageMax = 300
  for (const change of ['hide', 'show', 'purge'] as const) {
    const most = await mostNoted(change)
    assert.ok(most > 0 && most <= noted + pageMax, `${change}: ${most}`)
    const entries = await world.entries()
    // What A has rejected counts while A is there.
    assert.deepEqual([awards(entries), entries.length], change === 'show' ? [0, 400] : [300, 300], change)
  }
})

test('collections with many items are deleted without all of their items in memory', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'fold-items-'))
  await using world = await Scenario.start(policy, { path: join(directory.path, 'index.sqlite'), turnMs: 0 })
  const [keys, itemsEach] = [Array.from({ length: 30 }, (_, index) => `c${index}`), 50]
  const events: StreamEvent[] = []
  for (const key of keys) {
    const items = Array.from({ length: itemsEach }, (_, index) => {
      const listed = putEvent(world.nextSeq(), world.now, 'A', activity, `${key}x${index}`, {})
      events.push(listed.event)
      return { itemIdentifier: { uri: listed.uri, cid: listed.cid } }
    })
    events.push(putEvent(world.nextSeq(), world.now, 'A', collection, key, { items }).event)
  }
  await world.fold.apply(source, events, world.nextSeq())
  assert.equal((await world.entries()).length, keys.length)
  const noted = 20
  const deletions = keys.map((key) => deleteEvent(world.nextSeq(), world.now, 'A', collection, key))
  let [most, isDone] = [0, false]
  await world.connection.write(async (batch) => {
    const rows = new IndexRows(undefined, noted)
    const look = (): void => {
      most = Math.max(most, rows.affected.size)
      if (!isDone) setImmediate(look)
    }
    look()
    await rows.load(batch, deletions)
    for (const event of deletions) applyEvent(rows, event, { policy, views })
    await writeChanges(batch, rows)
    await settle(batch, rows.affected)
  })
  isDone = true
  /** Items that one statement removes. */
  const pageMax = 500
  assert.ok(most > 0 && most <= keys.length + noted + pageMax, `${most} of ${keys.length * itemsEach}`)
  const entries = await world.entries()
  assert.equal(entries.filter((entry) => entry.startsWith('cert.create')).length, keys.length * itemsEach)
  assert.equal(entries.length, keys.length * itemsEach)
})

test('the text of records is read when their account comes back only if it says something', async () => {
  await using world = await Scenario.start()
  const put = async (of: string): Promise<string> => (await world.put('A', of, 'r', {})).uri
  const uris = [await put(evaluation), await put(attachment), await put(activity)]
  await world.connection.write(async (batch) => {
    const records = await batch.load('records', uris)
    await batch.put(
      'records',
      records.map((record) => ({ ...record, json: 'not read' })),
    )
  })
  await world.account('A', false, 'deactivated')
  await world.account('A', true)
  assert.deepEqual((await world.entries()).toSorted(), [
    'cert.create r',
    'evaluation.create r',
    'update.create r',
  ])
})

test('a definition is read once, however many awards of it are settled', async () => {
  await using world = await Scenario.start()
  const allowedIssuers = [did('E'), { did: did('F') }, 5, null, { did: 7 }, {}]
  const badge = await world.put('B', definition, 'def', { badgeType: 'endorsement', allowedIssuers })
  const subject = { $type: 'app.attested.defs#did', did: did('A') }
  const events = ['E', 'F', 'G'].flatMap((name) =>
    Array.from(
      { length: 150 },
      (_, index) =>
        putEvent(world.nextSeq(), world.now, name, award, `awd${index}`, { badge, subject }).event,
    ),
  )
  await world.fold.apply(source, events, world.nextSeq())
  assert.deepEqual(await world.endorsements(), ['E A', 'F A'])
  await world.connection.write(async (batch) => {
    const { classes } = batch
    const read: Content[] = []
    const definitions = classes.definitions.bind(classes)
    classes.definitions = (wanted) => {
      read.push(...wanted)
      return definitions(wanted)
    }
    const endorsements = new Endorsements(batch)
    const uris = (await batch.loadAll('awards')).map(({ uri }) => uri)
    let [pages, valid] = [0, 0]
    for await (const { rows } of classes.awards(uris)) {
      valid += (await endorsements.among(rows)).valid.length
      pages++
    }
    assert.deepEqual([pages > 1, valid, read], [true, 300, [badge]])
  })
})

test('of long definitions a few are read at a time, and every award is settled all the same', async () => {
  await using world = await Scenario.start()
  const subject = { $type: 'app.attested.defs#did', did: did('A') }
  const allowedIssuers = [did('E'), 'x'.repeat(300_000)]
  const events: StreamEvent[] = []
  for (let n = 0; n < 7; n++) {
    const badge = putEvent(world.nextSeq(), world.now, 'B', definition, `d${n}`, {
      badgeType: 'endorsement',
      allowedIssuers,
    })
    events.push(badge.event)
    for (const name of ['E', 'F'])
      events.push(putEvent(world.nextSeq(), world.now, name, award, `a${n}`, { badge, subject }).event)
  }
  const missing = { uri: `at://${did('B')}/${definition}/missing`, cid: 'bafy' }
  events.push(putEvent(world.nextSeq(), world.now, 'E', award, 'missing', { badge: missing, subject }).event)
  await world.fold.apply(source, events, world.nextSeq())
  assert.equal((await world.rows('endorsements')).length, 7)
  await world.connection.write(async (batch) => {
    const uris = (await batch.loadAll('awards')).map(({ uri }) => uri)
    const endorsements = new Endorsements(batch)
    const lefts: number[] = []
    for (let wanted = uris; wanted.length > 0;)
      for await (const { rows } of batch.classes.awards(wanted)) {
        const { left } = await endorsements.among(rows)
        wanted = [...left]
        lefts.push(left.size)
      }
    assert.deepEqual(lefts, [10, 6, 2, 0])
  })
})

test('of a long listing only the items that changed are written and settled', async () => {
  await using world = await Scenario.start()
  const collectionUri = `at://${did('E')}/${collection}/coll`
  const item = (n: number, cid = 'bafy'): { uri: string; cid: string } => ({
    uri: `at://${did('E')}/${activity}/act${n}`,
    cid,
  })
  const all = Array.from({ length: 600 }, (_, n) => item(n))
  const written: number[] = []
  const list = (items: typeof all, feedTime = 1n): Promise<readonly string[]> =>
    world.connection.write(async (batch) => {
      const put = batch.put.bind(batch)
      batch.put = (table, rows) => {
        if (table === 'collectionItems') written.push(rows.length)
        return put(table, rows)
      }
      const rows = new IndexRows()
      rows.setItems(collectionUri, { items, feedTime })
      await writeChanges(batch, rows)
      return rows.affected.noted.activities
    })
  assert.equal((await list(all)).length, 600)
  assert.deepEqual(await list(all), [])
  const edited = [...all.slice(2), item(2, 'other'), item(600)]
  assert.deepEqual(new Set(await list(edited)), new Set([0, 1, 2, 600].map((n) => item(n).uri)))
  assert.equal((await list(edited, 2n)).length, 599, 'the time of the record changed')
  assert.deepEqual(written, [600, 0, 2, 600])
  const listed = await world.rows('collectionItems')
  const keysOf = (items: typeof all): Set<string> => new Set(items.map(({ uri, cid }) => `${uri} ${cid}`))
  const present = listed.map(({ activityUri, activityCid }) => ({ uri: activityUri, cid: activityCid }))
  assert.deepEqual(keysOf(present), keysOf(edited))
})
