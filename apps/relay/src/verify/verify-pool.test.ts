import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Lane } from '@tributary/lanes'
import { parseDidKey } from '@tributary/repo-verify'
import { commitBody, encodeEvent, SignedRepo, Signer } from '@tributary/testkit'
import type { Source } from '../sources/source.ts'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import { VerifyPool } from './verify-pool.ts'

const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa'
const signer = Signer.fromSeed('verify-pool')
const repo = new SignedRepo(did, signer)
const lane = {} as unknown as Lane<Source, UpstreamEvent> // is only handed back
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
  const key = parseDidKey(signer.did()) ?? assert.fail()
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
