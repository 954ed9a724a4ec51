import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did, Tid } from '@tributary/protocol'
import type { Digest } from '@tributary/repo-verify'
import { readVerdict, verdictText } from './verdict-text.ts'
import type { Verified } from './verified.ts'

const digest = (code: number) => String.fromCharCode(code).repeat(32) as Digest // any byte may come
const commit: Verified = {
  ok: true,
  kind: 'commit',
  did: 'did:web:a.test' as Did, // a DID as it stands
  rev: '3migo7fijwi2k' as Tid, // a TID as it stands
  since: '3migo7fijwi2j' as Tid, // a TID as it stands
  commit: digest(32),
  data: digest(255),
  prevData: digest(0),
  collections: 'app.a.b app.a.c',
  waived: undefined,
}

test('a verdict reads as it was written, with and without what may be missing', () => {
  const first = { ...commit, since: null, prevData: undefined }
  const sync = { ...first, kind: 'sync', since: undefined, collections: '' } as const
  for (const verdict of [commit, first, { ...commit, collections: '' }, sync]) {
    const text = verdictText(verdict)
    assert.ok(text !== undefined)
    assert.deepEqual(readVerdict(Buffer.from(text, 'latin1').toString('latin1')), verdict)
  }
})

test('what was let off a rule goes as it is', () => {
  assert.equal(verdictText({ ...commit, waived: ['malformed-time'] }), undefined)
})
