/** What is saved by remembering checked trees, and what must be checked all the same. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Secp256k1Keypair } from '@atproto/crypto'
import { decodeFrame, encodeFrame } from '@tributary/protocol'
import { CheckedTrees, parseDidKey, verifyEvent, type Digest } from '../src/index.ts'
import { keysOfLayer, treeFrame } from './forged-tree.ts'
import { block, nodeBlock, type CarBlock, type OpParts } from './frame-builder.ts'

const keypair = await Secp256k1Keypair.create()
const options = { key: parseDidKey(keypair.did()), nowMs: Date.now(), strict: true }
const record = block({ text: 'a record' })
const value = record.cid
const before = block({ text: 'the record before' }).cid
const [top = ''] = keysOfLayer(1, 1)
const [low = ''] = keysOfLayer(0, 1, top)
const [topAfter = ''] = keysOfLayer(1, 1, low)
const entry = (key: string) => ({ key, value })

/** How a commit fares that leads from one root to the tree of these nodes. */
async function verdict(
  checkedTrees: CheckedTrees | undefined,
  nodes: CarBlock[],
  ops: OpParts[],
  prevData: Uint8Array | undefined,
): Promise<string> {
  const frame = await treeFrame(keypair, [...nodes, record], ops, prevData)
  const event = verifyEvent(frame, checkedTrees ? { ...options, checkedTrees } : options)
  return event.ok ? 'passed' : event.detail
}

/** Has a tree remembered as checked, by a commit without operations that sends no more than these nodes. */
async function remember(checkedTrees: CheckedTrees, ...nodes: CarBlock[]): Promise<void> {
  assert.equal(await verdict(checkedTrees, nodes, [], nodes[0]?.cid), 'passed')
}

// A key of layer 1 in a leaf, where it does not belong.
const wrong = nodeBlock([entry(topAfter)])
const root = nodeBlock([{ ...entry(top), right: wrong.cid }])
const rootBefore = nodeBlock([{ key: top, value: before, right: wrong.cid }])
const update: OpParts[] = [{ action: 'update', path: top, cid: value, prev: before }]

test('layers are checked when no tree is remembered, or another one', async () => {
  assert.match(await verdict(undefined, [root, wrong], update, rootBefore.cid), /wrong layer/)
  const checkedTrees = new CheckedTrees()
  assert.match(await verdict(checkedTrees, [root, wrong], update, rootBefore.cid), /wrong layer/)
  await remember(checkedTrees, nodeBlock([entry(low)]))
  assert.match(await verdict(checkedTrees, [root, wrong], update, rootBefore.cid), /wrong layer/)
})

test('layers are checked when the tree after the commit is remembered, but not the one before', async () => {
  const checkedTrees = new CheckedTrees()
  await remember(checkedTrees, root)
  assert.match(await verdict(checkedTrees, [root, wrong], update, rootBefore.cid), /wrong layer/)
})

test('a tree that was refused is not remembered', async () => {
  const checkedTrees = new CheckedTrees()
  assert.match(await verdict(checkedTrees, [root, wrong], update, rootBefore.cid), /wrong layer/)
  assert.match(await verdict(checkedTrees, [root, wrong], update, rootBefore.cid), /wrong layer/)
  assert.match(await verdict(checkedTrees, [root, wrong], [], root.cid), /wrong layer/)
})

test('without prevData layers are checked whatever is remembered', async () => {
  const checkedTrees = new CheckedTrees()
  await remember(checkedTrees, root)
  const { body } = decodeFrame(await treeFrame(keypair, [root, wrong, record], update, rootBefore.cid))
  const frame = encodeFrame('#commit', { ...body, prevData: undefined })
  const event = verifyEvent(frame, { ...options, checkedTrees })
  assert.match(event.ok ? 'passed' : event.detail, /wrong layer/)
})

test('keys outside of their part of the tree are refused although the tree before is remembered', async () => {
  for (const [parent, key] of [
    [nodeBlock([{ ...entry(top), right: nodeBlock([entry(top)]).cid }]), top],
    [nodeBlock([entry(top)], nodeBlock([entry(top)]).cid), top],
  ] as const) {
    const checkedTrees = new CheckedTrees()
    await remember(checkedTrees, parent)
    assert.match(
      await verdict(checkedTrees, [parent, nodeBlock([entry(key)])], [], parent.cid),
      /out of order/,
    )
  }
})

test('a delete of a key that is still there, in the wrong layer, is refused although the tree before is remembered', async () => {
  const checkedTrees = new CheckedTrees()
  // What would come out if the key were put in beside the one that is there.
  const twice = nodeBlock([entry(top), { ...entry(topAfter), right: wrong.cid }])
  await remember(checkedTrees, twice)
  const ops: OpParts[] = [{ action: 'delete', path: topAfter, cid: null, prev: value }]
  assert.match(await verdict(checkedTrees, [root, wrong], ops, twice.cid), /already has/)
})

test('the newest trees of 50,000 accounts are remembered, and of each account the newest only', () => {
  const digest = (n: number) => `${n}`.padStart(32) as Digest // stands for one
  const trees = new CheckedTrees()
  trees.add(digest(0), undefined)
  for (let n = 1; n <= 50_000; n++) trees.add(digest(n), undefined)
  assert.equal(trees.has(digest(0)), true)
  assert.equal(trees.has(digest(50_000)), true)
  assert.equal(trees.has(digest(50_001)), false)
  // The tree that follows takes the place of the one before, in either generation.
  trees.add(digest(60_000), digest(0))
  trees.add(digest(60_001), digest(50_000))
  assert.equal(trees.has(digest(0)), false)
  assert.equal(trees.has(digest(50_000)), false)
  for (let n = 100_000; n < 200_000; n++) trees.add(digest(n), undefined)
  assert.equal(trees.has(digest(1)), false)
  assert.equal(trees.has(digest(60_001)), false)
  assert.equal(trees.has(digest(199_999)), true)
})
