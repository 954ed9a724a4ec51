/** Frames, CARs and signed commits put together from their parts, right or deliberately wrong. */
import { hash } from 'node:crypto'
import { CidLinkWrapper, encode, toBytes, type CidLink } from '@atcute/cbor'
import type { Keypair } from '@atproto/crypto'
import { encodeFrame } from '@tributary/protocol'

/** A CID in its binary form. */
export type CidBytes = Uint8Array

export interface CarBlock {
  cid: CidBytes
  bytes: Uint8Array
}

export function block(value: unknown): CarBlock {
  return blockOf(encode(value))
}

export function blockOf(bytes: Uint8Array): CarBlock {
  return { cid: Buffer.concat([Uint8Array.of(1, 0x71, 0x12, 0x20), hash('sha256', bytes, 'buffer')]), bytes }
}

export function link(cid: CidBytes): CidLink {
  return new CidLinkWrapper(cid)
}

export function carOf(roots: CidBytes[], blocks: Iterable<CarBlock>, version = 1): Uint8Array {
  const header = encode({ roots: roots.map(link), version })
  const parts = [varint(header.length), header]
  for (const { cid, bytes } of blocks) parts.push(varint(cid.length + bytes.length), cid, bytes)
  return Buffer.concat(parts)
}

function varint(value: number): Uint8Array {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 0x80; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80)
  return Uint8Array.from([...bytes, rest])
}

export interface CommitParts {
  did: string
  rev: string
  data: CidBytes
}

/** A signed commit object. `change` may alter what is signed, `after` what was. */
export async function signedCommit(
  keypair: Keypair,
  { did, rev, data }: CommitParts,
  change: Record<string, unknown> = {},
  after: Record<string, unknown> = {},
): Promise<CarBlock> {
  const unsigned = { did, version: 3, data: link(data), rev, prev: null, ...change }
  const sig = toBytes(await keypair.sign(encode(unsigned)))
  return block({ ...unsigned, sig, ...after })
}

export interface OpParts {
  action: string
  path: string
  cid: CidBytes | null
  prev?: CidBytes | undefined
}

/** The body of a `#commit` as a PDS sends it. */
export interface CommitBodyParts {
  did: string
  rev: string
  since: string | null
  commit: CidBytes
  prevData?: CidBytes | undefined
  blocks: Uint8Array
  ops: OpParts[]
}

export function commitFrame(parts: CommitBodyParts, change: Record<string, unknown> = {}): Uint8Array {
  const { did, rev, since, commit, prevData, blocks, ops } = parts
  return encodeFrame('#commit', {
    seq: 4242,
    rebase: false,
    tooBig: false,
    repo: did,
    commit: link(commit),
    rev,
    since,
    blocks: toBytes(blocks),
    ops: ops.map(({ action, path, cid, prev }) => ({
      action,
      path,
      cid: cid && link(cid),
      ...(prev ? { prev: link(prev) } : {}),
    })),
    blobs: [],
    ...(prevData ? { prevData: link(prevData) } : {}),
    time: '2026-07-04T14:39:14.123Z',
    ...change,
  })
}

export function syncFrame(
  parts: { did: string; rev: string; blocks: Uint8Array },
  change: Record<string, unknown> = {},
): Uint8Array {
  const { did, rev, blocks } = parts
  return encodeFrame('#sync', {
    seq: 4243,
    did,
    rev,
    blocks: toBytes(blocks),
    time: '2026-07-04T14:39:14.123Z',
    ...change,
  })
}

export interface NodeEntryParts {
  key: string
  value: CidBytes
  /** Subtree after the key. */
  right?: CidBytes | undefined
}

/** A node of the tree of records, with keys compressed as they must be. */
export function nodeBlock(entries: NodeEntryParts[], left?: CidBytes): CarBlock {
  let previous = ''
  const e = entries.map(({ key, value, right }) => {
    let p = 0
    while (p < Math.min(previous.length, key.length) && previous[p] === key[p]) p++
    previous = key
    return {
      p,
      k: toBytes(Buffer.from(key.slice(p), 'latin1')),
      v: link(value),
      t: right ? link(right) : null,
    }
  })
  return block({ l: left ? link(left) : null, e })
}
