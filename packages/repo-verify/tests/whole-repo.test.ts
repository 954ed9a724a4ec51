import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode } from '@atcute/cbor'
import { Secp256k1Keypair } from '@atproto/crypto'
import { parseDidKey, readRepoCar } from '../src/index.ts'
import { keyLayer } from '../src/mst-node.ts'
import { block, blockOf, carOf, nodeBlock, signedCommit, type CarBlock } from './frame-builder.ts'
import { sampleDid } from './sample-commit.ts'

const keypair = await Secp256k1Keypair.create()
const key = parseDidKey(keypair.did())
assert.ok(key)
const options = { did: sampleDid, key, nowMs: Date.now() }

/** The CAR of a repository whose tree is one node. The keys must be of layer 0. */
async function carWith(records: Record<string, CarBlock>, left?: CarBlock): Promise<Uint8Array> {
  const keys = Object.keys(records).toSorted()
  assert.ok(keys.every((each) => keyLayer(each) === 0))
  const root = nodeBlock(keys.map((each) => ({ key: each, value: records[each]?.cid ?? new Uint8Array() })))
  const commit = await signedCommit(keypair, { did: sampleDid, rev: '3migo7fijwi2k', data: root.cid })
  const blocks = new Set([commit, root, ...Object.values(records)].filter((each) => each !== left))
  return carOf([commit.cid], [...blocks])
}

const good = block({ $type: 'org.impact.claim.activity' })

test('what is no record is left out and named, and the others are there', async () => {
  const car = await carWith({
    'org.impact.claim.activity/a': good,
    'org.impact.claim.activity/b': blockOf(encode([1])),
    'org.impact.claim.activity/d': blockOf(encode({ text: 'x'.repeat(1_000_000) })),
    'x y': block({ x: 1 }),
  })
  const repo = readRepoCar(car, options)
  assert.ok(repo.ok, JSON.stringify(repo))
  assert.deepEqual(
    repo.records.map(({ rkey, record }) => [rkey, Buffer.from(record).toString('hex')]),
    [['a', Buffer.from(good.bytes).toString('hex')]],
  )
  assert.deepEqual(repo.leftOut, [
    { key: 'org.impact.claim.activity/b', reason: 'malformed-record' },
    { key: 'org.impact.claim.activity/d', reason: 'record-too-large' },
    { key: 'x y', reason: 'invalid-ops' },
  ])
})

test('a repository that is incomplete, of another account, unsigned by its key or too large is refused', async () => {
  const records = { 'org.impact.claim.activity/a': good }
  const car = await carWith(records)
  const reason = (bytes: Uint8Array, changes: object = {}) => {
    const repo = readRepoCar(bytes, { ...options, ...changes })
    return repo.ok || repo.reason
  }
  assert.equal(reason(car), true)
  assert.equal(reason(await carWith(records, good)), 'missing-block')
  assert.equal(reason(car, { did: 'did:plc:22222222222222222222222a' }), 'mismatched-fields')
  assert.equal(reason(car, { key: parseDidKey((await Secp256k1Keypair.create()).did()) }), 'bad-signature')
  assert.equal(reason(car, { nowMs: 0 }), 'future-rev')
  assert.equal(reason(car, { bytesMax: car.length - 1 }), 'oversize')
  for (let end = 0; end < car.length; end++) assert.notEqual(reason(car.subarray(0, end)), true)
})

test('a record that many keys share counts for each of them', async () => {
  const record = blockOf(encode({ text: 'x'.repeat(100_000) }))
  const keys = Array.from({ length: 100 }, (_, i) => `org.impact.claim.activity/${i}`)
  const shared = keys.filter((each) => keyLayer(each) === 0).map((each) => [each, record] as const)
  const car = await carWith(Object.fromEntries(shared))
  const read = (bytesMax: number): unknown => {
    const repo = readRepoCar(car, { ...options, bytesMax })
    return repo.ok ? repo.records.length : repo.reason
  }
  const bytes = shared.length * record.bytes.length
  assert.ok(car.length < bytes / 2)
  assert.deepEqual([read(bytes), read(bytes - 1)], [shared.length, 'oversize'])
})
