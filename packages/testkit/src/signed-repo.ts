/**
 * Repositories whose commits are really signed and carry covering proofs, as Sync 1.1 wants them,
 * without a PDS: for scripted hosts and for recorded load.
 */
import { encode, toBytes } from '@atcute/cbor'
import { blockOf, blockOfBytes, linkTo } from './cid.ts'
import type { Block, Cid } from './cid.ts'
import {
  allNodes,
  coveringNodes,
  emptyTree,
  entries,
  insert,
  newNodes,
  remove,
  replace,
  valueAt,
} from './mst.ts'
import type { MstNode } from './mst.ts'
import type { JsonRecord } from './sample-record.ts'
import type { Signer } from './signer.ts'
import { nextTid } from './tid.ts'

/**
 * One change of a record. `rkey` and `collection` are put in the path as they are. A record in bytes is stored as it is,
 * without a `$type` of its collection.
 */
export type RepoWrite =
  | { action: 'create' | 'update'; collection: string; rkey: string; record: JsonRecord | Uint8Array }
  | { action: 'delete'; collection: string; rkey: string }

/** One entry of a commit's `ops`. */
export interface RepoOp {
  action: 'create' | 'update' | 'delete'
  path: string
  cid: Cid | null
  prev?: Cid
}

/** A signed commit with everything that a `#commit` event tells about it. */
export interface SignedCommit {
  did: string
  rev: string
  /** The revision before, null for the first commit. */
  since: string | null
  /** Root of the record tree before, absent for the first commit. */
  prevData?: Cid
  /** Root of the record tree after. */
  data: Cid
  commit: Block
  ops: RepoOp[]
  /** Tree nodes and records of the event's CAR; the commit comes before them. */
  blocks: Block[]
}

/** What a repository was before and is after a commit. */
interface Draft {
  signed: SignedCommit
  tree: MstNode
  /** Records by path, undefined for a deleted one. */
  written: Map<string, Uint8Array | undefined>
}

/** Signs a commit object over `data`. `version` is 3 unless a test wants a wrong one. */
export function signCommit(
  signer: Signer,
  commit: { did: string; rev: string; data: Cid; version?: number },
): Block {
  const { did, rev, data, version = 3 } = commit
  const unsigned = { did, version, data: linkTo(data), rev, prev: null }
  const sig = toBytes(signer.signNow(encode(unsigned)))
  return blockOf({ ...unsigned, sig })
}

function isEmpty({ keys, children }: MstNode): boolean {
  return keys.length === 0 && children[0] === undefined
}

export class SignedRepo {
  readonly did: string
  /** The key that signs the next commit. */
  signer: Signer
  #tree: MstNode = emptyTree
  #rev: string | null = null
  #commit: Block | undefined
  /** The bytes of every record by its path. */
  readonly #records = new Map<string, Uint8Array>()

  constructor(did: string, signer: Signer) {
    this.did = did
    this.signer = signer
  }

  /** Revision of the last commit, null before the first. */
  get rev(): string | null {
    return this.#rev
  }

  /** The last commit. Throws before the first. */
  get head(): Block {
    if (this.#commit === undefined) throw new Error(`${this.did} has no commit yet`)
    return this.#commit
  }

  /** Record paths with their CIDs, in key order. */
  records(): [path: string, cid: Cid][] {
    return [...entries(this.#tree)]
  }

  /** The whole repository: commit, tree, records. */
  blocks(): Block[] {
    const nodes = [...allNodes(this.#tree)].map((node) => node.block)
    const records = this.records().map(([path, cid]) => ({ cid, bytes: this.#recordAt(path) }))
    return [this.head, ...nodes, ...records]
  }

  #recordAt(path: string): Uint8Array {
    const bytes = this.#records.get(path)
    if (bytes === undefined) throw new Error(`record ${path} is in the tree but not kept`)
    return bytes
  }

  /** Applies `writes` in one commit. Throws `RangeError` for a write that the tree contradicts. */
  commit(writes: readonly RepoWrite[], rev: string = nextTid()): SignedCommit {
    const { signed, tree, written } = this.#prepare(writes, rev)
    for (const [path, bytes] of written) {
      if (bytes === undefined) this.#records.delete(path)
      else this.#records.set(path, bytes)
    }
    this.#tree = tree
    this.#rev = rev
    this.#commit = signed.commit
    return signed
  }

  /** The commit that `commit` would make; the repository stays as it is. */
  draft(writes: readonly RepoWrite[], rev: string = nextTid()): SignedCommit {
    return this.#prepare(writes, rev).signed
  }

  #prepare(writes: readonly RepoWrite[], rev: string): Draft {
    const before = this.#tree
    const written = new Map<string, Uint8Array | undefined>()
    const blocks: Block[] = []
    const ops: RepoOp[] = []
    let tree = before
    // The reference implementation puts the next record below levels without keys when it knows the height of a tree
    // that was emptied: it does after it added a record, or cut off the level that it has read.
    let knowsHeight = false
    for (const write of writes) {
      const path = `${write.collection}/${write.rkey}`
      const prev = valueAt(tree, path)
      const op: RepoOp = { action: write.action, path, cid: null }
      if (prev !== undefined) op.prev = prev
      if (write.action === 'delete') {
        const { layer, keys } = tree
        tree = remove(tree, path)
        knowsHeight ||= keys.length > 0 && tree.layer < layer
        if (isEmpty(tree) && !knowsHeight) tree = emptyTree
        written.set(path, undefined)
      } else {
        const { record } = write
        const block =
          record instanceof Uint8Array
            ? blockOfBytes(record)
            : blockOf({ $type: write.collection, ...record })
        op.cid = block.cid
        knowsHeight ||= write.action === 'create'
        tree = write.action === 'create' ? insert(tree, path, op.cid) : replace(tree, path, op.cid)
        written.set(path, block.bytes)
        blocks.push(block)
      }
      ops.push(op)
    }
    // Nothing is left that could tell the height to the next commit.
    if (isEmpty(tree)) tree = emptyTree

    const nodes = new Set(this.#rev === null ? allNodes(tree) : newNodes(tree))
    for (const { path } of ops) for (const node of coveringNodes(tree, path)) nodes.add(node)
    const data = tree.block.cid
    const commit = signCommit(this.signer, { did: this.did, rev, data })
    const signed: SignedCommit = {
      did: this.did,
      rev,
      since: this.#rev,
      ...(this.#rev === null ? {} : { prevData: before.block.cid }),
      data,
      commit,
      ops,
      blocks: [...Array.from(nodes, (node) => node.block), ...blocks],
    }
    return { signed, tree, written }
  }
}
