import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ClientEvent, StreamError } from '@tributary/client/node'
import type { Did, Nsid, RecordKey } from '@tributary/protocol'
import { did, identityEvents, time } from '../../tests/sample-events.ts'
import { ArchivedRepo } from './archived-repo.ts'

const collection = 'org.impact.collection' as Nsid // it is one
const revs = ['3migo7fijwi22', '3migo7fijwi23', '3migo7fijwi24'] as const
const all = (): boolean => true
let seq = 0

/** A create of the record with this CID, or a delete without one. */
function write(rkey: string, cid?: string, rev: string = revs[0]): ClientEvent {
  const path = { collection, rkey: rkey as RecordKey } // as tests give them
  const operation = cid === undefined ? 'delete' : 'create'
  return {
    kind: 'commit',
    seq: ++seq,
    did,
    time,
    rev,
    operation,
    ...path,
    ...(cid !== undefined && { cid, record: {} }),
  }
}

function account(active: boolean, status?: string): ClientEvent {
  const body = { did, seq: ++seq, time, active, ...(status !== undefined && { status }) }
  return { kind: 'account', seq, did, time, account: body }
}

/** A marker: with 0 it is of the stream, and takes back what was before. */
function sync(innerSeq: number): ClientEvent {
  const body = { did, seq: innerSeq, time, rev: revs[0], blocks: { $bytes: '' } }
  return { kind: 'sync', seq: ++seq, did, time, sync: body }
}

function repoOf(records: Record<string, string>, rev: string = revs[1]) {
  const paths = Object.entries(records).map(([rkey, cid]) => [`${collection}/${rkey}`, cid] as const)
  return { rev, records: new Map(paths), leftOut: [] }
}

function differencesOf(archived: ArchivedRepo, records: Record<string, string>): string[] {
  const found = [...archived.differences(repoOf(records), all)]
  return found.map(({ kind, path }) => `${kind} ${path.split('/')[1] ?? path}`)
}

test('the newest row of a record counts, and each way to differ has a name', () => {
  const archived = new ArchivedRepo(did)
  archived.take([write('same', 'old'), write('gone', 'x'), write('other', 'x'), write('besides', 'x')])
  archived.take([write('same', 'x'), write('gone'), ...identityEvents(++seq)])
  assert.equal(archived.size, 3)
  const repo = { same: 'x', other: 'y', lacking: 'x' }
  assert.deepEqual(differencesOf(archived, repo), ['different other', 'missing lacking', 'extra besides'])
  assert.deepEqual(differencesOf(archived, { same: 'x', other: 'x', besides: 'x' }), [])
})

test('only collections that are compared can differ', () => {
  const archived = new ArchivedRepo(did)
  archived.take([write('besides', 'x')])
  assert.deepEqual([...archived.differences(repoOf({ lacking: 'x' }), () => false)], [])
})

test('what was written after the repository was fetched is no difference', () => {
  const archived = new ArchivedRepo(did)
  const [, , later] = revs
  archived.take([write('changed', 'y', later), write('made', 'x', later), write('deleted', undefined, later)])
  assert.deepEqual(differencesOf(archived, { changed: 'x', deleted: 'x' }), [])
})

test('a sync of the stream takes back what was before it, and one of the host does not', () => {
  const archived = new ArchivedRepo(did)
  archived.take([write('a', 'x'), sync(7)])
  assert.equal(archived.size, 1)
  archived.take([sync(0), write('b', 'x')])
  assert.deepEqual([archived.size, [...archived.collections]], [1, [collection]])
  assert.deepEqual(differencesOf(archived, { b: 'x' }), [])
})

test('an account is hidden until it is active again, and one that was deleted has no records', () => {
  const archived = new ArchivedRepo(did)
  archived.take([write('a', 'x'), account(false, 'takendown')])
  assert.deepEqual([archived.isHidden, archived.size], [true, 1])
  archived.take([account(true)])
  assert.deepEqual([archived.isHidden, archived.size], [false, 1])
  archived.take([account(false, 'throttled')])
  assert.equal(archived.isHidden, false)
  archived.take([account(false, 'deleted')])
  assert.deepEqual([archived.isHidden, archived.size], [true, 0])
})

test('an event that cannot be read, or that is of another account, is told', () => {
  const archived = new ArchivedRepo(did)
  const broken = {
    ...write('a', 'x'),
    get rkey(): RecordKey {
      throw new StreamError('MalformedEvent', 'the row is malformed')
    },
  }
  const other = { ...write('a', 'x'), did: 'did:plc:bbbbbbbbbbbbbbbbbbbbbbbb' as Did } // it is one
  archived.take([broken, other])
  assert.deepEqual(differencesOf(archived, {}), [`unreadable seq ${seq - 1}`, `unreadable seq ${seq}`])
})
