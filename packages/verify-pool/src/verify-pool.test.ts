import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { parseDidKey } from '@tributary/repo-verify'
import { commitBody, encodeEvent, eventually, SignedRepo, Signer } from '@tributary/testkit'
import { deadly, verify, type Good } from '../tests/verify.ts'
import type { Verdict } from './verdict.ts'
import { VerifyPool } from './verify-pool.ts'

interface Event {
  readonly source: object
  readonly message: { bytes: Buffer }
  readonly number: number
}

const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa'
const signer = Signer.fromSeed('verify-pool')
const repo = new SignedRepo(did, signer)
const key = parseDidKey(signer.did()) ?? assert.fail()
const source = {}

/** A pool with what it was given and what it has said, in order. */
function newPool(t: TestContext, thread: URL = new URL('../tests/thread.ts', import.meta.url)) {
  const pool = new VerifyPool<Event, string, Good>({
    workers: 1,
    thread,
    placeOf: () => 0,
    verify: (_, bytes, ofKey, isStrict) => verify(bytes, ofKey, isStrict, 'here'),
    read: (text) => ({ ok: true, rev: text.split(' ')[0] ?? '', policy: text.split(' ')[1] ?? '' }),
  })
  t.after(() => pool.close())
  const events: Event[] = []
  const originals: Buffer[] = []
  const seen: number[] = []
  const verdicts: Verdict<Good>[] = []
  const died: Error[] = []
  pool.onThreadDied((error) => died.push(error))
  pool.onVerdict((event, lane, verdict, bytes) => {
    assert.equal(lane, 'lane')
    assert.ok(bytes.equals(originals[event.number] ?? assert.fail()), 'the bytes are its own')
    seen.push(event.number)
    verdicts.push(verdict)
  })
  const addBytes = (bytes: Buffer, isKeyed = true): void => {
    const event = { source, message: { bytes }, number: events.length }
    events.push(event)
    originals.push(Buffer.from(bytes))
    pool.add(event, 'lane', isKeyed ? key : undefined, true)
    // The caller may use its memory again.
    bytes.fill(0)
  }
  return { pool, events, seen, verdicts, died, addBytes, add: (text = 'x') => addBytes(commit(text)) }
}

function commit(text: string): Buffer {
  const write = {
    action: 'create',
    collection: 'org.impact.one',
    rkey: `r${rkeys++}`,
    record: { text },
  } as const
  const time = new Date().toISOString()
  return Buffer.from(encodeEvent('#commit', { seq: 1, time, ...commitBody(repo.commit([write])) }))
}

let rkeys = 0

const inOrder = (events: readonly unknown[]): number[] => events.map((_, i) => i)

function isOfThread(verdict: Verdict<Good>): boolean {
  return verdict.ok && verdict.policy !== 'here'
}

/** Has the pool begin its thread, and waits until that verifies. */
async function begin({ events, seen, verdicts, add }: ReturnType<typeof newPool>): Promise<void> {
  while (seen.length < events.length || !verdicts.some(isOfThread)) {
    if (seen.length === events.length) for (let i = 0; i < 3; i++) add()
    await setImmediate()
  }
}

test('while its thread is being started a batch is verified here, and verdicts stay in order', async (t) => {
  const tried = newPool(t)
  const { pool, events, seen, verdicts, add } = tried
  pool.setPolicy('one')
  for (let i = 0; i < 150; i++) add()
  // At least one event is verified in each turn. A thread takes many more turns to start.
  for (let turn = 0; turn < 64 + 2; turn++) await setImmediate()
  assert.ok(seen.length >= 64, `${seen.length} verdicts`)
  await begin(tried)
  assert.deepEqual(seen, inOrder(events))
  assert.ok(verdicts.every(({ ok }) => ok))
  assert.equal(pool.pendingBytes, 0)
})

test('verdicts come in the order of the events, however many come at a time and however large they are', async (t) => {
  const { pool, events, seen, verdicts, addBytes } = newPool(t)
  for (const [count, length] of [
    [1, 4],
    [64, 100],
    [1, 4],
    [30, 40_000],
    [1, 4],
    [200, 10],
    [1, 300_000],
    [1, 4],
  ] as const) {
    for (let i = 0; i < count; i++) addBytes(Buffer.alloc(length, events.length + 1))
    await setImmediate()
  }
  await eventually(() => seen.length === events.length)
  assert.deepEqual(seen, inOrder(events))
  assert.ok(verdicts.every(({ ok }) => !ok))
  assert.equal(pool.pendingBytes, 0)
})

test('what comes while the thread is at work does not overtake what it works on', async (t) => {
  const tried = newPool(t)
  const { pool, events, seen, add } = tried
  pool.setPolicy('one')
  await begin(tried)
  // Three events go to the thread. One event alone would be verified here.
  for (let round = 0; round < 12; round++) {
    for (let i = 0; i < 3; i++) add()
    await setImmediate()
    add()
    await eventually(() => seen.length === events.length)
  }
  assert.deepEqual(seen, inOrder(events))
})

test('a program that has few events at a time begins no thread', async (t) => {
  const { pool, events, seen, verdicts, add } = newPool(t)
  for (let round = 0; round < 50; round++) {
    add()
    if (round % 2 === 0) add()
    await setImmediate()
  }
  assert.deepEqual(seen, inOrder(events))
  assert.ok(verdicts.every((verdict) => verdict.ok && verdict.policy === 'here'))
  assert.equal(pool.busyMs, 0)
})

test('an event without a key, and one that makes verification throw, is told so, and the others are verified', async (t) => {
  const tried = newPool(t)
  const { pool, events, seen, verdicts, died, add, addBytes } = tried
  pool.setPolicy('one')
  for (const isThreaded of [false, true]) {
    if (isThreaded) await begin(tried)
    const first = events.length
    add()
    addBytes(commit('x'), false)
    add('defect')
    add()
    await eventually(() => seen.length === events.length)
    const said = verdicts.slice(first).map((verdict) => (verdict.ok ? 'good' : verdict.reason))
    assert.deepEqual(said, ['good', 'missing-key', 'internal-error', 'good'])
  }
  assert.deepEqual(died, [])
})

test('events that are added after a change of policy are verified with it', async (t) => {
  const tried = newPool(t)
  const { pool, events, seen, verdicts, add } = tried
  pool.setPolicy('one')
  await begin(tried)
  const first = events.length
  for (const policy of ['one', 'two']) {
    pool.setPolicy(policy)
    for (let i = 0; i < 100; i++) add()
  }
  await eventually(() => seen.length === events.length)
  const policies = verdicts.slice(first).map((verdict) => verdict.ok && verdict.policy)
  assert.equal(policies[0], 'one')
  assert.deepEqual(policies.slice(100), Array<string>(100).fill('two'))
})

test('a thread that ends costs no event: the next one verifies what it had in hand, in order', async (t) => {
  const tried = newPool(t)
  const { pool, events, seen, verdicts, died, add } = tried
  pool.setPolicy('first')
  await begin(tried)
  const before = events.length
  for (let i = 0; i < 200; i++) add(i === 0 ? deadly('first') : 'x')
  // The thread that follows knows of another policy, under which the event ends nothing.
  pool.setPolicy('second')
  await eventually(() => seen.length === events.length)
  assert.equal(died.length, 1)
  assert.deepEqual(seen, inOrder(events))
  assert.ok(verdicts.slice(before).every(({ ok }) => ok))
  assert.equal(pool.pendingBytes, 0)
})

test('an event that ends each thread costs that event alone', async (t) => {
  const tried = newPool(t)
  const { pool, events, seen, verdicts, died, add } = tried
  pool.setPolicy('first')
  await begin(tried)
  const before = events.length
  for (let i = 0; i < 100; i++) add(i === 7 ? deadly('first') : 'x')
  await eventually(() => seen.length === events.length)
  assert.equal(died.length, 2)
  assert.deepEqual(seen, inOrder(events))
  const bad = verdicts.slice(before).map((verdict) => (verdict.ok ? 'good' : verdict.reason))
  assert.deepEqual(
    bad,
    bad.map((_, i) => (i === 7 ? 'internal-error' : 'good')),
  )
  assert.equal(pool.pendingBytes, 0)
})

test('where no thread can be begun, events are verified here', async (t) => {
  const { pool, events, seen, verdicts, died, add } = newPool(t, new URL('no-such-file.ts', import.meta.url))
  for (let i = 0; i < 200; i++) add()
  await eventually(() => seen.length === events.length && died.length > 0)
  for (let i = 0; i < 200; i++) add()
  await eventually(() => seen.length === events.length)
  assert.deepEqual(seen, inOrder(events))
  assert.ok(verdicts.every(({ ok }) => ok))
  assert.equal(died.length, 1)
  assert.equal(pool.pendingBytes, 0)
})

test('verdicts that cost their caller much are handed out in many turns of the event loop, in order', async (t) => {
  const { pool, events, seen, add } = newPool(t)
  let [atOnce, most] = [0, 0]
  pool.onVerdict(({ number }) => {
    for (const beganMs = performance.now(); performance.now() - beganMs < 6;);
    seen.push(number)
    most = Math.max(most, ++atOnce)
    // It comes when control returns to the event loop.
    queueMicrotask(() => (atOnce = 0))
  })
  for (let i = 0; i < 40; i++) add()
  await eventually(() => seen.length === events.length)
  assert.deepEqual(seen, inOrder(events))
  // Two take longer than verdicts may take in one turn.
  assert.ok(most <= 2, `${most} at once`)
  assert.equal(pool.pendingBytes, 0)
})
