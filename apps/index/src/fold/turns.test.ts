/** What much rests on is folded over many turns of the event loop, and readers see it before or after, never half done. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type TestContext, test } from 'node:test'
import { feedCollections, type StreamEvent } from '@tributary/protocol'
import Sqlite from 'better-sqlite3'
import { did, putEvent, Scenario, views } from '../../tests/scenario.ts'
import { Fold } from './fold.ts'

const { activity, attachment, award, collection, definition } = feedCollections
const count = 200

/** E with many awards of B's badge, and many attachments; A with an activity in many collections. */
async function crowded(t: TestContext): Promise<{ world: Scenario; readers: Readers }> {
  const directory = mkdtempSync(join(tmpdir(), 'fold-turns-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'index.sqlite')
  const world = await Scenario.start({ updateContentTypes: [] }, { path, turnMs: 0 })
  t.after(() => world[Symbol.asyncDispose]())
  const badge = await world.put('B', definition, 'def', { badgeType: 'endorsement' })
  const listed = await world.put('A', activity, 'act', {})
  const items = [{ itemIdentifier: listed }]
  const subject = { $type: 'app.attested.defs#did', did: did('A') }
  const events: StreamEvent[] = []
  const add = (author: string, of: string, key: string, record: Record<string, unknown>): void => {
    events.push(putEvent(world.nextSeq(), world.now, author, of, key, record).event)
  }
  for (let i = 0; i < count; i++) {
    add('E', award, `awd${i}`, { badge, subject })
    add('E', attachment, `att${i}`, { contentType: 'report' })
    add('A', collection, `coll${i}`, { items })
  }
  await world.fold.apply('stream:test', events, world.nextSeq())
  const readers = new Readers(path)
  t.after(() => readers[Symbol.dispose]())
  return { world, readers }
}

/** Looks at the database in every turn of the event loop. */
class Readers implements Disposable {
  readonly #connection
  readonly #statement

  constructor(path: string) {
    this.#connection = new Sqlite(path, { readonly: true })
    this.#statement = this.#connection
      .prepare<[], string>(
        "select group_concat(kind || ' ' || n) from (select kind, count(*) as n from entries group by 1)",
      )
      .pluck()
  }

  /** What was seen while `work` went on, in order, and in how many turns. */
  async during(work: () => Promise<unknown>): Promise<{ states: (string | null)[]; turns: number }> {
    const states: (string | null)[] = []
    let turns = 0
    let isDone = false
    const look = (): void => {
      const state = this.#statement.get() ?? null
      if (states.at(-1) !== state) states.push(state)
      turns++
    }
    const lookEachTurn = (): void => {
      if (isDone) return
      look()
      setImmediate(lookEachTurn)
    }
    lookEachTurn()
    await work()
    isDone = true
    look()
    return { states, turns }
  }

  [Symbol.dispose](): void {
    this.#connection.close()
  }
}

const attachments = `update.create ${count}`
const awards = `endorsement.award ${count}`
const projects = `project.created_with_cert ${count}`

test('a definition with many awards changes over many turns, for readers at once', async (t) => {
  const { world, readers } = await crowded(t)
  const { states, turns } = await readers.during(() =>
    world.put('B', definition, 'def', { badgeType: 'other' }),
  )
  assert.deepEqual(states, [`${awards},${projects},${attachments}`, `${projects},${attachments}`])
  assert.ok(turns > count, `${turns}`)
})

test('an account with many records is hidden and shown over many turns, for readers at once', async (t) => {
  const { world, readers } = await crowded(t)
  const whole = `${awards},${projects},${attachments}`
  const hiding = await readers.during(() => world.account('E', false, 'deactivated'))
  assert.deepEqual(hiding.states, [whole, projects])
  assert.ok(hiding.turns > count / 50, `${hiding.turns}`)
  const showing = await readers.during(() => world.account('E', true))
  assert.deepEqual(showing.states, [projects, whole])
  assert.ok(showing.turns > count, `${showing.turns}`)
  const clearing = await readers.during(() => world.sync('E'))
  assert.deepEqual(clearing.states, [whole, projects])
  assert.ok(clearing.turns > count / 50, `${clearing.turns}`)
})

test('an activity in many collections changes over many turns, for readers at once', async (t) => {
  const { world, readers } = await crowded(t)
  const { states, turns } = await readers.during(() => world.delete('A', activity, 'act'))
  assert.deepEqual(states, [
    `${awards},${projects},${attachments}`,
    `collection.create ${count},${awards},${attachments}`,
  ])
  assert.ok(turns > count, `${turns}`)
})

test('a changed setting is taken up over many turns, in many transactions', async (t) => {
  const { world, readers } = await crowded(t)
  const { turns, states } = await readers.during(() => world.reopen({ updateContentTypes: ['update'] }))
  assert.ok(turns > count, `${turns}`)
  // Others write in between.
  assert.ok(states.length > 3, `${states.length}`)
  assert.equal(await updates(world), 0)
  await world.reopen({ updateContentTypes: ['report'] })
  assert.equal(await updates(world), count)
})

test('after an end half way through a changed setting, the next start puts all entries right', async (t) => {
  const { world } = await crowded(t)
  const stop = new AbortController()
  const interrupted = new Fold(world.connection, { updateContentTypes: ['update'] }, views).adopt(stop.signal)
  while ((await updates(world)) === count) await nextTurn()
  stop.abort()
  await interrupted
  await world.reopen({ updateContentTypes: [] })
  assert.equal(await updates(world), count)
})

async function updates(world: Scenario): Promise<number> {
  return (await world.entries()).filter((entry) => entry.startsWith('update.create')).length
}

test('labels of a message and events of the stream are written one after the other', async (t) => {
  const { world } = await crowded(t)
  const order: string[] = []
  const long = world.account('E', false, 'deactivated').then(() => order.push('fold'))
  await nextTurn()
  const short = world.connection
    .write((batch) => batch.put('cursors', [{ source: 'labels:x', cursor: 1n }]))
    .then(() => order.push('label'))
  await Promise.all([long, short])
  assert.deepEqual(order, ['fold', 'label'])
})
