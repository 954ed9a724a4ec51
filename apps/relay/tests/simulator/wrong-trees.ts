/** Trees that no honest producer writes. A commit over one says that it changed nothing, or one thing, so that all but the tree is right. */
import { encode } from '@atcute/cbor'
import {
  blockOf,
  blockOfBytes,
  cborHead,
  cborMap,
  inOrder,
  type Block,
  type Cid,
  type RepoOp,
} from '@tributary/testkit'
import type { Random } from '@tributary/testkit/disk'
import { rkeysOf } from './writes.ts'

export interface ForgedCommit {
  root: Block
  nodes: Block[]
  ops?: RepoOp[]
  records?: Block[]
  /** Default: the tree is as it was. */
  prevData?: Cid
}

interface Entry {
  key: string
  value?: Cid
  /** How many bytes the key is said to share with the one before. Default: as it must be. */
  shared?: number
  right?: Cid
  codec?: number
}

const record = blockOf({ $type: 'org.forged.tree', text: 'one' })
const otherRecord = blockOf({ $type: 'org.forged.tree', text: 'another' })
const unsent = blockOf('not sent').cid

const keysOf = (layer: number, count: number): string[] =>
  rkeysOf('org.forged.tree', layer, count)
    .map((rkey) => `org.forged.tree/${rkey}`)
    .toSorted()
const keys = keysOf(0, 12)
const [a = '', b = ''] = keys
/** Of the next layer: the first, the last but one, and the last. */
const upper = keysOf(1, 6)
const [m = ''] = upper
const [beforeLast = '', last = ''] = upper.slice(-2)

function linkBytes(cid: Cid, codec = 0x71): Uint8Array {
  const bytes = Buffer.concat([Uint8Array.of(0xd8, 0x2a, 0x58, 0x25, 0), cid])
  bytes[6] = codec
  return bytes
}

function byteString(bytes: Uint8Array): Uint8Array {
  return Buffer.concat([cborHead(2, bytes.length), bytes])
}

const nothing = encode(null).slice()

function nodeOf(entries: readonly Entry[], left?: Cid, after: Uint8Array = Buffer.alloc(0)): Block {
  let previous = ''
  const maps = entries.map(({ key, value = record.cid, shared, right, codec }) => {
    let p = 0
    while (p < Math.min(previous.length, key.length) && previous[p] === key[p]) p++
    p = shared ?? p
    previous = key
    return cborMap(
      inOrder([
        ['p', cborHead(0, p)],
        ['k', byteString(Buffer.from(key.slice(p), 'latin1'))],
        ['v', linkBytes(value, codec)],
        ['t', right ? linkBytes(right) : nothing],
      ]),
    )
  })
  const list = Buffer.concat([cborHead(4, maps.length), ...maps])
  const node = cborMap(
    inOrder([
      ['e', list],
      ['l', left ? linkBytes(left) : nothing],
    ]),
  )
  return blockOfBytes(Buffer.concat([node, after]))
}

/** A tree that is its root, and nodes below it. */
function tree(root: Block, ...below: Block[]): ForgedCommit {
  return { root, nodes: [root, ...below] }
}

/** How many bytes the first two keys share. */
function sharedBytes(): number {
  let at = 0
  while (a[at] === b[at]) at++
  return at
}

/** Keys of the lowest layer on both sides of one of the next. */
const [low = ''] = keys
const high = keys.at(-1) ?? ''

export const forgedTrees: Readonly<Record<string, (random: Random) => ForgedCommit>> = {
  'keys that descend': () => tree(nodeOf([{ key: b }, { key: a, shared: 0 }])),
  'a key twice': () => tree(nodeOf([{ key: a }, { key: a }])),
  'a prefix that is too short': () => tree(nodeOf([{ key: a }, { key: b, shared: sharedBytes() - 1 }])),
  'a prefix of nothing': () => tree(nodeOf([{ key: a, shared: 1 }])),
  'a key that is not ASCII': () => tree(nodeOf([{ key: 'org.forged.tree/\u00e9' }])),
  'more after a node': () => tree(nodeOf([{ key: a }], undefined, Buffer.alloc(1))),
  'a link to something else': () => tree(nodeOf([{ key: a, codec: 0x55 }])),
  // The first key says which layer the node is of.
  'a key in the wrong layer': () => tree(nodeOf([{ key: m }, { key: high }])),
  'a key before its subtree': () => {
    const child = nodeOf([{ key: low }])
    return tree(nodeOf([{ key: beforeLast, right: child.cid }, { key: last }]), child)
  },
  'a key after its subtree': () => {
    const child = nodeOf([{ key: high }])
    return tree(nodeOf([{ key: m }], child.cid), child)
  },
  'a node in two places': () => {
    const bare = nodeOf([], unsent)
    return tree(nodeOf([{ key: m, right: bare.cid }], bare.cid), bare)
  },
  'a level below the lowest': () => {
    const bare = nodeOf([], unsent)
    return tree(nodeOf([{ key: a }], bare.cid), bare)
  },
  'an empty node': () => {
    const empty = nodeOf([])
    return tree(nodeOf([{ key: m }], empty.cid), empty)
  },
  'an update of nothing': () => {
    const ops: RepoOp[] = [{ action: 'update', path: a, cid: record.cid, prev: record.cid }]
    return { ...tree(nodeOf([{ key: a }])), ops, records: [record] }
  },
  'a delete of what is there': (random) => {
    const values = random.pick([
      [record.cid, otherRecord.cid],
      [otherRecord.cid, record.cid],
    ])
    const prevData = nodeOf(values.map((value) => ({ key: a, value }))).cid
    const ops: RepoOp[] = [{ action: 'delete', path: a, cid: null, prev: otherRecord.cid }]
    return { ...tree(nodeOf([{ key: a }])), ops, prevData }
  },
  'a path twice': (random) => {
    const create: RepoOp = { action: 'create', path: b, cid: otherRecord.cid }
    const update: RepoOp = { action: 'update', path: b, cid: record.cid, prev: otherRecord.cid }
    const ops = random.pick([
      [create, update],
      [update, create],
    ])
    const prevData = nodeOf([{ key: a }]).cid
    return { ...tree(nodeOf([{ key: a }, { key: b }])), ops, records: [record, otherRecord], prevData }
  },
}

/** @throws RangeError for a name that is not there. */
export function forgedTree(name: string, random: Random): ForgedCommit {
  const forge = new Map(Object.entries(forgedTrees)).get(name)
  if (!forge) throw new RangeError(`no tree is wrong by ${name}`)
  return forge(random)
}
