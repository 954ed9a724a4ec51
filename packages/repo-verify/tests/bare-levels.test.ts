/** Trees that begin with levels without keys: real ones of the reference implementation, and forged ones. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Secp256k1Keypair } from '@atproto/crypto'
import { WriteOpAction, type RecordWriteOp } from '@atproto/repo'
import { CheckedTrees, parseDidKey, readRepoCar, verifyEvent } from '../src/index.ts'
import { keysOfLayer, treeFrame } from './forged-tree.ts'
import {
  block,
  carOf,
  commitFrame,
  nodeBlock,
  signedCommit,
  type CarBlock,
  type OpParts,
} from './frame-builder.ts'
import { OracleRepo } from './oracle-repo.ts'
import { sampleDid } from './sample-commit.ts'

const keypair = await Secp256k1Keypair.create()
const key = parseDidKey(keypair.did())
assert.ok(key)
const options = { key, nowMs: Date.now(), strict: true }
const [low = '', lowSecond = '', lowThird = ''] = keysOfLayer(0, 3)
const [one = ''] = keysOfLayer(1, 1)
const [two = '', twoSecond = ''] = keysOfLayer(2, 2)
const [three = ''] = keysOfLayer(3, 1)

let records = 0

function write(action: 'create' | 'update' | 'delete', path: string): RecordWriteOp {
  const [collection, rkey] = path.split('/') as [`${string}.${string}.${string}`, string] // as `keysOfLayer` makes them
  const record = { $type: collection, rkey, n: records++ }
  if (action === 'delete') return { action: WriteOpAction.Delete, collection, rkey }
  return action === 'create'
    ? { action: WriteOpAction.Create, collection, rkey, record }
    : { action: WriteOpAction.Update, collection, rkey, record }
}

const create = (path: string) => write('create', path)
const update = (path: string) => write('update', path)
const remove = (path: string) => write('delete', path)

interface Step {
  writes: RecordWriteOp[]
  /** Whether the root has no keys afterwards. */
  isBare: boolean
  /** Writes that the producer had given up before. */
  givenUp?: RecordWriteOp[]
}

/** Each sequence of commits is real, and each of its commits must pass. */
const sequences: Record<string, Step[]> = {
  'a create of the same layer fills the bare root': [
    { writes: [create(three), create(two), create(low)], isBare: false },
    { writes: [remove(three), remove(low), remove(two), create(lowSecond)], isBare: true },
    { writes: [update(lowSecond)], isBare: true },
    { writes: [create(one)], isBare: true },
    { writes: [create(lowThird), update(one)], isBare: true },
    { writes: [create(twoSecond)], isBare: false },
  ],
  'a create of a higher layer stands above the bare root': [
    { writes: [create(three), create(two)], isBare: false },
    { writes: [remove(three), remove(two), create(low)], isBare: true },
    { writes: [create(three)], isBare: false },
    { writes: [remove(three)], isBare: false },
  ],
  'a delete cuts bare levels off': [
    { writes: [create(three), create(two)], isBare: false },
    { writes: [remove(three), remove(two), create(low), create(one)], isBare: true },
    { writes: [remove(low)], isBare: false },
  ],
  'a delete of the last record leaves an empty tree': [
    { writes: [create(three), create(two)], isBare: false },
    { writes: [remove(three), remove(two), create(low)], isBare: true },
    { writes: [remove(low)], isBare: false },
    { writes: [create(three), create(two)], isBare: false },
  ],
  'the only record is replaced by a producer that knows the height': [
    { writes: [create(two)], isBare: false },
    { writes: [remove(two), create(low)], isBare: true, givenUp: [create(lowThird)] },
    { writes: [remove(low), create(one)], isBare: true, givenUp: [create(lowThird)] },
    { writes: [create(three)], isBare: false },
  ],
}

for (const [name, steps] of Object.entries(sequences)) {
  test(`real commits: ${name}`, async () => {
    const repo = await OracleRepo.create(sampleDid, keypair)
    const checkedTrees = new CheckedTrees()
    for (const [i, { writes, isBare, givenUp }] of steps.entries()) {
      const commit = await repo.commit(writes, givenUp)
      assert.equal(await repo.hasBareRoot(), isBare, `commit ${i}`)
      for (const more of [{}, { checkedTrees }, { checkedTrees }]) {
        const event = verifyEvent(commitFrame(commit), { ...options, ...more })
        assert.ok(event.ok, `commit ${i}: ${JSON.stringify(event)}`)
      }
      const whole = readRepoCar(await repo.car(), { did: sampleDid, key, nowMs: Date.now() })
      assert.ok(whole.ok, JSON.stringify(whole))
      const paths = whole.records.map(({ collection, rkey }) => `${collection}/${rkey}`)
      assert.deepEqual(paths, repo.paths.toSorted())
    }
  })
}

const record = block({ text: 'a record' })
const value = record.cid
const leaf = nodeBlock([{ key: low, value }])

/** The nodes of a tree under this many more levels without keys, the root first. */
function under(levels: number, ...nodes: CarBlock[]): CarBlock[] {
  const [root] = nodes
  assert.ok(root)
  return levels === 0 ? nodes : under(levels - 1, nodeBlock([], root.cid), ...nodes)
}

const rootOf = (nodes: CarBlock[]) => nodes[0]?.cid
const deleted = (path: string): OpParts => ({ action: 'delete', path, cid: null, prev: value })
const created = (path: string): OpParts => ({ action: 'create', path, cid: value })
const updated = (path: string): OpParts => ({ action: 'update', path, cid: value, prev: leaf.cid })

/** How a commit fares that leads from one root to the tree of these nodes. */
async function verdict(nodes: CarBlock[], prevData: Uint8Array | undefined, ops: OpParts[]): Promise<string> {
  const event = verifyEvent(await treeFrame(keypair, [...nodes, record], ops, prevData), options)
  return event.ok ? 'passed' : event.reason
}

/** The root of a tree of one key under this many levels without keys. */
const single = (path: string, levels: number) => rootOf(under(levels, nodeBlock([{ key: path, value }])))

test('without a delete the height stays: bare levels are neither added nor cut off', async () => {
  const before = nodeBlock([{ key: low, value: leaf.cid }])
  const ops = [updated(low)]
  for (const levels of [0, 1, 4]) {
    for (const levelsBefore of [0, 1, 4]) {
      const expected = levels === levelsBefore ? 'passed' : 'invalid-mst'
      assert.equal(await verdict(under(levels, leaf), rootOf(under(levelsBefore, before)), ops), expected)
      assert.equal(await verdict(under(levels, leaf), rootOf(under(levelsBefore, leaf)), []), expected)
    }
  }
})

test('a create cannot lower a tree: the tree before stood no higher than the key', async () => {
  const [second = ''] = keysOfLayer(2, 1, low)
  const chain = under(1, leaf)
  const left = chain[0]
  const after = [nodeBlock([{ key: second, value }], left?.cid), ...chain]
  for (const [levels, expected] of [
    [0, 'passed'],
    [1, 'passed'],
    [2, 'passed'],
    [3, 'invalid-mst'],
  ] as const)
    assert.equal(await verdict(after, rootOf(under(levels, leaf)), [created(second)]), expected)
})

test('after a delete the tree before may have stood at any height, as far as there is one', async () => {
  const before = (levels: number) =>
    rootOf(under(levels, nodeBlock([low, lowSecond].map((path) => ({ key: path, value })))))
  for (const levels of [0, 1, 7, 32])
    assert.equal(await verdict([leaf], before(levels), [deleted(lowSecond)]), 'passed')
  assert.equal(await verdict([leaf], before(33), [deleted(lowSecond)]), 'invalid-mst')
  // Its entries must be the same all the same.
  assert.equal(await verdict([leaf], before(1), [deleted(lowThird)]), 'invalid-mst')
})

test('a delete leaves bare levels only if it is of all that was there, at the height that this was at', async () => {
  const replace = [deleted(two), created(low)]
  assert.equal(await verdict(under(2, leaf), single(two, 0), replace), 'passed')
  assert.equal(await verdict(under(3, leaf), single(two, 1), replace), 'passed')
  assert.equal(await verdict(under(1, leaf), single(two, 0), replace), 'invalid-mst')
  assert.equal(await verdict(under(3, leaf), single(two, 0), replace), 'invalid-mst')
  assert.equal(await verdict(under(2, leaf), single(two, 1), replace), 'invalid-mst')
  // With something else that remains, the delete would have cut the levels off, although the entries are the same.
  assert.ok(low < two)
  const both = nodeBlock([low, lowSecond].map((path) => ({ key: path, value })))
  const chain = under(1, leaf)
  const before = [nodeBlock([{ key: two, value }], rootOf(chain)), ...chain]
  const ops = [deleted(two), created(lowSecond)]
  assert.equal(await verdict(under(2, both), rootOf(before), ops), 'invalid-mst')
  assert.equal(await verdict([both], rootOf(before), ops), 'passed')
})

test('two deletes leave the height of one of their keys', async () => {
  const pair = (a: string, b: string) =>
    nodeBlock([a, b].toSorted().map((path) => ({ key: path, value }))).cid
  const replace = [deleted(two), deleted(twoSecond), created(low)]
  assert.equal(await verdict(under(2, leaf), pair(two, twoSecond), replace), 'passed')
  for (const levels of [1, 3])
    assert.equal(await verdict(under(levels, leaf), pair(two, twoSecond), replace), 'invalid-mst')
})

test('without prevData there is no height to compare with', async () => {
  const nodes = under(3, leaf)
  const data = rootOf(nodes) ?? new Uint8Array()
  const commit = await signedCommit(keypair, { did: sampleDid, rev: '3migo7fijwi2k', data })
  const parts = { did: sampleDid, rev: '3migo7fijwi2k', since: null, commit: commit.cid }
  const blocks = carOf([commit.cid], [commit, ...nodes, record])
  assert.equal(verifyEvent(commitFrame({ ...parts, blocks, ops: [created(low)] }), options).ok, true)
  assert.equal(verifyEvent(commitFrame({ ...parts, blocks, ops: [created(lowSecond)] }), options).ok, false)
})

test('bare levels have a bound, end in keys, and are needed down to these', async () => {
  for (const [levels, expected] of [
    [32, 'passed'],
    [33, 'invalid-mst'],
    [200, 'invalid-mst'],
  ] as const)
    assert.equal(await verdict(under(levels, leaf), rootOf(under(levels, leaf)), []), expected)
  // Together with the layer of the keys.
  const high = nodeBlock([{ key: two, value }])
  assert.equal(await verdict(under(30, high), rootOf(under(30, high)), []), 'passed')
  assert.equal(await verdict(under(31, high), rootOf(under(31, high)), []), 'invalid-mst')
  const empty = under(1, nodeBlock([]))
  assert.equal(await verdict(empty, rootOf(empty), []), 'invalid-mst')
  const chain = under(3, leaf)
  assert.equal(await verdict(chain.slice(0, -1), rootOf(chain), []), 'missing-block')
  const wrong = under(1, nodeBlock([low, two].toSorted().map((path) => ({ key: path, value }))))
  assert.equal(await verdict(wrong, rootOf(wrong), []), 'invalid-mst')
})

test('a whole repository with bare levels over the bound, or over nothing, is refused', async () => {
  const reason = async (nodes: CarBlock[]) => {
    const data = rootOf(nodes) ?? new Uint8Array()
    const commit = await signedCommit(keypair, { did: sampleDid, rev: '3migo7fijwi2k', data })
    const car = carOf([commit.cid], [commit, ...nodes, record])
    const repo = readRepoCar(car, { did: sampleDid, key, nowMs: Date.now() })
    return repo.ok ? repo.records.length : repo.reason
  }
  assert.equal(await reason(under(32, leaf)), 1)
  assert.equal(await reason(under(33, leaf)), 'invalid-mst')
  assert.equal(await reason(under(1, nodeBlock([]))), 'invalid-mst')
  assert.equal(await reason(under(2, leaf).slice(0, -1)), 'missing-block')
})
