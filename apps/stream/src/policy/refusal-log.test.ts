import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { openStateDatabase } from '../state-database.ts'
import { RefusalLog } from './refusal-log.ts'

const hourMs = 3_600_000
const all = { limit: 100_000 }

/** A log whose saves are called for. */
function begin(t: TestContext) {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const clock = { nowMs: 1_700_000_000_000 }
  let changes: (() => void)[] = []
  const alongside = (change: () => void): void => void changes.push(change)
  const log = new RefusalLog(database, { alongside }, { nowMs: () => clock.nowMs } as never) // nothing is waited for
  const save = (): void => {
    const taken = changes
    changes = []
    for (const change of taken) change()
  }
  return { log, save, clock }
}

test('a refusal is listed once the states are saved, and what comes again is none', (t) => {
  const { log, save } = begin(t)
  log.note({
    reason: 'bad-signature',
    detail: 'x'.repeat(1000),
    did: 'did:plc:a',
    kind: 'commit',
    upstreamSeq: 7,
  })
  log.note({ reason: 'stale-rev', detail: 'it came before' })
  log.note({ reason: 'repeat', detail: 'it came before' })
  assert.deepEqual(log.list(all), [])
  save()
  log.note({ reason: 'malformed-frame', detail: 'no account can be told' })
  save()
  const [last, first, ...more] = log.list(all)
  assert.deepEqual(more, [])
  assert.deepEqual(
    [last?.reason, last?.did, last?.kind, last?.upstreamSeq],
    ['malformed-frame', null, null, null],
  )
  const { reason, did, kind, upstreamSeq, detail = '' } = first ?? {}
  assert.deepEqual(
    [reason, did, kind, upstreamSeq, detail.length],
    ['bad-signature', 'did:plc:a', 'commit', 7, 256],
  )
})

test('neither a flood nor one account fills the list', (t) => {
  const { log, save, clock } = begin(t)
  for (let n = 0; n < 1000; n++) log.note({ reason: 'malformed-frame', detail: String(n) })
  for (let n = 0; n < 100; n++) log.note({ reason: 'bad-signature', detail: String(n), did: 'did:plc:a' })
  log.note({ reason: 'bad-signature', detail: 'another', did: 'did:plc:b' })
  save()
  const count = (reason: string): number => log.list({ ...all, reason }).length
  assert.deepEqual([count('malformed-frame'), count('bad-signature')], [200, 31])
  for (let n = 0; n < 100; n++) log.note({ reason: 'malformed-frame', detail: String(n) })
  clock.nowMs += hourMs
  log.note({ reason: 'bad-signature', detail: 'an hour later', did: 'did:plc:a' })
  save()
  assert.deepEqual([count('malformed-frame'), count('bad-signature')], [300, 32])
  clock.nowMs += 8 * 24 * hourMs
  assert.equal(log.list(all).length, 0)
})
