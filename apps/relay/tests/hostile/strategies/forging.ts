/** Events in the name of accounts of honest hosts. */
import {
  cborMap,
  commitBody,
  cborText,
  fieldsOf,
  nextTid,
  SignedRepo,
  syncBody,
  type CborField,
  type EventBody,
  type ScriptedAccount,
} from '@tributary/testkit'
import { WebSocket } from 'ws'
import { repeat, type Stage, type Strategy } from '../stage.ts'

const perSecond = 40
const kinds = ['#commit', '#sync', '#account', '#identity'] as const
type Kind = (typeof kinds)[number]

/** Which account each of the two names of a body says, in which order they come, and whom the signed commit names. */
interface Forgery {
  kind: Kind
  repo: string | undefined
  did: string | undefined
  repoFirst: boolean
  inner: string
}

export const forging: Readonly<Record<string, Strategy>> = {
  /** Both names of an account in one body, in both orders, signed with the attacker's own key. */
  'forge-commit': (stage) => forgeTwoNames(stage, '#commit'),
  'forge-sync': (stage) => forgeTwoNames(stage, '#sync'),
  'forge-account': (stage) => forgeTwoNames(stage, '#account'),
  'forge-identity': (stage) => forgeTwoNames(stage, '#identity'),

  /** The victim alone is named, by a host that its document does not name. */
  'forge-plainly': async (stage) => {
    await repeat(stage, perSecond, () => {
      const { host, account, victim } = sides(stage)
      const kind = stage.random.pick(kinds)
      const [repo, did] = kind === '#commit' ? [victim, undefined] : [undefined, victim]
      host.emitMessage(forge(account, { kind, repo, did, repoFirst: true, inner: victim }, host.lastSeq + 1))
      stage.count('events')
    })
  },

  /** What honest accounts really said, read from their hosts and said again by another host, sooner or later. */
  'echo-honest': async (stage) => {
    const hosts = [...new Set(stage.victims.map(({ host }) => host))]
    const sockets = hosts.map((host) => {
      const socket = new WebSocket(`ws://${host}/xrpc/com.atproto.sync.subscribeRepos`)
      socket.on('message', (data: Buffer) => {
        stage.random.pick(stage.hosts).emitMessage(Buffer.from(data))
        stage.count('events')
      })
      socket.on('error', () => undefined)
      return socket
    })
    await repeat(stage, 2, () => undefined)
    for (const socket of sockets) socket.terminate()
  },

  /** `#identity` of victims without end: each could make everybody read the victim's document again. */
  'identity-flood': async (stage) => {
    await repeat(stage, 2000, (index) => {
      const host = stage.random.pick(stage.hosts)
      const victim = stage.random.pick(stage.victims)
      const handle =
        index % 3 === 0 ? { handle: victim.handle } : index % 3 === 1 ? { handle: 'evil.test' } : {}
      if ((host.reader?.unsentBytes ?? Infinity) < 100_000)
        host.emit('#identity', { did: victim.did, ...handle, nonce: index })
      stage.count('events')
    })
  },
}

async function forgeTwoNames(stage: Stage, kind: Kind): Promise<void> {
  await repeat(stage, perSecond, () => {
    const { host, account, victim } = sides(stage)
    const own = account.did
    const [repo, did] = stage.random.next() < 0.5 ? [own, victim] : [victim, own]
    const inner = stage.random.pick([own, victim])
    const repoFirst = stage.random.next() < 0.5
    host.emitMessage(forge(account, { kind, repo, did, repoFirst, inner }, host.lastSeq + 1))
    stage.count('events')
  })
}

function sides(stage: Stage) {
  const host = stage.random.pick(stage.hosts)
  const account = stage.random.pick([...host.accounts.values()])
  return { host, account, victim: stage.random.pick(stage.victims).did }
}

function forge(account: ScriptedAccount, forgery: Forgery, seq: number): Uint8Array {
  const { kind, repo, did, repoFirst, inner } = forgery
  const body = bodyOf(kind, account, inner)
  const rest = fieldsOf({ seq, time: new Date().toISOString(), ...body, repo: undefined, did: undefined })
  const names: CborField[] = []
  if (repo !== undefined) names.push(['repo', cborText(repo)])
  if (did !== undefined) names.push(['did', cborText(did)])
  if (!repoFirst) names.reverse()
  const header = fieldsOf({ op: 1, t: kind })
  // Short keys first: then `did` before `repo` is the canonical order.
  const fields = [...rest, ...names].toSorted(([a], [b]) => a.length - b.length || (a < b ? -1 : 1))
  const isCanonical = !repoFirst || did === undefined || repo === undefined
  const ordered = isCanonical ? fields : [...names, ...rest]
  return Buffer.concat([cborMap(header.toReversed()), cborMap(ordered)])
}

/** A body of this kind whose signed part names `inner`. */
function bodyOf(kind: Kind, account: ScriptedAccount, inner: string): EventBody {
  if (kind === '#account') return { active: false, status: 'deleted' }
  if (kind === '#identity') return { handle: 'evil.test' }
  // Signed with the attacker's key, and continuous in itself.
  const repo = new SignedRepo(inner, account.signer)
  repo.commit([])
  const record = { title: 'forged', createdAt: new Date().toISOString() }
  const signed = repo.commit([
    { action: 'create', collection: 'org.impact.collection', rkey: nextTid(), record },
  ])
  return kind === '#commit' ? commitBody(signed) : syncBody(inner, signed.rev, signed.commit)
}
