import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { Secp256k1Keypair, verifySignature } from '@atproto/crypto'
import { Signer } from './signer.ts'

test('a key has the name that @atproto/crypto gives it, and its signatures verify there', async () => {
  for (let i = 0; i < 40; i++) {
    const key = hash('sha256', `signer ${i}`, 'buffer')
    const signer = new Signer(key)
    const theirs = await Secp256k1Keypair.import(key)
    assert.deepEqual([signer.did(), signer.jwtAlg], [theirs.did(), theirs.jwtAlg])
    const message = Buffer.from(`message ${i}`)
    assert.ok(await verifySignature(signer.did(), message, signer.signNow(message)))
  }
})
