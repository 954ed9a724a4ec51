import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { isSigned, parseDidKey, readMessage, verifyMessage } from '@tributary/repo-verify'
import { commitBody, encodeEvent, SignedRepo, Signer } from '@tributary/testkit'
import { trustWatched } from './verified.ts'

test('the CID of a record is taken from those who have hashed it', () => {
  const signer = Signer.fromSeed('verified')
  const repo = new SignedRepo('did:plc:aaaaaaaaaaaaaaaaaaaaaaaa', signer)
  const write = { action: 'create', collection: 'org.impact.one', rkey: 'a', record: { text: 'x' } } as const
  const time = new Date().toISOString()
  const message = readMessage(encodeEvent('#commit', { seq: 1, time, ...commitBody(repo.commit([write])) }))
  assert.ok(message.ok && isSigned(message))
  const options = { key: parseDidKey(signer.did()), nowMs: Date.now(), strict: true, isWanted: () => true }
  const [checked, trusted] = [verifyMessage(message, options), trustWatched(message, () => true)]
  assert.ok(checked.ok && checked.kind === 'commit' && trusted.ok && trusted.kind === 'commit')
  const [op] = checked.ops
  assert.deepEqual(trusted.ops, [{ ...op, cid: undefined }])
  assert.equal(op?.cid, hash('sha256', op?.record ?? '', 'binary'))
})
