/** Hosts that speak for accounts which have left them, and that send what nobody can take. */
import { randomFrom } from '@tributary/testkit/disk'
import {
  accountDraft,
  commitDraft,
  forgedDraft,
  identityDraft,
  syncDraft,
  type Draft,
  type Forgery,
} from './frames.ts'
import { didOf, signerOf, SimulatedAccount, type SimulatedHost, type SimulatedRelay } from './hosts.ts'
import type { World } from './relay-process.ts'
import type { Step } from './script.ts'
import { commitOf, draftOf } from './writes.ts'

/** Nobody's key. */
const wrongSigner = signerOf(2_000_000)

interface Forging {
  name: Forgery['name']
  draw: number
  newRev: () => string
}

/** A host speaks in the name of an account of another one. */
export function forge(attacker: SimulatedAccount, victim: SimulatedAccount, forging: Forging): void {
  if (attacker.host === victim.host || victim.documents.some(({ host }) => host === attacker.host)) return
  victim.strangers.add(attacker.host)
  attacker.host.emit(forgedBy(attacker, victim, forging))
}

function forgedBy(
  { did, repo }: SimulatedAccount,
  victim: SimulatedAccount,
  { name, draw, newRev }: Forging,
): Draft {
  const attacker = { did, repo, signer: repo.signer }
  return forgedDraft({ name, attacker, victim, rev: newRev(), count: draw })
}

/** Another relay makes something up. An account's own host is asked whether it is deleted. */
export function lie(
  account: SimulatedAccount,
  victim: SimulatedAccount,
  { forwarder, ...forging }: Forging & { forwarder: SimulatedRelay | undefined },
): void {
  if (account === victim) return
  const isGone = forging.name === 'account of another'
  forwarder?.emit(isGone ? accountDraft(victim.did, 'deleted') : forgedBy(account, victim, forging))
}

/** A host that an account has left speaks on in its name. */
export function straggle(
  account: SimulatedAccount,
  { kind, draw, newRev }: { kind: string; draw: number; newRev: () => string },
): void {
  const { did, formerHost, formerSigner, repo } = account
  const head = formerHost?.heads.get(did)?.at(-1)
  if (!formerHost || !formerSigner || !head || formerHost === account.host) return
  if (kind === 'commit') {
    const signer = repo.signer
    repo.signer = formerSigner
    const record = { text: `straggler ${draw}` }
    const write = { action: 'create' as const, collection: 'org.late.record', rkey: `s${draw}`, record }
    const signed = repo.draft([write], newRev())
    repo.signer = signer
    const draft = commitDraft(signed)
    if (draft.head) formerHost.keep(did, draft.head)
    formerHost.emit(draft)
  } else if (kind === 'sync') formerHost.emit(syncDraft(did, head))
  else if (kind === 'identity') formerHost.emit(identityDraft(did, account.handle))
  else {
    formerHost.words.set(did, 'deleted')
    formerHost.emit(accountDraft(did, 'deleted'))
  }
}

/** A host sends a commit that is not as it should be. What its account misses by that is made up for. */
export function spoil(
  account: SimulatedAccount,
  {
    how,
    draw,
    newRev,
    forwarder,
  }: {
    how: 'signature' | 'tree' | 'flag'
    draw: number
    newRev: () => string
    forwarder: SimulatedRelay | undefined
  },
): void {
  if (account.status !== 'active') return
  const { repo, host, did } = account
  const signer = repo.signer
  const rev = newRev()
  if (how === 'signature') {
    repo.signer = wrongSigner
    const record = { text: 'spoilt' }
    const write = { action: 'create' as const, collection: 'org.spoilt.record', rkey: `s${draw}`, record }
    const draft = commitDraft(repo.draft([write], rev))
    repo.signer = signer
    host.emit({ ...draft, isHonest: false })
    return
  }
  // The host has the commit, and sends it in a way that nobody can take.
  const draft = commitDraft(commitOf(repo, rev, randomFrom(draw)))
  if (draft.head) host.keep(did, draft.head)
  const body = how === 'flag' ? { ...draft.body, tooBig: true } : { ...draft.body, ops: [] }
  const entry = host.emit({ ...draft, body, isHonest: false })
  // Another relay cannot take it either, and has it made up for.
  if (draft.head) forwarder?.forward({ ...entry, ...syncDraft(did, draft.head) })
}

/**
 * A host sends a commit that it takes back, as after a crash of its database, and goes on from before it. The next commit names
 * the revision of the one that is gone, so that only its tree shows that something is wrong. A `#sync` says what is there now.
 */
export function fork(
  { repo, host, did, status }: SimulatedAccount,
  { draw, newRev }: { draw: number; newRev: () => string },
): void {
  if (status !== 'active' || !host.isRead) return
  const random = randomFrom(draw)
  const gone = draftOf(repo, newRev(), random)
  host.emit(commitDraft(gone))
  const next = { ...commitOf(repo, newRev(), random), since: gone.rev }
  const draft = commitDraft(next)
  if (!draft.head) return
  host.keep(did, draft.head)
  host.emit(draft)
  host.emit(syncDraft(did, draft.head))
}

/** A host brings in accounts that keep the relay waiting. */
export function flood(
  { conditions, directory }: World,
  host: SimulatedHost,
  { how, count, forMs, draw, newRev }: Extract<Step, { do: 'flood' }> & { newRev: () => string },
): void {
  if (!host.isRead) return
  const own = [...directory.accounts.values()].filter((each) => each.host === host && !each.isMadeUp)
  conditions.set(`flood ${host.index}`, 'on', forMs)
  if (how === 'answers') conditions.set(`answers ${host.index}`, 'silent', forMs)
  for (let n = 0; n < count; n++) {
    const did = didOf(`made up ${draw} ${n}`)
    if (how === 'documents') {
      directory.hanging.add(did)
      host.emit(accountDraft(did, 'active'))
      continue
    }
    const account = new SimulatedAccount(1000 + directory.accounts.size, did, host, true)
    directory.accounts.set(did, account)
    const draft = commitDraft(account.repo.commit([], newRev()))
    if (draft.head) host.keep(did, draft.head)
    host.words.set(did, 'active')
    host.emit(accountDraft(did, 'active'))
    host.emit({ ...draft, body: { ...draft.body, tooBig: true }, isHonest: false })
  }
  if (how === 'documents')
    for (let n = 0; n < 6 * count; n++) {
      const account = own[n % own.length]
      if (account) host.emit(identityDraft(account.did, account.handle))
    }
}
