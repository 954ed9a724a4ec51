/** Signed commits over trees that no honest producer would write, and over single records. */
import type { Keypair } from '@atproto/crypto'
import { keyLayer } from '../src/mst-node.ts'
import {
  blockOf,
  carOf,
  commitFrame,
  nodeBlock,
  signedCommit,
  type CarBlock,
  type OpParts,
} from './frame-builder.ts'
import { sampleDid } from './sample-commit.ts'

const rev = '3migo7fijwi2k'

/** A commit without operations over the tree whose root is the first of these blocks. */
export async function treeFrame(
  keypair: Keypair,
  nodes: readonly CarBlock[],
  ops: OpParts[] = [],
  prevData?: Uint8Array,
): Promise<Uint8Array> {
  const [root] = nodes
  if (!root) throw new Error('a tree needs a root')
  const commit = await signedCommit(keypair, { did: sampleDid, rev, data: root.cid })
  const blocks = carOf([commit.cid], [commit, ...nodes])
  return commitFrame({
    did: sampleDid,
    rev,
    since: null,
    commit: commit.cid,
    prevData: prevData ?? root.cid,
    blocks,
    ops,
  })
}

/** The first commit of a repository, creating one record of these bytes. */
export async function recordFrame(keypair: Keypair, bytes: Uint8Array): Promise<Uint8Array> {
  const record = blockOf(bytes)
  const path = 'org.impact.claim.activity/one'
  const root = nodeBlock([{ key: path, value: record.cid }])
  const ops = [{ action: 'create', path, cid: record.cid }]
  return await treeFrame(keypair, [root, record], ops, nodeBlock([]).cid)
}

/** Ascending keys of one layer, starting after a key. */
export function keysOfLayer(
  layer: number,
  count: number,
  after = '',
  prefix = 'org.impact.claim.activity/',
): string[] {
  const keys: string[] = []
  for (let n = 0; keys.length < count; n++) {
    const key = `${prefix}${String(n).padStart(7, '0')}`
    if (key > after && keyLayer(key) === layer) keys.push(key)
  }
  return keys
}
