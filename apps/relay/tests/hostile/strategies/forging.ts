/** Events in the name of accounts of honest hosts. */
import {
  cborMap,
  commitBody,
  fieldsOf,
  inOrder,
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

/** Which account each of the two names of a body says, and whom the signed commit names. */
interface Forgery {
  kind: Kind
  repo: string | undefined
  did: string | undefined
  inner: string
  /** Fields that come first, in this order. None: the canonical order. */
  order: readonly string[]
}

/** A reader may stop at the first name, or the last, or as soon as it has a name and the number. */
const orders: readonly (readonly string[])[] = [
  [],
  ['did', 'seq', 'repo'],
  ['repo', 'seq', 'did'],
  ['did', 'repo'],
  ['repo', 'did'],
]

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
      host.emitMessage(forge(account, { kind, repo, did, inner: victim, order: [] }, host.lastSeq + 1))
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
    const order = stage.random.pick(orders)
    host.emitMessage(forge(account, { kind, repo, did, inner, order }, host.lastSeq + 1))
    stage.count('events')
  })
}

function sides(stage: Stage) {
  const host = stage.random.pick(stage.hosts)
  const account = stage.random.pick([...host.accounts.values()])
  return { host, account, victim: stage.random.pick(stage.victims).did }
}

/** The fields come in canonical order, or with the names and the number first in the order that is asked for. */
function forge(account: ScriptedAccount, forgery: Forgery, seq: number): Uint8Array {
  const { kind, repo, did, inner, order } = forgery
  const time = new Date().toISOString()
  const fields = fieldsOf({ ...bodyOf(kind, account, inner), seq, time, repo, did })
  const place = ([key]: CborField): number => (order.includes(String(key)) ? order.indexOf(String(key)) : 9)
  const ordered = order.length === 0 ? inOrder(fields) : fields.toSorted((a, b) => place(a) - place(b))
  return Buffer.concat([cborMap(inOrder(fieldsOf({ op: 1, t: kind }))), cborMap(ordered)])
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
