import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did, Handle } from '@tributary/protocol'
import { type Identity, StoredIdentities } from './index.ts'

const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' as Did // only a name here
const key = { curve: 'k256', point: Uint8Array.from({ length: 33 }, (_, index) => index) } as const

test('an identity comes back as it was stored, and its keys keep no more memory than their own bytes', () => {
  const identity: Identity = {
    did,
    handle: 'a.example.com' as Handle, // only a name here
    pdsHost: 'pds.example.com',
    pdsUrl: 'https://pds.example.com',
    signingKey: key,
    labelKey: key,
    labelerUrl: 'https://labels.example.com',
    fetchedAt: 1,
  }
  const before = new StoredIdentities(() => undefined)
  before.set(did, identity)
  const [[, text] = []] = before.take()
  const back = new StoredIdentities(() => text ?? undefined).get(did)
  assert.deepEqual(back, identity)
  assert.equal(back?.signingKey?.point.buffer.byteLength, 33)
})
