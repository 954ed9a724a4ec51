/** Commits whose bytes are signed rightly, and are not written as they must be. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode, toBytes } from '@atcute/cbor'
import { Secp256k1Keypair } from '@atproto/crypto'
import { parseDidKey, verifyEvent } from '../src/index.ts'
import { blockOf, carOf, link, nodeBlock, syncFrame } from './frame-builder.ts'
import { sampleDid } from './sample-commit.ts'

const keypair = await Secp256k1Keypair.create()
const options = { key: parseDidKey(keypair.did()), nowMs: Date.now(), strict: true }
const rev = '3migo7fijwi2k'

type Pair = [name: string, value: unknown]

const did: Pair = ['did', sampleDid]
const revPair: Pair = ['rev', rev]
const data: Pair = ['data', link(nodeBlock([]).cid)]
const prev: Pair = ['prev', null]
const version: Pair = ['version', 3]

/** How a #sync fares whose commit has these fields, the signature after the first ones, and bytes after its end. */
async function verdict(first: Pair[], others: Pair[], trailing = new Uint8Array()): Promise<string> {
  const unsigned = mapOf([...first, ...others], trailing)
  const sig: Pair = ['sig', toBytes(await keypair.sign(unsigned))]
  const commit = blockOf(mapOf([...first, sig, ...others], trailing))
  const event = verifyEvent(
    syncFrame({ did: sampleDid, rev, blocks: carOf([commit.cid], [commit]) }),
    options,
  )
  return event.ok ? 'passed' : event.reason
}

function mapOf(pairs: Pair[], trailing: Uint8Array): Uint8Array {
  const parts = pairs.flatMap(([name, value]) => [encode(name), encode(value)])
  return Buffer.concat([Uint8Array.of(0xa0 + pairs.length), ...parts, trailing])
}

test('a commit with its fields in canonical order passes, with unknown fields too', async () => {
  assert.equal(await verdict([did, revPair], [data, prev, version]), 'passed')
  assert.equal(
    await verdict([['a', -1], did, revPair], [data, prev, version, ['zzzzzzzz', [true]]]),
    'passed',
  )
})

test('a commit with fields in another order is refused', async () => {
  assert.equal(await verdict([revPair, did], [data, prev, version]), 'malformed-commit')
  assert.equal(await verdict([did, revPair], [prev, data, version]), 'malformed-commit')
  assert.equal(await verdict([did, revPair], [version, data, prev]), 'malformed-commit')
  // Shorter, and later by its first character.
  assert.equal(await verdict([['aaaa', 1], did, revPair], [data, prev, version]), 'malformed-commit')
})

test('the order of fields is that of their bytes, not of their characters', async () => {
  const one: Pair = ['é', 1]
  const two: Pair = ['zz', 2]
  assert.equal(await verdict([two, one, did, revPair], [data, prev, version]), 'passed')
  assert.equal(await verdict([one, two, did, revPair], [data, prev, version]), 'malformed-commit')
})

test('a commit with a field twice is refused', async () => {
  assert.equal(await verdict([did, revPair, revPair], [data, prev, version]), 'malformed-commit')
  assert.equal(await verdict([did, did, revPair], [data, prev, version]), 'malformed-commit')
  assert.equal(await verdict([did, revPair], [data, data, prev, version]), 'malformed-commit')
})

test('a commit with bytes after its end is refused', async () => {
  assert.equal(await verdict([did, revPair], [data, prev, version], Uint8Array.of(0)), 'malformed-commit')
})

test('a commit with an unknown field that not every decoder reads is refused', async () => {
  const float: Pair = ['a', 1.5]
  assert.equal(await verdict([float, did, revPair], [data, prev, version]), 'malformed-commit')
})
