/** Messages as hosts send them, honest and forged. */
import { encode, toBytes } from '@atcute/cbor'
import {
  cidText,
  commitBody,
  encodeCar,
  encodeEvent,
  linkTo,
  Signer,
  signCommit,
  syncBody,
  tidAt,
  type EventBody,
  type SignedCommit,
  type SignedRepo,
} from '@tributary/testkit'

export type Kind = 'commit' | 'sync' | 'identity' | 'account'

/** The commit that a message carries. */
export interface Head {
  rev: string
  cid: Uint8Array
  bytes: Uint8Array
}

/** What a host is about to send. */
export interface Draft {
  kind: Kind
  body: EventBody
  /** The account that the message is of, as an honest reader takes it. */
  did: string
  /** Whether it is what it says: from the account's host, signed by the account's key, about the account's tree. */
  isHonest: boolean
  /** Not even its position can be read. */
  isUnreadable?: boolean
  head?: Head
  commit?: { since: string | null; prevData: string | undefined; data: string; collections: string[] }
  status?: string
  /** The bytes of a message that the body does not describe. */
  raw?: (seq: number, time: string) => Buffer
}

export function commitDraft(signed: SignedCommit): Draft {
  const { did, rev, since, commit, prevData } = signed
  const head = { rev, ...commit }
  const written = signed.ops.filter(({ action }) => action !== 'delete')
  const collections = written.map(({ path }) => path.slice(0, path.indexOf('/')))
  const chain = { since, prevData: prevData && cidText(prevData), data: cidText(signed.data), collections }
  return { kind: 'commit', did, body: commitBody(signed), isHonest: true, head, commit: chain }
}

export function syncDraft(did: string, head: Head): Draft {
  return { kind: 'sync', did, body: syncBody(did, head.rev, head), isHonest: true, head }
}

export function identityDraft(did: string, handle: string): Draft {
  return { kind: 'identity', did, body: { did, handle }, isHonest: true }
}

export function accountDraft(did: string, status: string): Draft {
  const isActive = status === 'active'
  const body = isActive ? { did, active: true } : { did, active: false, status }
  return { kind: 'account', did, body, isHonest: true, status }
}

/** The repository as one file: all that anybody reads of it is the commit at its start. */
export function carOf(head: Head): Buffer {
  return Buffer.from(encodeCar(head.cid, [head]))
}

/** An answer that is not what its host has of an account. @param pick below 1, says what is wrong. */
export function forgedCar(
  head: Head,
  { did, nowMs, signer, pick }: { did: string; nowMs: number; signer: Signer | undefined; pick: number },
): Buffer {
  const rev = tidAt(Math.floor(nowMs * 1000))
  const sign = (by: Signer, said: { did: string; rev: string }): Head => {
    return { rev: said.rev, ...signCommit(by, { ...said, data: head.cid }) }
  }
  const ahead = tidAt(Math.floor((nowMs + 7 * 60_000) * 1000))
  const forged = [
    // Other bytes than its name stands for.
    { ...head, bytes: sign(signer ?? stranger, { did, rev }).bytes },
    sign(stranger, { did, rev }),
    sign(signer ?? stranger, { did: 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa', rev }),
    sign(signer ?? stranger, { did, rev: ahead }),
  ]
  return carOf(forged[Math.floor(pick * forged.length)] ?? head)
}

const stranger = Signer.fromSeed('nobody of the simulator')

export const forgeries = [
  'commit of another',
  'commit of another, signed with its own key',
  'commit that names two',
  'commit that names two, the other way round',
  'account that names two',
  'account that names two, the other way round',
  'account of another',
  'identity of another',
  'sync of another',
  'commit sent again',
] as const

/** Those of which another relay is not believed. It may tell again what was sent, and that documents have changed. */
export const lies = [
  'commit of another',
  'commit of another, signed with its own key',
  'commit that names two',
  'account that names two',
  'account of another',
  'sync of another',
] as const satisfies (typeof forgeries)[number][]

export interface Forgery {
  name: (typeof forgeries)[number]
  /** Who sends, and in whose name. */
  attacker: { did: string; signer: Signer; repo: SignedRepo }
  victim: { did: string; repo: SignedRepo; head: Head; lastCommit: EventBody | undefined }
  rev: string
  /** Makes each forgery another one. */
  count: number
}

/** A message that must not pass, whatever field names whom. */
export function forgedDraft({ name, attacker, victim, rev, count }: Forgery): Draft {
  const { did } = victim
  const { repo } = victim
  const record = { text: `forged ${count}` }
  const forged = (): EventBody => {
    const before = repo.signer
    repo.signer = attacker.signer
    try {
      const write = { action: 'create' as const, collection: 'org.forged.record', rkey: `f${count}`, record }
      return commitBody(repo.draft([write], rev))
    } finally {
      repo.signer = before
    }
  }
  const two = { did: attacker.did, repo: did }
  const gone = { active: false, status: 'deleted' }
  const of = (kind: Kind, body: EventBody): Draft => ({ kind, did, body, isHonest: false })
  switch (name) {
    case 'commit of another':
      return of('commit', forged())
    case 'commit of another, signed with its own key': {
      const commit = signCommit(attacker.signer, { did: attacker.did, rev, data: victim.head.cid })
      const blocks = toBytes(encodeCar(commit.cid, [commit]))
      return of('commit', { ...forged(), blocks, commit: linkTo(commit.cid), ops: [] })
    }
    case 'commit that names two': {
      // All is as it should be but for the account that consumers read.
      const write = { action: 'create' as const, collection: 'org.forged.record', rkey: `f${count}`, record }
      const own = commitBody(attacker.repo.draft([write], rev))
      return of('commit', { ...own, ...two })
    }
    case 'commit that names two, the other way round':
      return swapped(of('commit', { ...forged(), ...two }), 'repo')
    case 'account that names two':
      return swapped(of('account', { did, repo: attacker.did, ...gone }), 'did')
    case 'account that names two, the other way round':
      return swapped(of('account', { did, repo: attacker.did, ...gone }), 'repo')
    case 'account of another':
      return of('account', { did, ...gone })
    case 'identity of another':
      return of('identity', { did, handle: 'forged.example' })
    case 'sync of another': {
      const commit = signCommit(attacker.signer, { did, rev, data: victim.head.cid })
      return of('sync', syncBody(did, rev, commit))
    }
    case 'commit sent again':
      return of('commit', victim.lastCommit ?? forged())
  }
}

/** A message whose body begins with one field, which the canonical order of the others may not allow. */
function swapped(draft: Draft, first: string): Draft {
  const raw = (seq: number, time: string): Buffer => {
    const fields = Object.entries({ ...draft.body, seq, time })
    // In canonical order, the first field apart: short keys come first.
    const ordered = fields
      .toSorted(([a], [b]) => a.length - b.length || (a < b ? -1 : 1))
      .toSorted(([a], [b]) => Number(b === first) - Number(a === first))
    const body = ordered.flatMap(([key, value]) => [encode(key), encode(value)])
    return Buffer.concat([encode({ op: 1, t: `#${draft.kind}` }), Buffer.of(0xa0 + fields.length), ...body])
  }
  return { ...draft, raw }
}

/** The message of a draft. */
export function frameOf(draft: Draft, seq: number, time: string): Buffer {
  return draft.raw?.(seq, time) ?? Buffer.from(encodeEvent(`#${draft.kind}`, { ...draft.body, seq, time }))
}
