import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseDidKey } from '@tributary/repo-verify'
import { sampleDid, sampleDocument, sampleMultikey } from '../tests/sample-document.ts'
import { readDidDocument } from './did-document.ts'

const did = sampleDid(1)
const read = (changes: Record<string, unknown>) => readDidDocument(sampleDocument(did, changes), did, 5)

test('a document of the present form gives handle, PDS and key', () => {
  assert.deepEqual(read({}), {
    did,
    handle: 'alice.example.com',
    pdsUrl: 'https://pds.example.com',
    pdsHost: 'pds.example.com',
    signingKey: parseDidKey(`did:key:${sampleMultikey}`),
    labelKey: undefined,
    labelerUrl: undefined,
    fetchedAt: 5,
  })
})

test('a document of the old form gives the same key', () => {
  const method = {
    id: '#atproto',
    type: 'EcdsaSecp256k1VerificationKey2019',
    controller: did,
    publicKeyMultibase: 'z25z9DTpsiYYJKGsWmSPJK2NFN8PcJtZig12K59UgW7q5t',
  }
  const key = parseDidKey('did:key:zQ3shqwJEJyMBsBXCWyCBpUBMqxcon9oHB7mCvx4sSpMdLJwc')
  assert.ok(key)
  assert.deepEqual(read({ verificationMethod: [method] })?.signingKey, key)
  const p256 = {
    ...method,
    type: 'EcdsaSecp256r1VerificationKey2019',
    publicKeyMultibase: 'zxdM8dSstjrpZaRUwBmDvjGXweKuEMVN95A9oJBFjkWMh',
  }
  assert.deepEqual(
    read({ verificationMethod: [p256] })?.signingKey,
    parseDidKey('did:key:zDnaembgSGUhZULN2Caob4HLJPaxBh92N7rtH21TErzqf8HQo'),
  )
})

test('a labeler has its own key and address', () => {
  const identity = read({
    verificationMethod: [
      { id: '#atproto_label', type: 'Multikey', controller: did, publicKeyMultibase: sampleMultikey },
    ],
    service: [
      { id: `${did}#atproto_labeler`, type: 'AtprotoLabeler', serviceEndpoint: 'http://LocalHost:22010/' },
    ],
  })
  assert.equal(identity?.signingKey, undefined)
  assert.equal(identity?.labelKey?.curve, 'k256')
  assert.equal(identity?.labelerUrl, 'http://localhost:22010')
  assert.equal(identity?.pdsHost, undefined)
})

test("the key must be the account's own and of a known kind, and the first one counts", () => {
  const method = { id: '#atproto', type: 'Multikey', controller: did, publicKeyMultibase: sampleMultikey }
  for (const changes of [
    { controller: sampleDid(2) },
    { type: 'JsonWebKey2020' },
    { publicKeyMultibase: 'zzz' },
    { publicKeyMultibase: 7 },
    { id: '#other' },
    { id: `${sampleDid(2)}#atproto` },
  ]) {
    assert.equal(read({ verificationMethod: [{ ...method, ...changes }] })?.signingKey, undefined)
  }
  assert.equal(
    read({ verificationMethod: [{ ...method, publicKeyMultibase: 'z' }, method] })?.signingKey,
    undefined,
  )
})

test('parts that make no sense are left out, and the rest is kept', () => {
  const identity = read({
    alsoKnownAs: [
      'https://alice.example.com',
      5,
      'at://not a handle',
      'at://Bob.Example.com',
      'at://c.example.com',
    ],
    service: ['x', null, { id: '#atproto_pds', serviceEndpoint: 'ftp://pds.example.com' }],
    verificationMethod: { id: '#atproto' },
  })
  assert.equal(identity?.handle, 'bob.example.com')
  assert.equal(identity?.pdsUrl, undefined)
  assert.equal(identity?.signingKey, undefined)
})

test('a host that is written with a dot at its end is the host without it', () => {
  for (const [endpoint, host] of [
    ['https://PDS.example.com.', 'pds.example.com'],
    ['https://pds.example.com..:8443/', 'pds.example.com:8443'],
    ['https://pds.example.com%2e/', 'pds.example.com'],
    ['https://pds.example.com\u3002/', 'pds.example.com'],
  ]) {
    const identity = read({ service: [{ id: '#atproto_pds', serviceEndpoint: endpoint }] })
    assert.deepEqual([identity?.pdsHost, identity?.pdsUrl], [host, `https://${host}`], endpoint)
  }
})

test('what is not the document of this DID is none', () => {
  for (const document of [undefined, null, [], 'x', {}, { id: sampleDid(2) }]) {
    assert.equal(readDidDocument(document, did, 0), undefined)
  }
})
