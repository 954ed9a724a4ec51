/** What operations say, against what the tree holds, with and without the tree before. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode, toBytes } from '@atcute/cbor'
import { Secp256k1Keypair } from '@atproto/crypto'
import { parseDidKey, verifyEvent } from '../src/index.ts'
import { keysOfLayer } from './forged-tree.ts'
import {
  block,
  blockOf,
  carOf,
  commitFrame,
  link,
  nodeBlock,
  signedCommit,
  type CarBlock,
  type OpParts,
} from './frame-builder.ts'
import { sampleDid } from './sample-commit.ts'

const keypair = await Secp256k1Keypair.create()
const options = { key: parseDidKey(keypair.did()), nowMs: Date.now(), strict: true }
const rev = '3migo7fijwi2k'
const record = block({ text: 'a record' })
const value = record.cid
const before = block({ text: 'the record before' })
const [low = '', second = ''] = keysOfLayer(0, 2)
const entry = (key: string) => ({ key, value })

interface Tried {
  nodes: CarBlock[]
  ops: OpParts[]
  prevData?: Uint8Array | undefined
  records?: CarBlock[]
}

async function verdict({ nodes, ops, prevData, records = [record, before] }: Tried): Promise<string> {
  const data = nodes[0]?.cid ?? new Uint8Array()
  const commit = await signedCommit(keypair, { did: sampleDid, rev, data })
  const blocks = carOf([commit.cid], [commit, ...nodes, ...records])
  const parts = { did: sampleDid, rev, since: null, commit: commit.cid, prevData, blocks, ops }
  const event = verifyEvent(commitFrame(parts), options)
  return event.ok ? 'passed' : `${event.reason}: ${event.detail}`
}

const one = nodeBlock([entry(low)])
const two = nodeBlock([entry(low), entry(second)])
const empty = nodeBlock([])
const create = (path: string, cid = value): OpParts => ({ action: 'create', path, cid })
const update = (path: string, cid = value, prev = before.cid): OpParts => ({
  action: 'update',
  path,
  cid,
  prev,
})
const remove = (path: string, prev = value): OpParts => ({ action: 'delete', path, cid: null, prev })

test('without prevData the tree must hold what the operations say', async () => {
  const alone = (ops: OpParts[]) => verdict({ nodes: [one], ops })
  assert.equal(await alone([create(low)]), 'passed')
  assert.equal(await alone([update(low)]), 'passed')
  assert.equal(await alone([remove(second)]), 'passed')
  assert.match(await alone([create(second)]), /^invalid-mst/)
  assert.match(await alone([update(second)]), /^invalid-mst/)
  assert.match(await alone([create(low, before.cid)]), /^invalid-mst/)
  assert.match(await alone([update(low, before.cid, value)]), /^invalid-mst/)
})

test('a delete of a key that is still there is refused without prevData', async () => {
  assert.match(await verdict({ nodes: [one], ops: [remove(low)] }), /^invalid-mst/)
  assert.match(await verdict({ nodes: [two], ops: [create(low), remove(second)] }), /^invalid-mst/)
})

test('a delete of a key that is still there is refused with prevData, even one that has it twice', async () => {
  assert.match(await verdict({ nodes: [one], ops: [remove(low)], prevData: one.cid }), /^invalid-mst/)
  const twice = block({
    l: null,
    e: [
      { p: 0, k: toBytes(Buffer.from(low)), v: link(value), t: null },
      { p: low.length, k: toBytes(Buffer.alloc(0)), v: link(value), t: null },
    ],
  })
  assert.match(await verdict({ nodes: [one], ops: [remove(low)], prevData: twice.cid }), /already has/)
})

test('a delete whose place in the tree was not sent is refused', async () => {
  const [top = ''] = keysOfLayer(1, 1, second)
  const root = nodeBlock([entry(top)], one.cid)
  const ops = [remove(second)]
  assert.match(await verdict({ nodes: [root], ops }), /^missing-block/)
  assert.match(await verdict({ nodes: [root], ops, prevData: root.cid }), /^missing-block/)
  assert.equal(await verdict({ nodes: [root, one], ops }), 'passed')
})

test('a commit that creates all there is follows an empty tree and no other', async () => {
  const ops = [create(low)]
  assert.equal(await verdict({ nodes: [one], ops, prevData: empty.cid }), 'passed')
  for (const prevData of [one.cid, two.cid, value])
    assert.match(await verdict({ nodes: [one], ops, prevData }), /^invalid-mst/)
})

test('a commit that deletes all there was leaves an empty tree, and follows what it deleted', async () => {
  const ops = [remove(low), remove(second)]
  assert.equal(await verdict({ nodes: [empty], ops, prevData: two.cid }), 'passed')
  assert.match(await verdict({ nodes: [empty], ops, prevData: one.cid }), /^invalid-mst/)
  assert.match(await verdict({ nodes: [empty], ops, prevData: empty.cid }), /^invalid-mst/)
})

test('a commit without operations follows the same tree and no other', async () => {
  assert.equal(await verdict({ nodes: [one], ops: [], prevData: one.cid }), 'passed')
  assert.equal(await verdict({ nodes: [empty], ops: [], prevData: empty.cid }), 'passed')
  for (const prevData of [empty.cid, two.cid])
    assert.match(await verdict({ nodes: [one], ops: [], prevData }), /^invalid-mst/)
  assert.match(await verdict({ nodes: [empty], ops: [], prevData: one.cid }), /^invalid-mst/)
})

test('every record of a commit is checked, not the first alone', async () => {
  const bad = blockOf(encode(['no', 'map']))
  const keyed = (last: CarBlock) => nodeBlock([entry(low), { key: second, value: last.cid }])
  const reason = (last: CarBlock) =>
    verdict({
      nodes: [keyed(last)],
      ops: [create(low), create(second, last.cid)],
      prevData: empty.cid,
      records: [record, last],
    })
  assert.equal(await reason(before), 'passed')
  assert.match(await reason(bad), /^malformed-record/)
})

test('a record with bytes after its end is refused', async () => {
  const long = blockOf(Buffer.concat([record.bytes, Uint8Array.of(0)]))
  const nodes = [nodeBlock([{ key: low, value: long.cid }])]
  const ops = [create(low, long.cid)]
  assert.match(await verdict({ nodes, ops, prevData: empty.cid, records: [long] }), /^malformed-record/)
})

test('a path is a collection and a record key', async () => {
  for (const path of [
    'activity/one',
    'org.impact.claim.activity/',
    '/one',
    'org.impact.claim.activity/a b',
  ]) {
    const nodes = [nodeBlock([entry(path)])]
    assert.match(await verdict({ nodes, ops: [create(path)], prevData: empty.cid }), /^invalid-ops/)
  }
})

test('keys that share much are written as they must be', async () => {
  const collection = `org.${'x'.repeat(60)}.${'y'.repeat(60)}.${'z'.repeat(60)}.${'w'.repeat(60)}.activity`
  const [a = '', b = '', c = ''] = keysOfLayer(0, 3, '', `${collection}/`)
  const shared = 255
  assert.ok(a.length > shared && a.slice(0, shared) === b.slice(0, shared))
  const after = nodeBlock([a, b, c].map(entry))
  const earlier = nodeBlock([entry(a), entry(c)])
  assert.equal(await verdict({ nodes: [after], ops: [create(b)], prevData: earlier.cid }), 'passed')
  assert.equal(await verdict({ nodes: [earlier], ops: [remove(b)], prevData: after.cid }), 'passed')
})

test('numbers of a node that are not in their shortest form are refused', async () => {
  const bytes = Buffer.from(one.bytes)
  const at = bytes.indexOf(Buffer.from('617000', 'hex')) + 2
  assert.ok(at > 1)
  const long = blockOf(Buffer.concat([bytes.subarray(0, at), Uint8Array.of(0x18, 0), bytes.subarray(at + 1)]))
  assert.match(await verdict({ nodes: [long], ops: [], prevData: long.cid }), /^invalid-mst/)

  // A length of 353 in five bytes. Taken for three, its last two are the begin of a key of that length.
  const parts = ['a2616581a4616b5a00000161', '78'.repeat(351), '6170006174f66176']
  const head = Buffer.from(parts.join(''), 'hex')
  const twofold = blockOf(Buffer.concat([head, encode(link(value)), Buffer.from('616cf6', 'hex')]))
  assert.match(await verdict({ nodes: [twofold], ops: [], prevData: twofold.cid }), /^invalid-mst/)
})
