import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Lane } from '@tributary/lanes'
import { parseDidKey } from '@tributary/repo-verify'
import { commitBody, encodeEvent, eventually, SignedRepo, Signer } from '@tributary/testkit'
import type { Source } from '../sources/source.ts'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import { VerifyPool } from './verify-pool.ts'

const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa'
const signer = Signer.fromSeed('verify-pool')
const repo = new SignedRepo(did, signer)
const lane = {} as unknown as Lane<Source, UpstreamEvent> // is only handed back
const key = parseDidKey(signer.did()) ?? assert.fail()
let seq = 0

/** As much of an event as the pool looks at. */
function event(): UpstreamEvent {
  const write = { action: 'create', collection: 'org.impact.one', rkey: `r${seq}`, record: {} } as const
  const bytes = encodeEvent('#commit', {
    seq: ++seq,
    time: new Date().toISOString(),
    ...commitBody(repo.commit([write])),
  })
  return {
    account: { logId: 1n, row: 1 },
    message: { bytes: Buffer.from(bytes) },
  } as unknown as UpstreamEvent // likewise
}

test('while its thread is being started a batch is verified here, and verdicts stay in order', async (t) => {
  const pool = new VerifyPool({ workers: 1 })
  t.after(() => pool.close())
  const seen: UpstreamEvent[] = []
  pool.onVerdict((each, _, verdict) => {
    assert.ok(verdict.ok)
    seen.push(each)
  })
  const events = Array.from({ length: 150 }, event)
  for (const each of events) pool.add(each, lane, key, true)
  // At least one event is verified in each turn. A thread takes many more turns to start.
  for (let turn = 0; turn < 64 + 2; turn++) await setImmediate()
  assert.ok(seen.length >= 64, `${seen.length} verdicts`)
  while (pool.busyMs === 0 || pool.pendingBytes > 0) {
    if (pool.pendingBytes === 0)
      for (let i = 0; i < 10; i++)
        pool.add(events[events.push(event()) - 1] ?? assert.fail(), lane, key, true)
    await setImmediate()
  }
  assert.deepEqual(
    seen.map((each) => events.indexOf(each)),
    events.map((_, i) => i),
  )
})

test('verdicts come in the order of the events, however many come at a time and however large they are', async (t) => {
  const pool = new VerifyPool({ workers: 1 })
  t.after(() => pool.close())
  const seen: number[] = []
  pool.onVerdict((each, _, verdict, bytes) => {
    seen.push(each.receipt.upstreamSeq)
    assert.ok(!verdict.ok)
    assert.equal(bytes.readUInt32BE(bytes.length - 4), each.receipt.upstreamSeq, 'the bytes are its own')
  })
  let added = 0
  const add = (count: number, padding: number): void => {
    for (let i = 0; i < count; i++) {
      const bytes = Buffer.alloc(padding + 4)
      bytes.writeUInt32BE(++added, padding)
      const account = { logId: 1n, row: 1 }
      const each = { account, message: { bytes }, receipt: { upstreamSeq: added } }
      pool.add(each as unknown as UpstreamEvent, lane, key, true) // as far as the pool looks at it
    }
  }
  for (const [count, padding] of [
    [1, 0],
    [64, 100],
    [1, 0],
    [30, 40_000],
    [1, 0],
    [200, 10],
    [1, 300_000],
    [1, 0],
  ] as const) {
    add(count, padding)
    await setImmediate()
  }
  await eventually(() => seen.length === added)
  assert.deepEqual(
    seen,
    Array.from(seen, (_, i) => i + 1),
  )
  assert.equal(pool.pendingBytes, 0)
})

test('what comes while the thread is at work does not overtake what it works on', async (t) => {
  const pool = new VerifyPool({ workers: 1 })
  t.after(() => pool.close())
  const seen: UpstreamEvent[] = []
  pool.onVerdict((each) => seen.push(each))
  const events: UpstreamEvent[] = []
  const add = (count: number): void => {
    for (let i = 0; i < count; i++) {
      const each = event()
      events.push(each)
      pool.add(each, lane, key, true)
    }
  }
  // Three events go to the thread, once that is there. One event alone would be verified here.
  for (let round = 0; round < 12 || pool.busyMs === 0; round++) {
    add(3)
    await setImmediate()
    add(1)
    await eventually(() => seen.length === events.length)
  }
  assert.deepEqual(
    seen.map((each) => events.indexOf(each)),
    events.map((_, i) => i),
  )
})
