import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { encode } from '@atcute/cbor'
import { rowKind, type Row } from '@tributary/segment'
import { newRow } from '../../tests/rows.ts'
import { openStateDatabase } from '../state-database.ts'
import { broughtLive } from './archived-records.ts'
import { RepoStates, unknownRepo } from './repo-states.ts'
import { noteBackfilled, noteWritten } from './written-rows.ts'

test('rows of events that did not come again yet are known beside those of another stop', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'written-rows-'))
  const database = openStateDatabase(join(directory, 'state.sqlite'))
  t.after(() => {
    database.close()
    rmSync(directory, { recursive: true })
  })
  const states = new RepoStates(database)
  const did = 'did:plc:a'
  states.set(did, { ...unknownRepo, rev: 'r0', written: [{ event: 'commit r1', rows: 2 }] })
  const rows = [newRow({ n: 1, did }), newRow({ n: 2, did }), newRow({ n: 2, did })]
  noteWritten(
    states,
    rows.map(({ draft }, i) => ({ ...draft, seq: i + 1 })),
  )
  assert.deepEqual(states.get(did)?.written, [
    { event: 'commit r1', rows: 3 },
    { event: 'commit r2', rows: 2, paths: ['app.a.b/k2', 'app.a.b/k2'] },
  ])
  assert.equal(states.get(did)?.rev, 'r0')
})

const [isBack, isGone] = [{ active: true }, { active: false, status: 'takendown' }]

function accountRow(did: string, seq: number, body: object): Row {
  const { draft } = newRow({ n: seq, did, kind: rowKind.account })
  return { ...draft, rev: '', seq, payload: encode({ did, seq, time: `2026-01-01T00:00:0${seq}Z`, ...body }) }
}

test('an account is hidden as its rows say, and has to be read again when it came back', () => {
  const states = new RepoStates(openStateDatabase(':memory:'))
  const did = 'did:plc:a'
  const hidden = (): object => {
    const { isHidden, isTakenDown, needsRefetch } = states.get(did) ?? unknownRepo
    return { isHidden, isTakenDown, needsRefetch }
  }
  states.set(did, { ...unknownRepo, rev: 'r0' })
  noteWritten(states, [accountRow(did, 1, isGone)])
  assert.deepEqual(hidden(), { isHidden: true, isTakenDown: true, needsRefetch: false })
  noteWritten(states, [accountRow(did, 2, isBack)])
  assert.deepEqual(hidden(), { isHidden: false, isTakenDown: false, needsRefetch: true })
})

test('an account that came, went and came back before its state was saved has to be read again', () => {
  const states = new RepoStates(openStateDatabase(':memory:'))
  const did = 'did:plc:a'
  const bodies = [{ active: true }, undefined, { active: false, status: 'takendown' }, { active: true }]
  const rows = bodies.map((body, i): Row => {
    const seq = i + 1
    const { draft } = newRow({ n: seq, did, ...(body && { kind: rowKind.account }) })
    const time = `2026-01-01T00:00:0${seq}Z`
    return { ...draft, seq, ...(body && { rev: '', payload: encode({ did, seq, time, ...body }) }) }
  })
  noteWritten(states, rows)
  const { isHidden, needsRefetch } = states.get(did) ?? unknownRepo
  assert.deepEqual({ isHidden, needsRefetch }, { isHidden: false, needsRefetch: true })
})

test('a repository of which a stop left a marker is read again, though the saved state knows of no mark', () => {
  const states = new RepoStates(openStateDatabase(':memory:'))
  for (const did of ['did:plc:marker', 'did:plc:added']) {
    states.set(did, { ...unknownRepo, rev: 'r0', completeRevision: 1 })
    const kind = did.endsWith('marker') ? rowKind.sync : rowKind.create
    noteBackfilled(states, [{ ...newRow({ n: 1, did, kind }).draft, seq: 1 }])
    assert.equal(states.get(did)?.backfillRev, 'r1')
    assert.equal(states.get(did)?.needsRefetch, kind === rowKind.sync)
  }
})

test('what a refill wrote before its account was hidden does not count, whatever of it the saved states say', () => {
  const did = 'did:plc:a'
  const backfilled = (seq: number, kind: 1 | 6 = 1): Row => ({ ...newRow({ n: seq, did, kind }).draft, seq })
  const hides = [accountRow(did, 4, isGone), accountRow(did, 5, isBack)]
  const begun = { ...unknownRepo, backfillRev: 'r1' }
  const cases = {
    'all of it was saved': { saved: begun, backfill: [], events: hides },
    'nothing was saved': { saved: undefined, backfill: [backfilled(2)], events: hides },
    'a marker was not saved': {
      saved: undefined,
      backfill: [backfilled(2, 6), backfilled(3)],
      events: hides,
    },
    'it is hidden still': { saved: begun, backfill: [backfilled(2)], events: hides.slice(0, 1) },
  }
  for (const [what, { saved, backfill, events }] of Object.entries(cases)) {
    const states = new RepoStates(openStateDatabase(':memory:'))
    if (saved) {
      states.set(did, saved)
      states.archived.note(did, 'app.a.b/k1', 'cid')
    }
    noteBackfilled(states, backfill, noteWritten(states, events))
    const { isHidden, needsRefetch, backfillRev } = states.get(did) ?? unknownRepo
    assert.equal(isHidden, events.length === 1, what)
    assert.ok(needsRefetch || isHidden, what)
    assert.ok(backfillRev !== '', what)
    assert.deepEqual(states.archived.of(did), new Map(), what)
  }
  // What came after it was back counts.
  const states = new RepoStates(openStateDatabase(':memory:'))
  noteBackfilled(states, [backfilled(2), backfilled(6, 6), backfilled(7)], noteWritten(states, hides))
  assert.deepEqual([...states.archived.of(did).keys()], ['$sync', 'app.a.b/k7'])
})

test('records of rows that events brought before a stop are known as such, and are taken back by a later marker', () => {
  const states = new RepoStates(openStateDatabase(':memory:'))
  const [did, other] = ['did:plc:a', 'did:plc:b']
  const live = [newRow({ n: 1, did }), newRow({ n: 2, did: other })]
  noteWritten(
    states,
    live.map(({ draft }, i) => ({ ...draft, seq: i + 1 })),
  )
  noteBackfilled(states, [{ ...newRow({ n: 3, did: other, kind: rowKind.sync }).draft, seq: 3 }])
  assert.deepEqual([...states.archived.of(did).values()], [broughtLive])
  assert.deepEqual([...states.archived.of(other).keys()], ['$sync'])
})
