import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Secp256k1Keypair } from '@atproto/crypto'
import type { Did } from '@tributary/protocol'
import { parseDidKey } from '@tributary/repo-verify'
import { createDid, startPlc, tombstoneDid, updateDid } from '@tributary/testkit'
import { createResolver, IdentityError } from '../src/index.ts'

test('a real PLC directory is read through the life of a DID', async () => {
  await using plc = await startPlc()
  const keypair = await Secp256k1Keypair.create()
  const did = (await createDid(plc.url, keypair, {
    alsoKnownAs: ['at://alice.pds1.test'],
    verificationMethods: { atproto: keypair.did() },
    services: { atproto_pds: { type: 'AtprotoPersonalDataServer', endpoint: 'http://localhost:2583' } },
  })) as Did // just made
  let nowMs = Date.now()
  const resolver = createResolver({ plcUrl: plc.url, allowedPrivateHosts: [], nowMs: () => nowMs })
  const identity = await resolver.resolve(did)
  assert.deepEqual(identity.signingKey, parseDidKey(keypair.did()))
  assert.deepEqual([identity.handle, identity.pdsHost], ['alice.pds1.test', 'localhost:2583'])

  const rotated = await Secp256k1Keypair.create()
  await updateDid(plc.url, did, keypair, { verificationMethods: { atproto: rotated.did() } })
  assert.equal(resolver.peek(did), identity)
  nowMs += 1
  const refreshed = await resolver.resolve(did, { refreshAfter: nowMs })
  assert.deepEqual(refreshed.signingKey, parseDidKey(rotated.did()))

  await tombstoneDid(plc.url, did, keypair)
  resolver.purge(did)
  await assert.rejects(
    resolver.resolve(did),
    (error) => error instanceof IdentityError && error.reason === 'not-found',
  )
})
