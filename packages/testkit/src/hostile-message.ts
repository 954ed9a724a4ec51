/**
 * Messages that a careful reader refuses, each wrong in one way and right in all others: the account
 * exists, the signature is real unless that is the point, and sizes miss their limit by one byte.
 */
import { randomBytes } from 'node:crypto'
import { decode, encode, fromBytes, toBytes } from '@atcute/cbor'
import { blockOf, linkTo } from './cid.ts'
import type { Block, Cid } from './cid.ts'
import { commitBody, encodeCar, encodeEvent } from './commit-event.ts'
import type { EventBody } from './commit-event.ts'
import { signCommit } from './signed-repo.ts'
import type { SignedCommit, SignedRepo } from './signed-repo.ts'
import { nextTid, tidAt } from './tid.ts'

export interface HostileContext {
  /** The account that the message claims to be about. */
  account: SignedRepo
  /** An account with another key; for `foreign-account` it lives on another host. */
  other: SignedRepo
  seq: number
}

const messageBytesMax = 5_000_000
const blocksBytesMax = 2_000_000
const opsMax = 200
const nestingTooDeep = 10_000
const hourMicros = 3_600_000_000
const curveOrder = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

type Make = (context: HostileContext) => Uint8Array

/** A commit that would be the account's next good one: one record is created. */
function draftOf(account: SignedRepo, rev?: string): SignedCommit {
  const rkey = nextTid()
  const record = { subject: account.did, createdAt: new Date().toISOString() }
  const collection = 'app.attested.graph.follow'
  return account.draft([{ action: 'create', collection, rkey, record }], rev)
}

function message(seq: number, body: EventBody): Uint8Array {
  return encodeEvent('#commit', { seq, time: new Date().toISOString(), ...body })
}

/** A message whose signed commit was changed. */
const signedOtherwise =
  (change: (draft: SignedCommit, context: HostileContext) => SignedCommit): Make =>
  (context) =>
    message(context.seq, commitBody(change(draftOf(context.account), context)))

/** A message whose payload was changed around a good commit. */
const bodyOtherwise =
  (change: (body: EventBody, draft: SignedCommit, context: HostileContext) => EventBody): Make =>
  (context) => {
    const draft = draftOf(context.account)
    return message(context.seq, { ...commitBody(draft), ...change(commitBody(draft), draft, context) })
  }

/** Signs the draft's tree again with something else said in the commit. */
function resign(
  draft: SignedCommit,
  account: SignedRepo,
  changes: { did?: string; rev?: string; version?: number; data?: Cid },
): SignedCommit {
  const commit = signCommit(account.signer, { did: draft.did, rev: draft.rev, data: draft.data, ...changes })
  return { ...draft, commit }
}

/** Changes the signature inside a commit block. */
function withSignature(commit: Block, change: (sig: Uint8Array) => Uint8Array): Block {
  const value = decode(commit.bytes)
  return blockOf({ ...value, sig: toBytes(change(fromBytes(value.sig).slice())) })
}

function flipLastBit(bytes: Uint8Array): Uint8Array {
  const flipped = bytes.slice()
  flipped[flipped.length - 1] = (flipped.at(-1) ?? 0) ^ 1
  return flipped
}

/** The same signature with the other of its two valid S values. */
function highS(sig: Uint8Array): Uint8Array {
  const s = BigInt(`0x${Buffer.from(sig.subarray(32)).toString('hex')}`)
  const high = (curveOrder - s).toString(16).padStart(64, '0')
  return Buffer.concat([sig.subarray(0, 32), Buffer.from(high, 'hex')])
}

function carBody(root: Cid, blocks: readonly Block[]): EventBody {
  return { blocks: toBytes(encodeCar(root, blocks)) }
}

/** A block that makes `encodeCar` with it exactly `size` bytes long. */
function paddedCar(draft: SignedCommit, size: number): EventBody {
  const blocks = [draft.commit, ...draft.blocks]
  const padding = (length: number): Block => blockOf(toBytes(new Uint8Array(length)))
  const probe = 0x10_0000
  const around = encodeCar(draft.commit.cid, [...blocks, padding(probe)]).length - probe
  return carBody(draft.commit.cid, [...blocks, padding(size - around)])
}

/** A good message, made `size` bytes long by a field that readers do not know. */
function paddedMessage({ account, seq }: HostileContext, size: number): Uint8Array {
  const body = commitBody(draftOf(account))
  const sized = (length: number): Uint8Array =>
    message(seq, { ...body, padding: toBytes(new Uint8Array(length)) })
  const probe = 0x10_0000
  return sized(size - (sized(probe).length - probe))
}

function firstOp(body: EventBody): Record<string, unknown> {
  return (body['ops'] as Record<string, unknown>[])[0] ?? {} // reason: commitBody made it.
}

const someLink = linkTo(blockOf('something else').cid)

const makers = {
  // Not events at all.
  'random-bytes': () => randomBytes(300),
  'empty-message': () => new Uint8Array(),
  'header-only': () => encode({ op: 1, t: '#commit' }),
  truncated: ({ account, seq }) => message(seq, commitBody(draftOf(account))).subarray(0, -10),
  'trailing-object': ({ account, seq }) =>
    Buffer.concat([message(seq, commitBody(draftOf(account))), encode({})]),
  'deep-nesting': () => {
    // A map whose one value is a list in a list in a list, with null in the last.
    const nested = Buffer.concat([Buffer.alloc(nestingTooDeep, 0x81), Uint8Array.of(0xf6)])
    return Buffer.concat([encode({ op: 1, t: '#commit' }), Uint8Array.of(0xa1, 0x61, 0x61), nested])
  },
  'oversized-message': (context) => paddedMessage(context, messageBytesMax + 1),
  'missing-fields': ({ account, seq }) => message(seq, { repo: account.did }),
  // Whose is it?
  'foreign-account': ({ other, seq }) => message(seq, commitBody(draftOf(other))),
  'foreign-signature': signedOtherwise((draft, { other }) => resign(draft, other, {})),
  'broken-signature': signedOtherwise((draft) => ({
    ...draft,
    commit: withSignature(draft.commit, flipLastBit),
  })),
  'high-s-signature': signedOtherwise((draft) => ({ ...draft, commit: withSignature(draft.commit, highS) })),
  'short-signature': signedOtherwise((draft) => ({
    ...draft,
    commit: withSignature(draft.commit, (sig) => sig.subarray(1)),
  })),
  'other-did-in-commit': signedOtherwise((draft, { account, other }) =>
    resign(draft, account, { did: other.did }),
  ),
  // Commit and event disagree, or the commit is not acceptable.
  'old-version': signedOtherwise((draft, { account }) => resign(draft, account, { version: 2 })),
  'rev-mismatch': bodyOtherwise(() => ({ rev: nextTid() })),
  'rev-not-a-tid': signedOtherwise((draft, { account }) => ({
    ...resign(draft, account, { rev: 'later' }),
    rev: 'later',
  })),
  'stale-rev': ({ account, seq }) => message(seq, commitBody(draftOf(account, tidAt(1_600_000_000_000_000)))),
  'future-rev': ({ account, seq }) =>
    message(seq, commitBody(draftOf(account, tidAt(Date.now() * 1000 + hourMicros)))),
  'other-commit-link': bodyOtherwise(() => ({ commit: someLink })),
  'too-big-flag': bodyOtherwise(() => ({ tooBig: true })),
  // The CAR.
  'no-blocks': bodyOtherwise(() => ({ blocks: toBytes(new Uint8Array()) })),
  'blocks-too-large': bodyOtherwise((_, draft) => paddedCar(draft, blocksBytesMax + 1)),
  'broken-car': bodyOtherwise((_, draft) => ({
    blocks: toBytes(encodeCar(draft.commit.cid, [draft.commit, ...draft.blocks]).subarray(0, -5)),
  })),
  'other-root': bodyOtherwise((_, draft) => carBody(draft.data, [draft.commit, ...draft.blocks])),
  'missing-commit-block': bodyOtherwise((_, draft) => carBody(draft.commit.cid, draft.blocks)),
  'missing-tree-block': bodyOtherwise((_, draft) =>
    carBody(draft.commit.cid, [draft.commit, ...draft.blocks.slice(1)]),
  ),
  'missing-record-block': bodyOtherwise((_, draft) =>
    carBody(draft.commit.cid, [draft.commit, ...draft.blocks.slice(0, -1)]),
  ),
  'wrong-block-hash': bodyOtherwise((_, draft) => {
    const [first, ...rest] = draft.blocks
    if (first === undefined) throw new Error('a draft has blocks')
    const changed = { cid: first.cid, bytes: flipLastBit(first.bytes) }
    return carBody(draft.commit.cid, [draft.commit, changed, ...rest])
  }),
  // The operations.
  'not-inverting': bodyOtherwise(() => ({ ops: [] })),
  'other-prev-data': bodyOtherwise(() => ({ prevData: someLink })),
  'missing-prev-data': bodyOtherwise(() => ({ prevData: undefined })),
  'too-many-ops': ({ account, seq }) => {
    const writes = Array.from({ length: opsMax + 1 }, (_, index) => ({
      action: 'create' as const,
      collection: 'app.attested.graph.follow',
      rkey: `op${index}`,
      record: { subject: account.did },
    }))
    return message(seq, commitBody(account.draft(writes)))
  },
  'duplicate-path': bodyOtherwise((body) => ({ ops: [firstOp(body), firstOp(body)] })),
  'invalid-path': bodyOtherwise((body) => ({ ops: [{ ...firstOp(body), path: 'no-collection' }] })),
  'unknown-action': bodyOtherwise((body) => ({ ops: [{ ...firstOp(body), action: 'upsert' }] })),
  'create-with-prev': bodyOtherwise((body) => ({ ops: [{ ...firstOp(body), prev: someLink }] })),
  'update-without-prev': bodyOtherwise((body) => ({ ops: [{ ...firstOp(body), action: 'update' }] })),
  'delete-with-cid': bodyOtherwise((body) => ({ ops: [{ ...firstOp(body), action: 'delete' }] })),
  'other-record-link': bodyOtherwise((body) => ({ ops: [{ ...firstOp(body), cid: someLink }] })),
} satisfies Record<string, Make>

/** The one thing that is wrong with a hostile message. */
export type HostileKind = keyof typeof makers

export const hostileKinds: readonly HostileKind[] = Object.keys(makers) as HostileKind[] // reason: the keys of the table.

/** Makes one hostile message. The accounts stay as they are. */
export function hostileMessage(kind: HostileKind, context: HostileContext): Uint8Array {
  return makers[kind](context)
}
