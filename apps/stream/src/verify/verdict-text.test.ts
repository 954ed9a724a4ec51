import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did, Nsid, RecordKey, Tid } from '@tributary/protocol'
import type { AccountBound, Digest } from '@tributary/repo-verify'
import { readVerdict, verdictText } from './verdict-text.ts'
import type { Good, GoodCommit } from './verified.ts'

const digest = (code: number) => String.fromCharCode(code).repeat(32) as Digest // any byte may come
const did = 'did:web:a.test' as Did // a DID as it stands
const tid = (text: string) => text as Tid // TIDs as they stand
const op = (rkey: string) => ({ collection: 'app.a.b' as Nsid, rkey: rkey as RecordKey }) // names as they stand
const message = { did, upstreamSeq: 7 } as AccountBound // all that is read
const outer = Buffer.from('before the message and its records')
const bytes = outer.subarray(7, 30)

const commit: GoodCommit = {
  ok: true,
  kind: 'commit',
  did,
  upstreamSeq: 7,
  rev: tid('3migo7fijwi2k'),
  since: tid('3migo7fijwi2j'),
  data: digest(10),
  prevData: digest(0),
  dropped: ['invalid-path', 'missing-record'],
  ops: [
    { action: 'create', ...op('self'), cid: digest(10), record: bytes.subarray(0, 0) },
    { action: 'delete', ...op('_'), cid: undefined, record: undefined },
    { action: 'update', ...op('a:b~c'), cid: digest(32), record: bytes.subarray(3, 12) },
  ],
}

test('a verdict reads as it was written, with and without what may be missing', () => {
  const sync: Good = { ok: true, kind: 'sync', did, upstreamSeq: 7, rev: commit.rev, data: digest(32) }
  const first = { ...commit, since: null, prevData: undefined }
  for (const verdict of [commit, first, { ...commit, ops: [] }, { ...first, dropped: [] }, sync]) {
    const written = Buffer.from(verdictText(verdict, bytes), 'latin1').toString('latin1')
    assert.deepEqual(readVerdict(written, message, bytes), verdict)
  }
})
