/**
 * Messages that a host sends of its own account, signed with the account's key, each wrong in one way and right in all
 * others. None of them may pass.
 */
import { encode, toBytes } from '@atcute/cbor'
import {
  blockOf,
  blockOfBytes,
  cborHead,
  cborMap,
  commitBody,
  encodeCar,
  fieldsOf,
  inOrder,
  linkTo,
  signCommit,
  tidAt,
  type Block,
  type CborField,
  type EventBody,
  type SignedCommit,
  type SignedRepo,
  type Signer,
} from '@tributary/testkit'
import type { Random } from '@tributary/testkit/disk'
import type { Draft, Kind } from './frames.ts'
import { forgedTree, forgedTrees, type ForgedCommit } from './wrong-trees.ts'
import { draftOf, rkeysOf } from './writes.ts'

/** What a wrong message is made of. */
interface Context {
  /** The next good commit of the account. */
  good: SignedCommit
  repo: SignedRepo
  signer: Signer
  handle: string
  random: Random
  nowMs: number
}

type Make = (context: Context) => Draft | EventBody

/** The body of a commit whose signed object is another one. */
function withCommit(good: SignedCommit, commit: Block, blocks: readonly Block[] = good.blocks): EventBody {
  return { ...commitBody({ ...good, commit, blocks: [...blocks] }) }
}

/** A commit object of these fields in this order, signed as it stands. */
function signedFields({ signer }: Context, fields: readonly CborField[], after = Buffer.alloc(0)): Block {
  const sig: CborField = ['sig', encode(toBytes(signer.signNow(cborMap(fields)))).slice()]
  const at = fields.findIndex(([key]) => key === 'rev') + 1
  return blockOfBytes(Buffer.concat([cborMap([...fields.slice(0, at), sig, ...fields.slice(at)]), after]))
}

function commitFields({ good: { did, rev, data } }: Context): Record<string, unknown> {
  return { did, rev, data: linkTo(data), prev: null, version: 3 }
}

/** A CAR in parts that can be changed. */
function carBody(header: Uint8Array, sections: readonly Uint8Array[]): EventBody {
  return { blocks: toBytes(Buffer.concat([lengthOf(header.length), header, ...sections])) }
}

function carHeader(root: Uint8Array, version = 1): Uint8Array {
  return encode({ roots: [linkTo(root)], version }).slice()
}

function sectionsOf(blocks: readonly Block[]): Uint8Array[] {
  return blocks.map(({ cid, bytes }) => Buffer.concat([lengthOf(cid.length + bytes.length), cid, bytes]))
}

/** As a varint. @param isLonger with a byte that says nothing. */
function lengthOf(value: number, isLonger = false): Uint8Array {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80)
  return Uint8Array.from(isLonger ? [...bytes, rest | 0x80, 0] : [...bytes, rest])
}

function all({ commit, blocks }: SignedCommit): Block[] {
  return [commit, ...blocks]
}

/** The good commit with another payload around it. */
const bodyWith =
  (change: (context: Context) => EventBody): Make =>
  (context) => ({ ...commitBody(context.good), ...change(context) })

/** A commit that creates these records, which may be none. */
function creating(
  { repo, good: { rev } }: Context,
  collection: string,
  records: readonly Uint8Array[],
): EventBody {
  const writes = records.map((record, n) => ({
    action: 'create' as const,
    collection,
    rkey: `w${n}`,
    record,
  }))
  return commitBody(repo.draft(writes, rev))
}

const goodRecord = encode({ $type: 'org.wrong.record', text: 'good' }).slice()

/** A message of a draft, as bytes that its body does not describe. */
function rawDraft(kind: Kind, did: string, fields: (common: CborField[]) => CborField[]): Draft {
  const raw = (seq: number, time: string): Buffer =>
    Buffer.concat([encode({ op: 1, t: `#${kind}` }), cborMap(fields(fieldsOf({ seq, time })))])
  return { kind, did, body: { did }, isHonest: false, isUnreadable: true, raw }
}

/** A commit over a forged tree. */
function forgedBody(
  context: Context,
  { root, nodes, ops = [], records = [], prevData }: ForgedCommit,
): EventBody {
  const { good, signer } = context
  const commit = signCommit(signer, { did: good.did, rev: good.rev, data: root.cid })
  const blocks = [...nodes, ...records]
  return commitBody({ ...good, commit, data: root.cid, prevData: prevData ?? root.cid, ops, blocks })
}

const someBlock = blockOf('something else')
const minuteMicros = 60_000_000

const makers = {
  'of another': (context) =>
    withCommit(context.good, signedFields(context, fieldsOf({ ...commitFields(context), did: otherDid }))),
  'of another rev': bodyWith(({ good }) => ({ rev: nextAfter(good.rev) })),
  'another commit link': bodyWith(() => ({ commit: linkTo(someBlock.cid) })),
  'of version 2': (context) =>
    withCommit(context.good, signedFields(context, fieldsOf({ ...commitFields(context), version: 2 }))),
  'without prev': (context) =>
    withCommit(context.good, signedFields(context, fieldsOf({ ...commitFields(context), prev: undefined }))),
  'fields in another order': (context) => {
    const { did, data, rev, ...rest } = commitFields(context)
    return withCommit(context.good, signedFields(context, fieldsOf({ did, data, rev, ...rest })))
  },
  'more after the commit': (context) =>
    withCommit(context.good, signedFields(context, fieldsOf(commitFields(context)), Buffer.alloc(1))),
  'of a time to come': (context) => {
    const { repo, nowMs, random } = context
    // It may wait for ten minutes before it is looked at.
    return commitBody(draftOf(repo, tidAt(Math.floor(nowMs * 1000) + 17 * minuteMicros), random))
  },
  'a high S': (context) => {
    const { did, rev, data } = context.good
    const unsigned = { did, version: 3, data: linkTo(data), rev, prev: null }
    const sig = highS(context.signer.signNow(encode(unsigned)))
    return withCommit(context.good, blockOf({ ...unsigned, sig: toBytes(sig) }))
  },
  // The CAR.
  'a block of other bytes': bodyWith(({ good: { commit, blocks } }) => {
    const changed = blocks.map(({ cid, bytes }, at) => ({ cid, bytes: at === 0 ? flipped(bytes) : bytes }))
    return carBody(carHeader(commit.cid), sectionsOf([commit, ...changed]))
  }),
  'a block too much of other bytes': bodyWith(({ good }) => {
    // Its digest begins as the right one does.
    const cid = Uint8Array.from(someBlock.cid)
    cid[cid.length - 1] = (cid.at(-1) ?? 0) ^ 1
    return carBody(carHeader(good.commit.cid), sectionsOf([...all(good), { cid, bytes: someBlock.bytes }]))
  }),
  'a block that is not DAG-CBOR': bodyWith(({ good }) => {
    const cid = Uint8Array.from(someBlock.cid)
    cid[1] = 0x55
    return carBody(carHeader(good.commit.cid), sectionsOf([...all(good), { cid, bytes: someBlock.bytes }]))
  }),
  'a block without a name': bodyWith(({ good }) =>
    carBody(carHeader(good.commit.cid), [...sectionsOf(all(good)), Uint8Array.of(0)]),
  ),
  'a CAR that is cut off': bodyWith(({ good }) => ({
    blocks: toBytes(encodeCar(good.commit.cid, [...all(good), someBlock]).slice(0, -1)),
  })),
  'a length with too many bytes': bodyWith(({ good }) => {
    const longer = Buffer.concat([
      lengthOf(36 + someBlock.bytes.length, true),
      someBlock.cid,
      someBlock.bytes,
    ])
    return carBody(carHeader(good.commit.cid), [...sectionsOf(all(good)), longer])
  }),
  'a CAR of version 2': bodyWith(({ good }) => carBody(carHeader(good.commit.cid, 2), sectionsOf(all(good)))),
  'more after the header of the CAR': bodyWith(({ good }) =>
    carBody(Buffer.concat([carHeader(good.commit.cid), Buffer.alloc(1)]), sectionsOf(all(good))),
  ),
  'without its root': bodyWith(({ good: { commit, blocks } }) =>
    carBody(carHeader(commit.cid), sectionsOf(blocks)),
  ),
  // The operations.
  'without operations': bodyWith(() => ({ ops: [] })),
  'with another tree before': bodyWith(() => ({ prevData: linkTo(someBlock.cid) })),
  'without a record': (context) => {
    const body = context.repo.draft([created(context.random)], context.good.rev)
    return commitBody({ ...body, blocks: body.blocks.slice(0, -1) })
  },
  'with another record than in the tree': (context) => {
    const draft = context.repo.draft([created(context.random)], context.good.rev)
    const ops = draft.ops.map((op) => ({ ...op, cid: someRecord.cid }))
    return commitBody({ ...draft, ops, blocks: [...draft.blocks, someRecord] })
  },
  'a path without a collection': (context) => creating(context, 'nowhere', [goodRecord]),
  'a record that goes on': (context) =>
    creating(context, 'org.wrong.record', [goodRecord, Buffer.concat([goodRecord, Buffer.alloc(1)])]),
  'a record that is no map': (context) =>
    creating(context, 'org.wrong.record', [goodRecord, encode('text').slice()]),
  'a record out of order': (context) => {
    const record = cborMap([
      ['b', cborHead(0, 1)],
      ['a', cborHead(0, 2)],
    ])
    return creating(context, 'org.wrong.record', [record])
  },
  'operations without the record before': bodyWith(({ good }) => {
    const { ops } = commitBody({
      ...good,
      ops: good.ops.map(({ action, path, cid }) => ({ action, path, cid })),
    })
    // A commit that only creates has none: it is wrong in another way then.
    return good.ops.some(({ prev }) => prev) ? { ops } : { ops: [] }
  }),
  // Levels without keys at the top of the tree.
  'a bare level': (context) => {
    const { repo, signer, random, good } = context
    // An empty tree may have kept any height: the commit is wrong in another way then.
    if (repo.records().length === 0) return commitBody({ ...good, ops: [] })
    const [path = ''] = repo.records()[0] ?? []
    const [collection = '', rkey = ''] = path.split('/')
    const removed = { action: 'delete' as const, collection, rkey }
    const isRemoval = repo.records().length > 1 && random.next() < 0.5
    const draft = repo.draft([isRemoval ? removed : created(random)], good.rev)
    const bare = blockOf({ l: linkTo(draft.data), e: [] })
    const commit = signCommit(signer, { did: draft.did, rev: draft.rev, data: bare.cid })
    return commitBody({ ...draft, commit, data: bare.cid, blocks: [bare, ...draft.blocks] })
  },
  'a bare level that is gone': (context) => {
    const draft = context.repo.draft([created(context.random)], context.good.rev)
    // The level without keys below which nothing is has another form.
    const before = context.repo.records().length > 0 ? (draft.prevData ?? someBlock.cid) : someBlock.cid
    return commitBody({ ...draft, prevData: blockOf({ l: linkTo(before), e: [] }).cid })
  },
  // Messages that are not as DAG-CBOR has them.
  'a message out of order': ({ good: { did }, handle }) =>
    rawDraft('identity', did, (common) => [...fieldsOf({ handle, did }), ...common]),
  'a field that comes twice': ({ good: { did }, handle }) =>
    rawDraft('identity', did, (common) =>
      inOrder([...common, ...fieldsOf({ did, handle }), ...fieldsOf({ handle })]),
    ),
  'an integer that is too large': ({ good: { did }, handle }) =>
    rawDraft('identity', did, (common) =>
      inOrder([...common, ...fieldsOf({ did, handle }), ['large', cborHead(0, 2n ** 60n)]]),
    ),
} satisfies Record<string, Make>

/** Keys that make no tree higher. */
const lowRkeys = rkeysOf('org.wrong.record', 0, 8)
const otherDid = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa'
const someRecord = blockOf({ $type: 'org.wrong.record', text: 'another' })
const curveOrder = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

function created(random: Random) {
  const collection = 'org.wrong.record'
  return { action: 'create' as const, collection, rkey: random.pick(lowRkeys), record: { text: 'wrong' } }
}

function flipped(bytes: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(bytes)
  copy[copy.length - 1] = (copy.at(-1) ?? 0) ^ 1
  return copy
}

/** The same signature with the other of its two S values. */
function highS(sig: Uint8Array): Uint8Array {
  const high = curveOrder - BigInt(`0x${Buffer.from(sig.subarray(32)).toString('hex')}`)
  return Buffer.concat([sig.subarray(0, 32), Buffer.from(high.toString(16).padStart(64, '0'), 'hex')])
}

/** A revision that differs in its last sign only. */
function nextAfter(rev: string): string {
  return `${rev.slice(0, -1)}${rev.endsWith('3') ? '4' : '3'}`
}

export const wrongs: readonly string[] = [...Object.keys(makers), ...Object.keys(forgedTrees)]

/** A message that its host should not send. */
export function wrongDraft(
  name: string,
  { repo, handle }: { repo: SignedRepo; handle: string },
  { rev, nowMs, random }: { rev: string; nowMs: number; random: Random },
): Draft {
  const context: Context = {
    good: draftOf(repo, rev, random),
    repo,
    signer: repo.signer,
    handle,
    random,
    nowMs,
  }
  const make = new Map<string, Make>(Object.entries(makers)).get(name)
  const made = make ? make(context) : forgedBody(context, forgedTree(name, random))
  return isDraft(made) ? made : { kind: 'commit', did: repo.did, body: made, isHonest: false }
}

function isDraft(made: Draft | EventBody): made is Draft {
  return 'isHonest' in made
}
