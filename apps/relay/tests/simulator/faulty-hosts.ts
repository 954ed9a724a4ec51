/** Hosts that speak for accounts which have left them, and that send what nobody can take. */
import { randomFrom } from '@tributary/testkit/disk'
import { accountDraft, commitDraft, identityDraft, syncDraft } from './frames.ts'
import { signerOf, type SimulatedAccount, type SimulatedRelay } from './hosts.ts'
import { commitOf, draftOf } from './writes.ts'

/** Nobody's key. */
const wrongSigner = signerOf(2_000_000)

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
