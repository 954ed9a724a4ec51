import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import Database from 'better-sqlite3'
import type { Did, Tid } from '@tributary/protocol'
import { sampleMessage } from '../../tests/sample-message.ts'
import { sampleSource } from '../../tests/sample-source.ts'
import { TestClock } from '../../tests/test-clock.ts'
import { finish, newEvent } from '../sources/upstream-event.ts'
import { prepare } from './schema.ts'
import { StateStore } from './state-store.ts'
import { StateTrail } from './state-trail.ts'

const did = `did:plc:${'a'.repeat(24)}` as Did // of the right form
const rev = (n: number): Tid => `3l${String(n).padStart(11, '2')}` as Tid // of the right form

function trailOf(t: TestContext, { clock = new TestClock(), nowMs = (): number => 0 } = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'state-trail-'))
  const path = join(directory, 'state.sqlite')
  const store = new StateStore(path)
  const source = sampleSource(nowMs)
  const trail = new StateTrail(store, () => [source], clock)
  const account = store.accounts.take(did)
  store.accounts.assign(account, 1, 'active')
  t.after(async () => {
    await trail.close()
    await store.close()
    rmSync(directory, { recursive: true })
  })
  let writes = 0
  store.onWritten(() => writes++)
  return {
    clock,
    path,
    store,
    trail,
    source,
    account,
    writes: () => writes,
    log: (seq: number) => {
      account.rev = rev(seq)
      trail.push(seq, account)
    },
    stored: () => {
      const db = new Database(path, { readonly: true })
      const seq = db.prepare('SELECT seq FROM applied').pluck().get()
      const [known] = db.prepare('SELECT rev, is_desynchronized mark FROM account').all()
      const cursor = db.prepare('SELECT cursor FROM source').pluck().get()
      db.close()
      return { seq, ...(known as { rev: string; mark: number } | undefined), cursor } // as selected
    },
  }
}

/** What is stored of the source above its cursor. */
function aheadIn(path: string): unknown {
  const db = new Database(path, { readonly: true })
  const text = db.prepare<[], string>('SELECT ahead FROM source').pluck().get()
  db.close()
  return JSON.parse(text ?? '[]')
}

test('what is written is the state after one record, once that is durable, whatever came meanwhile', async (t) => {
  const { trail, store, log, stored } = trailOf(t)
  log(1)
  log(2)
  trail.durable(1)
  trail.flush()
  assert.ok(!store.isWriting)
  log(3)
  trail.durable(2)
  await store.whenWritten()
  assert.deepEqual(stored(), { seq: 2, rev: rev(2), mark: 0, cursor: undefined })
  trail.durable(3)
  trail.flush()
  await store.whenWritten()
  assert.deepEqual(stored(), { seq: 3, rev: rev(3), mark: 0, cursor: undefined })
})

test('a cursor does not pass an event before the mark that it left is stored', async (t) => {
  const { trail, store, source, account, log, stored } = trailOf(t)
  const event = newEvent(source, account, sampleMessage(50), 0)
  source.begin(event.receipt)
  log(1)
  trail.flush()
  // After the state was cut, and before a further record.
  account.isIncomplete = true
  trail.push(1, account)
  finish(event, 0, 1)
  log(2)
  trail.durable(1)
  await store.whenWritten()
  const { cursor, mark } = stored()
  assert.deepEqual([cursor, mark], [50, 2])
})

test('accounts that hosts made up leave the stored state when they are forgotten, after a start too', async (t) => {
  const { trail, store, path } = trailOf(t)
  const dids = ['b', 'c', 'd'].map((letter) => `did:plc:${letter.repeat(24)}` as Did) // of the right form
  const mark = (name: Did): void => {
    const account = store.accounts.take(name)
    account.isIncomplete = true
    trail.push(1, account)
  }
  const giveUp = (name: Did, { accounts } = store, by = trail): void => {
    const account = accounts.take(name)
    account.isIncomplete = false
    by.forget(account)
    accounts.forget(account)
  }
  const written = async (by = trail, into = store): Promise<unknown[]> => {
    by.durable(1)
    by.flush()
    await into.whenWritten()
    const db = new Database(path, { readonly: true })
    const stored = db.prepare('SELECT did FROM account WHERE source_id = 0').pluck().all()
    db.close()
    return stored
  }
  dids.forEach(mark)
  assert.deepEqual(await written(), dids)
  const [first, second, third] = dids as [Did, Did, Did] // of three
  giveUp(first)
  giveUp(second)
  mark(second)
  assert.deepEqual(await written(), [second, third])
  await trail.close()
  const later = new StateStore(path)
  const trailLater = new StateTrail(later, () => [])
  giveUp(third, later, trailLater)
  assert.deepEqual(await written(trailLater, later), [second])
  await trailLater.close()
  await later.close()
})

test('an account that is named again when it was just forgotten stays in the stored state', async (t) => {
  const { trail, store, path } = trailOf(t)
  const stranger = `did:plc:${'b'.repeat(24)}` as Did // of the right form
  const mark = (): void => {
    const account = store.accounts.take(stranger)
    account.isIncomplete = true
    trail.push(1, account)
  }
  mark()
  trail.durable(1)
  trail.flush()
  await store.whenWritten()
  // The state is cut, and waits for its record to be durable.
  trail.pass(2)
  trail.flush()
  const account = store.accounts.take(stranger)
  trail.forget(account)
  store.accounts.forget(account)
  mark()
  trail.durable(2)
  await store.whenWritten()
  trail.flush()
  await store.whenWritten()
  const db = new Database(path, { readonly: true })
  const stored = db.prepare('SELECT did FROM account WHERE source_id = 0').pluck().all()
  db.close()
  assert.deepEqual(stored, [stranger])
})

test('an account that is about to be forgotten is not stored, since no start would read it back', async (t) => {
  const { trail, store, path } = trailOf(t)
  const account = store.accounts.take(`did:plc:${'b'.repeat(24)}` as Did) // of the right form
  const storedWith = async (isIncomplete: boolean): Promise<unknown> => {
    account.isIncomplete = isIncomplete
    trail.push(1, account)
    trail.durable(1)
    trail.flush()
    await store.whenWritten()
    const db = new Database(path, { readonly: true })
    const count = db.prepare('SELECT count(*) FROM account WHERE source_id = 0').pluck().get()
    db.close()
    return count
  }
  const counts = []
  for (const isIncomplete of [false, true, false]) counts.push(await storedWith(isIncomplete))
  assert.deepEqual(counts, [0, 1, 0])
})

test('the state of the start is synced when nothing happens, so that the log may let go of what is in it', async (t) => {
  const { trail, store, path, log } = trailOf(t)
  log(50)
  trail.durable(50)
  trail.flush()
  await trail.close()
  await store.whenWritten()
  const clock = new TestClock()
  const later = new StateStore(path)
  const trailLater = new StateTrail(later, () => [], clock)
  let writes = 0
  later.onWritten(() => writes++)
  assert.deepEqual([later.appliedSeq, later.syncedSeq], [50, 0])
  await clock.pass(10_000)
  await later.whenWritten()
  assert.deepEqual([later.syncedSeq, writes], [50, 1])
  await clock.pass(60_000)
  await trailLater.close()
  await later.close()
  assert.equal(writes, 1)
})

test('a busy account is written every four seconds, and the last of it at the end', async (t) => {
  const { trail, clock, log, store, writes, stored } = trailOf(t)
  for (let seq = 1; seq <= 50; seq++) {
    log(seq)
    trail.durable(seq)
    await clock.pass(400)
    await store.whenWritten()
  }
  assert.equal(writes(), 5)
  await trail.close()
  await store.whenWritten()
  assert.deepEqual([stored().seq, stored().rev], [50, rev(50)])
})

test('a stop stores until when sources were caught up with that sent nothing, and so does each minute', async (t) => {
  const clock = new TestClock()
  const { trail, store, source, path } = trailOf(t, { clock, nowMs: () => clock.nowMs() })
  const caughtUpAtMs = (): unknown => {
    const db = new Database(path, { readonly: true })
    const at = db.prepare('SELECT caught_up_at_ms FROM source').pluck().get()
    db.close()
    return at
  }
  source.lastConnectedAtMs = clock.nowMs()
  source.reading.open()
  await clock.pass(60_000)
  await store.whenWritten()
  assert.ok(clock.nowMs() - Number(caughtUpAtMs()) < 60_000, String(caughtUpAtMs()))
  await clock.pass(5000)
  await trail.close()
  await store.whenWritten()
  assert.equal(caughtUpAtMs(), clock.nowMs())
})

test('a cursor passes, and names above it tell, only what the stored state accounts for', async (t) => {
  const { trail, store, source, account, log, stored, path } = trailOf(t)
  const [open, logged, last] = [50, 51, 52].map((upstreamSeq) => {
    const event = newEvent(source, account, sampleMessage(upstreamSeq), 0)
    source.begin(event.receipt)
    return event
  })
  assert.ok(open && logged && last)
  log(1)
  trail.flush()
  trail.storeSource(source)
  // After the state was cut.
  log(2)
  finish(logged, 2)
  trail.durable(2)
  await store.whenWritten()
  assert.deepEqual([source.cursor, source.stored(1).ahead, stored().seq, stored().cursor], [0, [], 1, 0])
  assert.deepEqual(aheadIn(path), [])
  trail.flush()
  await store.whenWritten()
  assert.deepEqual(aheadIn(path), [51])
  log(3)
  trail.flush()
  log(4)
  finish(open, 3)
  finish(last, 4)
  trail.durable(4)
  await store.whenWritten()
  assert.deepEqual([stored().seq, stored().cursor], [3, 51])
})

test('events are bounded of which the database does not know yet, and cuts follow at once when there are many', async () => {
  const clock = new TestClock()
  const db = new Database(':memory:')
  prepare(db)
  const writes: (() => void)[] = []
  const write = async () => await new Promise<boolean>((resolve) => writes.push(() => resolve(true)))
  const store = new StateStore({ db, write })
  const source = sampleSource(() => 0)
  const trail = new StateTrail(store, () => [source], clock)
  const receive = (count: number): void => {
    for (let n = 0; n < count; n++) trail.receive()
  }
  const written = async (): Promise<void> => {
    writes.shift()?.()
    await setImmediate()
  }
  receive(100_000)
  assert.equal(writes.length, 0)
  receive(1)
  assert.deepEqual([writes.length, trail.isFull], [1, false])
  receive(100_000)
  assert.ok(!trail.isFull)
  receive(1)
  assert.ok(trail.isFull)
  const event = newEvent(source, store.accounts.take(did), sampleMessage(50), 0)
  source.begin(event.receipt)
  finish(event, 0)
  await written()
  assert.deepEqual([writes.length, trail.isFull, source.cursor], [1, false, 50])
  await written()
  // The cut waits for its record to be durable, and then has nothing to write.
  trail.pass(1)
  trail.flush()
  receive(100_001)
  trail.durable(1)
  assert.deepEqual([writes.length, trail.isFull], [0, true])
  await clock.pass(250)
  assert.deepEqual([writes.length, trail.isFull], [1, false])
  await written()
  await trail.close()
  await store.close()
})

test('the end of a loss is stored though a cut from before it waits, and no event comes any more', async (t) => {
  const { trail, store, source, path, log } = trailOf(t)
  const lost = (): unknown => {
    const db = new Database(path, { readonly: true })
    const row = db.prepare('SELECT lost_at_ms, walk_from FROM source').raw().get()
    db.close()
    return row
  }
  source.lostAtMs = 1
  trail.storeSource(source)
  await store.whenWritten()
  assert.deepEqual(lost(), [1, ''])
  source.noteWalk(1, did, 0)
  trail.storeSource(source)
  await store.whenWritten()
  assert.deepEqual(lost(), [1, did])
  log(1)
  trail.flush()
  log(2)
  source.endLoss(trail.newestSeq)
  trail.storeSource(source)
  trail.durable(1)
  await store.whenWritten()
  trail.durable(2)
  await store.whenWritten()
  assert.deepEqual(lost(), [0, ''])
})
