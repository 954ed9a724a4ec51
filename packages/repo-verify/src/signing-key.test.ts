import assert from 'node:assert/strict'
import { KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { queryObjects } from 'node:v8'
import { toBase58Btc } from '@atcute/multibase'
import { P256Keypair, Secp256k1Keypair } from '@atproto/crypto'
import { parseDidKey, parseLegacyKey, parseMultikey, verifySignature } from './signing-key.ts'

interface SignatureFixture {
  comment: string
  messageBase64: string
  algorithm: 'ES256' | 'ES256K'
  publicKeyDid: string
  publicKeyMultibase: string
  signatureBase64: string
  validSignature: boolean
}

function fixtures<T>(name: string): T[] {
  return JSON.parse(readFileSync(new URL(`../vectors/interop/${name}`, import.meta.url), 'utf8')) as T[] // our own file
}

for (const fixture of fixtures<SignatureFixture>('signature-fixtures.json')) {
  test(`interop: ${fixture.comment}`, () => {
    const message = Buffer.from(fixture.messageBase64, 'base64')
    const signature = Buffer.from(fixture.signatureBase64, 'base64')
    const modern = parseDidKey(fixture.publicKeyDid)
    const legacy = parseLegacyKey(fixture.algorithm === 'ES256' ? 'p256' : 'k256', fixture.publicKeyMultibase)
    assert.ok(modern && legacy)
    assert.equal(verifySignature(modern, message, signature), fixture.validSignature)
    // The old form of the fixtures' keys is another encoding of the same point.
    assert.deepEqual(legacy, modern)
  })
}

test('interop: keys of known private keys verify what these sign', async () => {
  for (const { privateKeyBytesHex, publicDidKey } of fixtures<Record<string, string>>(
    'w3c_didkey_K256.json',
  )) {
    const keypair = await Secp256k1Keypair.import(privateKeyBytesHex ?? '')
    const key = parseDidKey(publicDidKey ?? '')
    const message = Buffer.from('a message')
    assert.ok(key && verifySignature(key, message, await keypair.sign(message)))
    assert.equal(key.point.length, 65)
    assert.equal(verifySignature(key, Buffer.from('another'), await keypair.sign(message)), false)
  }
  for (const { publicDidKey } of fixtures<Record<string, string>>('w3c_didkey_P256.json')) {
    assert.equal(parseDidKey(publicDidKey ?? '')?.curve, 'p256')
  }
})

test('a key that was copied to another thread still verifies', async () => {
  for (const keypair of [await Secp256k1Keypair.create(), await P256Keypair.create()]) {
    const key = parseDidKey(keypair.did())
    const message = Buffer.from('a message')
    assert.ok(key && verifySignature(structuredClone(key), message, await keypair.sign(message)))
  }
})

test('of keys of P-256 few are kept ready, however many verify', async () => {
  const keypair = await P256Keypair.create()
  const message = Buffer.from('a message')
  const signature = await keypair.sign(message)
  const key = parseDidKey(keypair.did())
  assert.ok(key)
  const keys = Array.from({ length: 1200 }, () => structuredClone(key))
  for (let round = 0; round < 2; round++)
    for (const each of keys) assert.ok(verifySignature(each, message, signature))
  assert.ok(queryObjects(KeyObject, { format: 'count' }) <= 600)
})

test('texts that are no key of a known curve give none', () => {
  const good = 'zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme'
  assert.ok(parseMultikey(good))
  for (const text of [
    '',
    'z',
    good.slice(1),
    `${good}1`,
    good.replace('Q3', 'QO'),
    `z${'1'.repeat(200)}`,
    'z6Mk'.padEnd(48, 'a'),
  ]) {
    assert.equal(parseMultikey(text), undefined, text)
  }
  assert.equal(parseDidKey(good), undefined)
})

test('a point that is not on its curve is no key', async () => {
  for (const keypair of [await Secp256k1Keypair.create(), await P256Keypair.create()]) {
    const { curve, point } = parseDidKey(keypair.did()) ?? assert.fail()
    assert.deepEqual(parseLegacyKey(curve, `z${toBase58Btc(point)}`), { curve, point })
    const moved = Uint8Array.from(point)
    moved[64] = (moved[64] ?? 0) ^ 1
    assert.equal(parseLegacyKey(curve, `z${toBase58Btc(moved)}`), undefined)
  }
})

test('signatures that are not numbers of the curve are not valid', async () => {
  for (const keypair of [await Secp256k1Keypair.create(), await P256Keypair.create()]) {
    const key = parseDidKey(keypair.did())
    assert.ok(key)
    for (const signature of [
      new Uint8Array(64),
      new Uint8Array(64).fill(255),
      new Uint8Array(63),
      new Uint8Array(0),
    ]) {
      assert.equal(verifySignature(key, Buffer.from('a message'), signature), false)
    }
  }
})
