/** Messages out of a grammar: wrong in every way, or right and odd. */
import { toBytes } from '@atcute/cbor'
import {
  cborMap,
  cborText,
  fieldsOf,
  hostileKinds,
  inOrder,
  oddKeys,
  randomCbor,
  hostileMessage,
  oddlyExtended,
  randomMessage,
  sampleRecord,
  nextTid,
  signCommit,
  commitBody,
  encodeEvent,
  blockOf,
  linkTo,
  type CborField,
  type RepoWrite,
  type SignedCommit,
  type ScriptedAccount,
} from '@tributary/testkit'
import { repeat, type Stage, type Strategy } from '../stage.ts'

const perSecond = 100
const collection = 'org.impact.collection'

export const messages: Readonly<Record<string, Strategy>> = {
  /** Every kind of message, with any number of things wrong in header, fields, values and bytes. */
  grammar: async (stage) => {
    await repeat(stage, perSecond, () => {
      const { host, account } = speaker(stage)
      const others = stage.hosts.flatMap(({ accounts }) => [...accounts.values()]).slice(0, 5)
      const otherDids = stage.victims.map(({ did }) => did)
      host.emitMessage(
        randomMessage(stage.random, { own: account, others, otherDids }, { seq: host.lastSeq + 1 }),
      )
      stage.count('messages')
    })
  },

  /** Right events with fields that nobody knows. They may pass, and must then be readable by everybody. */
  'odd-fields': async (stage) => {
    await repeat(stage, perSecond, () => {
      const { host, account } = speaker(stage)
      const type = stage.random.pick(['#commit', '#sync', '#identity', '#account'] as const)
      host.emitMessage(oddlyExtended(stage.random, type, account, host.lastSeq + 1))
      stage.count('events')
    })
  },

  /** Every kind of message that is wrong in one way, the largest ones too. */
  'one-wrong-thing': async (stage) => {
    await repeat(stage, 25, () => {
      const { host, account } = speaker(stage)
      const other = [...stage.random.pick(stage.hosts).accounts.values()].find((each) => each !== account)
      // A message over the limit of the protocol ends the connection each time that it is read.
      const kind = stage.random.pick(hostileKinds.filter((each) => each !== 'oversized-message'))
      if (other) host.emitMessage(hostileMessage(kind, { account, other, seq: host.lastSeq + 1 }))
      stage.count('messages')
    })
  },

  /** Commits that are signed rightly, over trees and operations that are not. */
  'wrong-trees': async (stage) => {
    await repeat(stage, perSecond, () => {
      const { host, account } = speaker(stage)
      const body = commitBody(wronglySigned(stage, account))
      host.emitMessage(
        encodeEvent('#commit', { seq: host.lastSeq + 1, time: new Date().toISOString(), ...body }),
      )
      stage.count('commits')
    })
  },

  /** Good commits of records with odd contents. */
  'odd-records': async (stage) => {
    await repeat(stage, 30, () => {
      const { account } = speaker(stage)
      const writes: RepoWrite[] = [
        { action: 'create', collection, rkey: nextTid(), record: oddRecord(stage) },
      ]
      if (stage.random.next() < 0.02) {
        const rkey = `__proto__${nextTid()}`
        writes.push({ action: 'create', collection: 'constructor.prototype.toString', rkey, record: {} })
      }
      account.emitWrites(writes)
      stage.count('commits')
    })
  },

  /** Good commits as large as they may be, of one account after the other. */
  'large-commits': async (stage) => {
    await repeat(stage, 3, () => {
      const { host, account } = speaker(stage)
      if ((host.reader?.unsentBytes ?? Infinity) > 2_000_000) return
      const length = stage.random.pick([1, 100, 200])
      const writes = Array.from({ length }, (_, index): RepoWrite => {
        const record = sampleRecord(collection, { title: `${index} ${'x'.repeat(900)}` })
        return { action: 'create', collection, rkey: nextTid(), record }
      })
      account.emitWrites(writes)
      stage.count('commits')
    })
  },
}

function speaker(stage: Stage) {
  const host = stage.random.pick(stage.hosts)
  const account = stage.random.pick([...host.accounts.values()])
  return { host, account }
}

/** A draft whose commit was signed again over another tree, or whose blocks are not what its operations say. */
function wronglySigned(stage: Stage, account: ScriptedAccount): SignedCommit {
  const { random } = stage
  const record = sampleRecord(collection)
  const draft = account.draft([{ action: 'create', collection, rkey: nextTid(), record }])
  const nodes = [
    blockOf({ l: null, e: [] }),
    blockOf({ l: null, e: [{ p: 0, k: toBytes(new Uint8Array(0)), v: linkTo(draft.data), t: null }] }),
    blockOf({ l: linkTo(draft.data), e: [] }),
    blockOf({ e: [], l: null, x: 1 }),
    blockOf([]),
    blockOf({ l: null, e: Array.from({ length: 2000 }, (_, i) => ({ p: i, k: null, v: null, t: null })) }),
  ]
  const node = random.pick(nodes)
  const commit = signCommit(account.signer, { did: draft.did, rev: draft.rev, data: node.cid })
  const blocks = [node, ...draft.blocks]
  return { ...draft, data: node.cid, commit, blocks: random.next() < 0.8 ? blocks : blocks.slice(1) }
}

/** The bytes of a record with contents that programs trip over: mostly what a PDS would take. */
function oddRecord({ random }: Stage): Uint8Array {
  const type: CborField = ['$type', cborText(collection)]
  const keys = new Set(Array.from({ length: random.below(8) }, () => random.pick(oddKeys)))
  keys.delete('$type')
  const forbiddenShare = random.pick([0, 0, 0.05])
  const fields = Array.from(keys, (key): CborField => [key, randomCbor(random, { forbiddenShare })])
  const many = fieldsOf(
    random.pick([
      {},
      {},
      { text: '\u0000\u2028\u2029"\\\u{1F600}'.repeat(50) },
      { many: Array.from({ length: 5000 }, (_, index) => index) },
      Object.fromEntries(Array.from({ length: 2000 }, (_, index) => [`key${index}`, index])),
    ]),
  )
  return cborMap(inOrder([type, ...fields, ...many]))
}
