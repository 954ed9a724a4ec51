import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode, toBytes } from '@atcute/cbor'
import { Secp256k1Keypair } from '@atproto/crypto'
import { parseDidKey, verifyEvent } from '../src/index.ts'
import { keyLayer } from '../src/mst-node.ts'
import { keysOfLayer, treeFrame } from './forged-tree.ts'
import { block, blockOf, link, nodeBlock, type CarBlock } from './frame-builder.ts'

const keypair = await Secp256k1Keypair.create()
const options = { key: parseDidKey(keypair.did()), nowMs: Date.now(), strict: true }
const value = block({ text: 'a record' }).cid
const entry = (key: string) => ({ key, value })

/** How a commit without operations over this tree fares: the tree must be what its `prevData` says, which it is. */
async function verdict(...nodes: CarBlock[]): Promise<string> {
  const event = verifyEvent(await treeFrame(keypair, nodes), options)
  return event.ok ? 'passed' : event.reason
}

const [low, lowAfter] = keysOfLayer(0, 2)
assert.ok(low && lowAfter)
const [middle] = keysOfLayer(1, 1, low)
assert.ok(middle)
const [top] = keysOfLayer(2, 1)
assert.ok(top)
const [belowTop] = keysOfLayer(0, 1, top)
assert.ok(belowTop)

test('trees as they should be pass', async () => {
  assert.equal(await verdict(nodeBlock([])), 'passed')
  assert.equal(await verdict(nodeBlock([entry(low), entry(lowAfter)])), 'passed')
  const leaf = nodeBlock([entry(low)])
  assert.equal(await verdict(nodeBlock([entry(middle)], leaf.cid), leaf), 'passed')
  // Subtrees that were not sent are no fault.
  assert.equal(await verdict(nodeBlock([entry(middle)], leaf.cid)), 'passed')
  const deep = nodeBlock([entry(belowTop)])
  const between = nodeBlock([], deep.cid)
  assert.equal(await verdict(nodeBlock([{ ...entry(top), right: between.cid }]), between, deep), 'passed')
})

test('keys in the wrong layer are refused', async () => {
  assert.equal(await verdict(nodeBlock([entry(low), entry(middle)].toSorted(byKey))), 'invalid-mst')
  const wrong = nodeBlock([entry(belowTop)])
  assert.equal(await verdict(nodeBlock([{ ...entry(top), right: wrong.cid }]), wrong), 'invalid-mst')
})

test('keys that do not ascend, repeat, or lie outside of their subtree are refused', async () => {
  const bare = (...keys: string[]) => rawNode(keys.map((key) => ({ p: 0, k: key })))
  assert.equal(await verdict(bare(lowAfter, low)), 'invalid-mst')
  assert.equal(
    await verdict(
      rawNode([
        { p: 0, k: low },
        { p: low.length, k: '' },
      ]),
    ),
    'invalid-mst',
  )
  assert.equal(await verdict(bare('')), 'invalid-mst')
  for (const [key, isLeft] of [
    [low, false],
    [belowTop, true],
  ] as const) {
    const leaf = nodeBlock([entry(key)])
    const parent: CarBlock = isLeft
      ? nodeBlock([entry(middle)], leaf.cid)
      : nodeBlock([{ ...entry(middle), right: leaf.cid }])
    assert.equal(low < middle && middle < belowTop, true)
    assert.equal(await verdict(parent, leaf), 'invalid-mst')
  }
  const outside = nodeBlock([entry(belowTop)])
  const chain = nodeBlock([], outside.cid)
  assert.equal(await verdict(nodeBlock([entry(top)], chain.cid), chain, outside), 'invalid-mst')
})

test('keys that share less than their prefix, or more than there is, are refused', async () => {
  assert.equal(
    await verdict(
      rawNode([
        { p: 0, k: low },
        { p: 3, k: lowAfter.slice(3) },
      ]),
    ),
    'invalid-mst',
  )
  assert.equal(await verdict(rawNode([{ p: 1, k: low.slice(1) }])), 'invalid-mst')
  assert.equal(await verdict(rawNode([{ p: 2 ** 31, k: low }])), 'invalid-mst')
})

test('keys over 1024 bytes or outside of ASCII are refused', async () => {
  const long = (length: number) => `org.impact.claim.activity/${'x'.repeat(length - 26)}`
  assert.equal(await verdict(nodeBlock([entry(long(1024))])), 'passed')
  assert.equal(await verdict(nodeBlock([entry(long(1025))])), 'invalid-mst')
  assert.equal(await verdict(nodeBlock([entry(`${low}\u00ff`)])), 'invalid-mst')
})

test('empty nodes and a tree that goes on below its floor are refused', async () => {
  const empty = nodeBlock([])
  assert.equal(await verdict(nodeBlock([entry(middle)], empty.cid), empty), 'invalid-mst')
  const chain = [nodeBlock([], value)]
  for (let depth = 0; depth < 200; depth++) chain.unshift(nodeBlock([], chain[0]?.cid))
  assert.equal(await verdict(nodeBlock([entry(top)], chain[0]?.cid), ...chain), 'invalid-mst')
})

test('a node that stands in two places is refused', async () => {
  const shared = nodeBlock([], value)
  const keys = keysOfLayer(2, 2)
  const entries = keys.map((key) => ({ ...entry(key), right: shared.cid }))
  assert.equal(await verdict(nodeBlock(entries), shared), 'invalid-mst')
})

test('nodes written in another way than theirs are refused', async () => {
  const good = { p: 0, k: toBytes(Buffer.from(low)), v: link(value), t: null }
  const node = (e: unknown, l: unknown = null, more = {}) => verdict(block({ e, l, ...more }))
  assert.equal(await node([good]), 'passed')
  assert.equal(await node([good], null, { x: 1 }), 'invalid-mst')
  assert.equal(await node([{ ...good, x: 1 }]), 'invalid-mst')
  assert.equal(await node([{ ...good, v: null }]), 'invalid-mst')
  assert.equal(await node([{ ...good, t: 'none' }]), 'invalid-mst')
  assert.equal(await node([{ ...good, k: low }]), 'invalid-mst')
  assert.equal(
    await node([{ ...good, v: link(Uint8Array.from(value, (byte, i) => (i === 1 ? 0x55 : byte))) }]),
    'invalid-mst',
  )
  assert.equal(await node({}), 'invalid-mst')
  const bytes = block({ e: [good], l: null }).bytes
  for (let end = 0; end < bytes.length; end++)
    assert.equal(await verdict(blockOf(bytes.subarray(0, end))), 'invalid-mst')
  assert.equal(await verdict(blockOf(Buffer.concat([bytes, encode(0)]))), 'invalid-mst')
})

test('the layer of a key is what the protocol says', () => {
  const layers = {
    'app.bsky.feed.post/454397e440ec': 4,
    'app.bsky.feed.post/9adeb165882c': 8,
    '2653ae71': 0,
    blue: 1,
  }
  for (const [key, layer] of Object.entries(layers)) assert.equal(keyLayer(key), layer)
})

function byKey(a: { key: string }, b: { key: string }): number {
  return a.key < b.key ? -1 : 1
}

function rawNode(entries: { p: number; k: string }[]): CarBlock {
  return block({
    l: null,
    e: entries.map(({ p, k }) => ({ p, k: toBytes(Buffer.from(k)), v: link(value), t: null })),
  })
}
