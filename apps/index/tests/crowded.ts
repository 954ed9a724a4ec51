/** An index where one change touches many rows, and writers that tell how they are written. */
import type { IndexWriter, TableName } from '@tributary/index-store'
import { feedCollections, type StreamEvent } from '@tributary/protocol'
import { accountEvent, deleteEvent, did, putEvent, rowsOf, Scenario, syncEvent } from './scenario.ts'

const { activity, award, collection, definition, follow, response } = feedCollections
export const source = 'stream:test'
export const policy = { updateContentTypes: [] }
export const atOnce = { transactionRows: 20, noted: 10 }
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
  'remakes',
] as const satisfies readonly TableName[]

/** E gives A awards of B's badge, A refuses every third, and E has records of its own. */
export async function crowded(count = awards): Promise<Scenario> {
  const world = await Scenario.start()
  const badge = await world.put('B', definition, 'def', { badgeType: 'endorsement' })
  const subject = { $type: 'app.attested.defs#did', did: did('A') }
  const put = (...[name, of, rkey, record]: [string, string, string, object]) =>
    putEvent(world.nextSeq(), world.now, name, of, rkey, { ...record })
  const events: StreamEvent[] = []
  for (let index = 0; index < count; index++) {
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

export type Change = (world: Scenario) => StreamEvent | StreamEvent[]

export const changes: Readonly<Record<string, Change>> = {
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

export async function dump(writer: IndexWriter): Promise<Record<string, string[]>> {
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
export function splitting(writer: IndexWriter, onSplit: (times: number) => void): IndexWriter {
  let times = 0
  return {
    write: (work) =>
      writer.write((batch) => {
        const split = batch.split.bind(batch)
        batch.split = async (between) => {
          await split(between)
          onSplit(++times)
        }
        return work(batch)
      }),
    makeDurable: () => writer.makeDurable(),
    [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
  }
}

/** A writer that tells how many rows each transaction was about. */
export function sized(writer: IndexWriter, sizes: number[]): IndexWriter {
  return {
    write: (work) =>
      writer.write(async (batch) => {
        let before = 0
        const end = (): void => {
          sizes.push(batch.rows - before)
          before = batch.rows
        }
        const split = batch.split.bind(batch)
        batch.split = (between) => (end(), split(between))
        const result = await work(batch)
        end()
        return result
      }),
    makeDurable: () => writer.makeDurable(),
    [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
  }
}

/** The index before the change: its author is away when it is to come back. */
export async function before(name: string): Promise<Scenario> {
  const world = await crowded()
  if (name === 'its author comes back') await world.account('E', false, 'deactivated')
  // Items are removed in pages of 500.
  const items = name.includes('listed') ? 600 : name.includes('no longer') ? awards : 0
  if (items > 0) await world.fold.apply(source, [listing(world, items)], 0)
  return world
}
