/** Bounds that keep the check of one message short, whatever is in it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode, toBytes } from '@atcute/cbor'
import { Secp256k1Keypair } from '@atproto/crypto'
import { parseDidKey, readRepoCar, verifyEvent } from '../src/index.ts'
import { keyLayer } from '../src/mst-node.ts'
import { keysOfLayer, recordFrame, treeFrame } from './forged-tree.ts'
import {
  block,
  blockOf,
  carOf,
  nodeBlock,
  signedCommit,
  type CarBlock,
  type OpParts,
} from './frame-builder.ts'
import { sampleDid } from './sample-commit.ts'

const keypair = await Secp256k1Keypair.create()
const key = parseDidKey(keypair.did())
assert.ok(key)
const options = { key, nowMs: Date.now(), strict: true }
const record = block({ text: 'a record' })

interface Outcome {
  /** `passed`, or the reason of the refusal. */
  verdict: string
  detail: string
}

async function outcome(nodes: CarBlock[], ops: OpParts[] = [], prevData?: Uint8Array): Promise<Outcome> {
  const event = verifyEvent(await treeFrame(keypair, nodes, ops, prevData), options)
  return event.ok ? { verdict: 'passed', detail: '' } : { verdict: event.reason, detail: event.detail }
}

interface Tree {
  root: CarBlock
  leaves: CarBlock[]
  /** The keys of each leaf, and those of the root that lie between them. */
  groups: string[][]
  between: string[]
}

/** A tree of two layers whose leaves have so many keys, each key being `prefix` and a number. */
function treeOf(widths: readonly number[], prefix = 'org.impact.claim.activity/', value = record.cid): Tree {
  const groups: string[][] = []
  const between: string[] = []
  let next = 0
  const nextOf = (layer: number) => {
    for (;;) {
      const path = `${prefix}${String(next++).padStart(7, '0')}`
      if (keyLayer(path) === layer) return path
    }
  }
  for (const width of widths) {
    if (groups.length > 0) between.push(nextOf(1))
    groups.push(Array.from({ length: width }, () => nextOf(0)))
  }
  const leaves = groups.map((keys) => nodeBlock(keys.map((path) => ({ key: path, value }))))
  const [first, ...others] = leaves
  const root = nodeBlock(
    between.map((path, i) => ({ key: path, value, right: others[i]?.cid })),
    first?.cid,
  )
  return { root, leaves, groups, between }
}

test('a tree that fills a commit is read to its end', async () => {
  const { root, leaves } = treeOf(Array.from({ length: 60 }, () => 200))
  assert.equal((await outcome([root, ...leaves])).verdict, 'passed')
})

test('a node of 512 keys passes, one of 513 is refused', async () => {
  for (const [count, expected] of [
    [512, 'passed'],
    [513, 'invalid-mst'],
  ] as const) {
    const node = nodeBlock(keysOfLayer(0, count).map((path) => ({ key: path, value: record.cid })))
    assert.equal((await outcome([node])).verdict, expected)
  }
})

test('undoing a create joins nodes up to 512 keys, and no further', async () => {
  const joined = async (widths: [number, number]) => {
    const { root, leaves, groups, between } = treeOf(widths)
    const before = nodeBlock(groups.flat().map((path) => ({ key: path, value: record.cid })))
    const ops = between.map((path) => ({ action: 'create', path, cid: record.cid }))
    return await outcome([root, ...leaves, record], ops, before.cid)
  }
  assert.equal((await joined([256, 256])).verdict, 'passed')
  assert.match((await joined([256, 257])).detail, /more than 512 keys/)
})

test('keys of 4,000,000 bytes pass, written out, and not one more', async () => {
  const prefix = 'x'.repeat(993)
  const widths = [499, 499, 499, 499, 499, 499, 499]
  const fits = treeOf([...widths, 500], prefix)
  assert.equal((await outcome([fits.root, ...fits.leaves])).verdict, 'passed')
  const passes = treeOf([...widths, 501], prefix)
  assert.match((await outcome([passes.root, ...passes.leaves])).detail, /too long together/)
})

test('a CAR of 10,000 blocks passes, one of 10,001 is refused', async () => {
  const root = nodeBlock([])
  const more = Array.from({ length: 9999 }, (_, i) => block(i))
  assert.equal((await outcome([root, ...more.slice(1)])).verdict, 'passed')
  assert.equal((await outcome([root, ...more])).verdict, 'oversize')
})

test('one block is the record of many operations, up to 5,000,000 bytes', async () => {
  const sharing = async (bytes: number, count: number) => {
    const shared = blockOf(encode({ text: 'x'.repeat(bytes - 9) }))
    assert.equal(shared.bytes.length, bytes)
    const { leaves, groups } = treeOf([count], undefined, shared.cid)
    const ops = groups.flat().map((path) => ({ action: 'create', path, cid: shared.cid }))
    return (await outcome([...leaves, shared], ops, nodeBlock([]).cid)).verdict
  }
  assert.equal(await sharing(25_000, 200), 'passed')
  assert.equal(await sharing(25_001, 200), 'oversize')
  assert.equal(await sharing(1000, 200), 'passed')
})

/** `{"a": […]}` with a list of so many empty byte strings, so with two values more. */
function listBlock(items: number): CarBlock {
  const empty = toBytes(new Uint8Array(0))
  return blockOf(encode({ a: Array.from({ length: items }, () => empty) }))
}

test('records that are wanted have 50,000 values, each operation counted; others, and those of a relay, may have more', async () => {
  const creating = async (counts: readonly number[], isWanted?: (collection: string) => boolean) => {
    const blocks = counts.map((values) => listBlock(values - 2))
    const { leaves, groups } = treeOf([counts.length])
    const paths = groups.flat()
    const values = blocks.map(({ cid }) => cid)
    const tree = nodeBlock(paths.map((path, i) => ({ key: path, value: values[i] ?? assert.fail() })))
    assert.equal(leaves.length, 1)
    const ops = paths.map((path, i) => ({ action: 'create', path, cid: values[i] ?? assert.fail() }))
    const distinct = [
      ...new Map(blocks.map((each) => [Buffer.from(each.cid).toString('hex'), each])).values(),
    ]
    const frame = await treeFrame(keypair, [tree, ...distinct], ops, nodeBlock([]).cid)
    const event = verifyEvent(frame, { ...options, ...(isWanted && { isWanted }) })
    return event.ok || event.detail
  }
  const all = () => true
  const tooMany = 'the records of the operations have more than 50000 values'
  assert.equal(await creating([20_000, 20_000, 10_000], all), true)
  assert.equal(await creating([20_000, 20_000, 10_001], all), tooMany)
  assert.equal(
    await creating(
      Array.from({ length: 25 }, () => 20_000),
      all,
    ),
    tooMany,
  )
  // Whoever reads a record stops at the first value too many, and leaves it out alone.
  assert.equal(await creating([199_990, 20_000, 10_000], all), true)
  assert.equal(await creating([199_990, 199_980, 199_970], all), tooMany)
  assert.equal(await creating([20_000, 20_000, 20_000], () => false), true)
  assert.equal(await creating([20_000, 20_000, 20_000]), true)
})

test('a whole repository may have more blocks than a commit, but its keys have a bound', async () => {
  const { root, leaves, groups, between } = treeOf(Array.from({ length: 24 }, () => 500))
  const filling = Array.from({ length: 10_000 }, (_, i) => block(i))
  const commit = await signedCommit(keypair, { did: sampleDid, rev: '3migo7fijwi2k', data: root.cid })
  const read = (blocks: CarBlock[], bytesMax?: number) => {
    const car = carOf([commit.cid], [commit, root, record, ...blocks])
    const bounds = bytesMax === undefined ? {} : { bytesMax }
    const repo = readRepoCar(car, { did: sampleDid, key, nowMs: Date.now(), ...bounds })
    return repo.ok ? repo.records.length : repo.detail
  }
  assert.equal(read([...leaves, ...filling]), groups.flat().length + between.length)
})

test('a whole repository whose keys are longer together than it may be is refused', async () => {
  const { root, leaves } = treeOf([500, 500], 'x'.repeat(993))
  const commit = await signedCommit(keypair, { did: sampleDid, rev: '3migo7fijwi2k', data: root.cid })
  const car = carOf([commit.cid], [commit, root, record, ...leaves])
  const read = (bytesMax: number) => {
    const repo = readRepoCar(car, { did: sampleDid, key, nowMs: Date.now(), bytesMax })
    return repo.ok || repo.detail
  }
  assert.equal(read(1_001_000), true)
  assert.match(String(read(1_000_999)), /too long together/)
})

test('a list in a record may hold any value of one byte, up to the depth that other values may have', async () => {
  const verdict = async (hex: string) =>
    verifyEvent(await recordFrame(keypair, Buffer.from(hex, 'hex')), options).ok
  const whole = new Set([0x40, 0x60, 0x80, 0xa0, 0xf4, 0xf5, 0xf6])
  for (let i = 0; i < 24; i++) whole.add(i).add(0x20 + i)
  for (let byte = 0; byte < 256; byte++) {
    const hex = byte.toString(16).padStart(2, '0')
    assert.equal(await verdict(`a1617881${hex}`), whole.has(byte), hex)
    assert.equal(await verdict(`a161788200${hex}`), whole.has(byte), hex)
  }
  // A list that ends too early.
  assert.equal(await verdict('a161788200'), false)
  // The record is the first of 32 levels.
  assert.equal(await verdict(`a16178${'81'.repeat(30)}00`), true)
  assert.equal(await verdict(`a16178${'81'.repeat(31)}00`), false)
})
