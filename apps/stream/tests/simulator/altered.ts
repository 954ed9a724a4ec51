/** Commits of an account that are wrong in one way, and signed by its key all the same: none of them gives a row. */
import { decode, encode, fromBytes, toBytes } from '@atcute/cbor'
import {
  blockOf,
  commitBody,
  encodeCar,
  linkTo,
  signCommit,
  type Block,
  type EventBody,
  type SignedCommit,
  type SignedRepo,
} from '@tributary/testkit'

/** What an altered commit is made of. */
interface Source {
  signed: SignedCommit
  repo: SignedRepo
  other: string
}

const curveOrder = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const elsewhere = blockOf('something else')

const makers = {
  'names another account': ({ signed, other }) => ({ ...commitBody(signed), repo: other }),
  'is signed as another account': ({ signed, repo, other }) => resigned(signed, repo, { did: other }),
  'says another revision': ({ signed }) => ({ ...commitBody(signed), rev: `${signed.rev.slice(0, -1)}z` }),
  'is of version 2': ({ signed, repo }) => resigned(signed, repo, { version: 2 }),
  'has the other valid signature': ({ signed }) =>
    commitBody({ ...signed, commit: withHighS(signed.commit) }),
  'has another root': ({ signed }) => ({
    ...commitBody(signed),
    blocks: toBytes(encodeCar(elsewhere.cid, [signed.commit, ...signed.blocks, elsewhere])),
  }),
  'names another commit': ({ signed }) => ({ ...commitBody(signed), commit: linkTo(elsewhere.cid) }),
  'has a changed block': ({ signed }) => commitBody({ ...signed, blocks: signed.blocks.map(changed) }),
  'leaves an operation out': ({ signed }) => commitBody({ ...signed, ops: signed.ops.slice(1) }),
  'has an operation twice': ({ signed }) => commitBody({ ...signed, ops: [...signed.ops, ...signed.ops] }),
  'names another record': ({ signed }) =>
    commitBody({
      ...signed,
      ops: signed.ops.map((op) => (op.cid ? { ...op, cid: elsewhere.cid } : { ...op, prev: elsewhere.cid })),
      blocks: [...signed.blocks, elsewhere],
    }),
  'names another record before': ({ signed }) =>
    commitBody({
      ...signed,
      ops: signed.ops.map((op) => (op.prev ? { ...op, prev: elsewhere.cid } : op)),
    }),
  'leaves the record before out': ({ signed }) =>
    commitBody({ ...signed, ops: signed.ops.map(({ action, path, cid }) => ({ action, path, cid })) }),
  'has a tree of its own': ({ signed, repo }) => resigned(signed, repo, { data: elsewhere.cid }),
} satisfies Record<string, (source: Source) => EventBody>

export type Alteration = keyof typeof makers

export const alterations = Object.keys(makers) as Alteration[] // those that stand above

/** The body of a commit that its account would write next, but for one thing. */
export function alteredBody(how: Alteration, source: Source): EventBody {
  return makers[how](source)
}

function resigned(
  signed: SignedCommit,
  { signer }: SignedRepo,
  changes: Partial<Parameters<typeof signCommit>[1]>,
): EventBody {
  const { did, rev, data } = signed
  return {
    ...commitBody({ ...signed, commit: signCommit(signer, { did, rev, data, ...changes }) }),
    repo: did,
  }
}

/** The same signature with the other of its two valid S values. */
function withHighS(commit: Block): Block {
  const value = decode(commit.bytes) as { sig: Parameters<typeof fromBytes>[0] } // made here
  const sig = fromBytes(value.sig)
  const s = BigInt(`0x${Buffer.from(sig.subarray(32)).toString('hex')}`)
  const high = Buffer.from((curveOrder - s).toString(16).padStart(64, '0'), 'hex')
  return blockOf({ ...value, sig: toBytes(Buffer.concat([sig.subarray(0, 32), high])) })
}

/** Other bytes under the same name, which are a block of records still. */
function changed({ cid, bytes }: Block): Block {
  const value: unknown = decode(bytes)
  const isRecord = typeof value === 'object' && value !== null && 'text' in value
  return isRecord ? { cid, bytes: new Uint8Array(encode({ ...value, text: 'forged' })) } : { cid, bytes }
}
