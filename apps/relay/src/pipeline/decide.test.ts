import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@tributary/identity'
import type { Did, Tid } from '@tributary/protocol'
import type { AccountBound, Digest, SigningKey } from '@tributary/repo-verify'
import type { Source } from '../sources/source.ts'
import { newEvent, type UpstreamEvent } from '../sources/upstream-event.ts'
import { newAccount } from '../../tests/sample-account.ts'
import type { Account } from '../state/account.ts'
import type { Verified } from '../verify/verified.ts'
import { decideArrival, decideVerified, hasLeft, isMove, type Surroundings } from './decide.ts'

const did = 'did:plc:a' as Did // only a name here
const key = {} as SigningKey // only handed on
const receivedAtMs = 1000
const home = { id: 1, host: 'home.test', policy: { kind: 'pds' } } as Source // all that is looked at
const other = { id: 2, host: 'other.test', policy: { kind: 'pds' } } as Source // all that is looked at
const relay = relayThatLeftOut()

/** A relay of which something was left out of these accounts. */
function relayThatLeftOut(...unheard: Did[]): Source {
  const parts = { id: 3, host: 'relay.test', policy: { kind: 'relay' }, unheard: new Set(unheard) }
  return parts as unknown as Source // all that is looked at
}

function identityOf(host: string, fetchedAt = 0, signingKey: SigningKey | undefined = key): Identity {
  return { did, pdsHost: host, fetchedAt, signingKey } as Identity // all that is looked at
}

function eventOf(
  message: Partial<AccountBound>,
  source = home,
  { event = {}, account = {} }: { event?: Partial<UpstreamEvent>; account?: Partial<Account> } = {},
): UpstreamEvent {
  const known = Object.assign(newAccount(did), { sourceId: 1, ...account })
  const whole = { did, upstreamSeq: 7, ...message } as AccountBound // all that is looked at
  return Object.assign(newEvent(source, known, whole, receivedAtMs), event)
}

const around = (identity: Identity | undefined, change: Partial<Surroundings> = {}): Surroundings => ({
  identity,
  areOthersAway: false,
  refusalOfForwarded: () => undefined,
  hasPlace: () => true,
  speaker: home,
  ...change,
})

const commit = { kind: 'commit' } as const
const deleted = { kind: 'account', active: false, status: 'deleted' } as const
const stale = around(identityOf('home.test'))
const fresh = around(identityOf('home.test', receivedAtMs))

/** The decision in a word or two. */
function arrival(event: UpstreamEvent, surroundings: Surroundings): string {
  const decision = decideArrival(event, surroundings)
  switch (decision.to) {
    case 'wait':
      return `wait for ${decision.for}`
    case 'refuse':
      return `refuse ${decision.reason}${decision.isMissed ? ', missed' : ''}`
    case 'pass-on':
      return 'pass on'
    case 'ignore':
      return 'ignore'
    case 'verify':
      return 'verify'
  }
}

test('the host that the document names is heard; another one only after the document was read again', () => {
  assert.equal(arrival(eventOf(commit), stale), 'verify')
  assert.equal(arrival(eventOf(deleted), fresh), 'pass on')
  assert.equal(arrival(eventOf(commit, other), stale), 'wait for fresh-identity')
  assert.equal(arrival(eventOf(commit, other), fresh), 'refuse wrong-host')
  assert.equal(arrival(eventOf(deleted, other), fresh), 'refuse wrong-host')
  const moved = around(identityOf('other.test', receivedAtMs))
  assert.equal(arrival(eventOf(commit, other), moved), 'verify')
  assert.equal(arrival(eventOf(commit), moved), 'refuse wrong-host')
})

test('a new status counts by a document that was read after the event came, and one that is known by any', () => {
  const active = { kind: 'account', active: true } as const
  const gone = { account: { upstreamStatus: 'deleted' } }
  assert.equal(arrival(eventOf(deleted), stale), 'wait for fresh-identity')
  assert.equal(arrival(eventOf(deleted, home, gone), stale), 'pass on')
  assert.equal(arrival(eventOf(active), stale), 'pass on')
  assert.equal(arrival(eventOf(active, home, gone), stale), 'wait for fresh-identity')
  assert.equal(arrival(eventOf(active, home, gone), fresh), 'pass on')
  const noted = { ...active, status: 'desynchronized' }
  assert.equal(arrival(eventOf(noted), stale), 'wait for fresh-identity')
  const late = { event: { waitFault: 'identity-unavailable' } } as const
  assert.equal(arrival(eventOf(deleted, home, late), stale), 'refuse identity-unavailable, missed')
})

test('an #account of a relay that says what another relay has said is ignored, unless it may mean more', () => {
  const active = { kind: 'account', active: true } as const
  const byRelay = { ...fresh, speaker: relay }
  const heard = eventOf(active, relay, { account: { sourceId: relay.id } })
  assert.equal(arrival(heard, byRelay), 'ignore')
  assert.equal(arrival(heard, { ...fresh, speaker: undefined }), 'pass on', 'nobody has spoken for it')
  assert.equal(arrival(heard, fresh), 'pass on', 'it was a PDS that spoke for it')
  assert.equal(arrival(eventOf(active, relayThatLeftOut(did)), byRelay), 'pass on')
  assert.equal(arrival(eventOf(active), byRelay), 'pass on', 'it has moved to a PDS that is read here')
  assert.equal(arrival(eventOf(deleted, relay), byRelay), 'wait for confirmation')
})

test('what a PDS said before it is read again counts if it is news, and its host still says so', () => {
  const { id, host, policy } = home
  const again = { id, host, policy, unheard: new Set(), epochAtMs: 500 } as unknown as Source // all that is looked at
  const decided = (active: boolean, confirmedStatus?: string, known: Partial<Account> = {}, atMs = 499) => {
    const message = { kind: 'account', active, time: new Date(atMs).toISOString() } as const
    return arrival(eventOf(message, again, { event: { confirmedStatus }, account: known }), fresh)
  }
  assert.equal(decided(true), 'ignore')
  assert.equal(decided(false), 'wait for confirmation')
  assert.equal(decided(false, 'active'), 'ignore')
  assert.equal(decided(false, 'inactive'), 'pass on')
  assert.equal(decided(false, 'unknown'), 'pass on', 'the host does not answer')
  assert.equal(decided(false, 'deleted'), 'refuse unconfirmed-status, missed')
  assert.equal(decided(true, undefined, { sourceId: 2 }), 'pass on', 'another source spoke for the account')
  assert.equal(decided(false, undefined, {}, 500), 'pass on', 'it is new')
})

test('an #identity passes from the host that the document names, and from no other', () => {
  const hint = { kind: 'identity' } as const
  assert.equal(arrival(eventOf(hint), stale), 'pass on')
  assert.equal(arrival(eventOf(hint, other), stale), 'wait for fresh-identity')
  assert.equal(arrival(eventOf(hint, other), fresh), 'refuse wrong-host')
  assert.equal(arrival(eventOf(hint, other, { account: { sourceId: 0 } }), fresh), 'refuse wrong-host')
})

test('what cannot be known yet is waited for, and what cannot be known at all makes the event one that is missed', () => {
  assert.equal(arrival(eventOf(commit), around(undefined)), 'wait for identity')
  const late = { event: { waitFault: 'identity-unavailable' } } as const
  assert.equal(arrival(eventOf(commit, home, late), around(undefined)), 'refuse identity-unavailable, missed')
  const gone = { event: { waitFault: 'identity-not-found' } } as const
  assert.equal(arrival(eventOf(commit, home, gone), stale), 'refuse identity-not-found, missed')
  const unknown = { ...gone, account: { sourceId: 0 } }
  assert.equal(arrival(eventOf(commit, home, unknown), stale), 'refuse identity-not-found')
  const away = { ...stale, areOthersAway: true }
  assert.equal(arrival(eventOf(deleted), away), 'wait for verdicts')
  assert.equal(arrival(eventOf(commit), away), 'verify')
})

test('a key is taken for missing, or a signature for wrong, only by a document read after the event came', () => {
  const keyless = (fetchedAt: number) =>
    around({ ...identityOf('home.test', fetchedAt), signingKey: undefined })
  assert.equal(arrival(eventOf(commit), keyless(0)), 'wait for fresh-identity')
  assert.equal(arrival(eventOf(commit), keyless(receivedAtMs)), 'refuse missing-key')
  const again = { event: { needsFreshKey: true } }
  assert.equal(arrival(eventOf(commit, home, again), stale), 'wait for fresh-identity')
  assert.equal(arrival(eventOf(commit, home, again), fresh), 'verify')
})

test('another relay is heard for hosts that are not read here, and of the state of an account if its host agrees', () => {
  assert.equal(arrival(eventOf(commit, relay), stale), 'verify')
  const direct = { ...stale, refusalOfForwarded: () => 'direct-source' as const }
  assert.equal(arrival(eventOf(commit, relay), direct), 'refuse direct-source')
  const gone = eventOf(commit, relay, { account: { upstreamStatus: 'deactivated' } })
  assert.equal(arrival(gone, direct), 'wait for fresh-identity', 'it may have moved')
  const saysGone = eventOf(deleted, relay, { account: { upstreamStatus: 'deactivated' } })
  assert.equal(arrival(saysGone, direct), 'refuse direct-source')
  const still = { ...direct, identity: identityOf('home.test', receivedAtMs) }
  assert.equal(arrival(gone, still), 'refuse direct-source')
  const said = (confirmedStatus?: string) =>
    arrival(eventOf(deleted, relay, { event: { confirmedStatus } }), fresh)
  assert.equal(arrival(eventOf(deleted, relay), stale), 'wait for fresh-identity')
  assert.equal(said(), 'wait for confirmation')
  assert.equal(said('deleted'), 'pass on')
  assert.equal(said('active'), 'refuse unconfirmed-status')
  assert.equal(said('unknown'), 'refuse unconfirmed-status, missed')
})

test('accounts that are left out here, and those too many, are not verified', () => {
  const down = { account: { localStatus: 'takendown' } } as const
  assert.equal(arrival(eventOf(commit, home, down), stale), 'refuse account-excluded')
  assert.equal(arrival(eventOf(commit, home, { account: { throttledAtMs: 1 } }), stale), 'refuse over-quota')
  const full = { ...stale, hasPlace: () => false }
  assert.equal(arrival(eventOf(commit, home, { account: { sourceId: 0 } }), full), 'refuse over-quota')
  assert.equal(arrival(eventOf(deleted, home, { account: { sourceId: 0 } }), full), 'refuse over-quota')
  assert.equal(arrival(eventOf(commit), full), 'verify')
  const moved = { ...around(identityOf('other.test', receivedAtMs)), hasPlace: () => false }
  assert.equal(arrival(eventOf(commit, other), moved), 'refuse over-quota', 'it has moved there')
  assert.equal(arrival(eventOf(deleted, other), moved), 'refuse over-quota')
  assert.equal(arrival(eventOf(commit, other), { ...moved, speaker: relay }), 'verify', 'a relay brought it')
})

const rev = (name: string): Tid => name.padEnd(13, '2') as Tid // of the right form
const digest = (name: string): Digest => name.padEnd(32, '.') as Digest // of the right length
const known = { rev: rev('r5'), data: digest('d5') }
const next: Verified = {
  ok: true,
  kind: 'commit',
  did,
  rev: rev('r6'),
  since: known.rev,
  commit: digest('c6'),
  data: digest('d6'),
  prevData: known.data,
  collections: '',
  waived: undefined,
}

interface Case {
  verified?: Partial<Verified>
  account?: Partial<Account>
  source?: Source
  host?: string
  isStrict?: boolean
  mayAsk?: boolean
  event?: Partial<UpstreamEvent>
}

function admission({ verified = {}, account = {}, source = home, event = {}, ...rest }: Case): string {
  const { host = 'home.test', isStrict = true, mayAsk = true } = rest
  const moment = { host: () => host, isStrict, refusalOfForwarded: () => undefined, mayAsk: () => mayAsk }
  const arrived = eventOf(commit, source, { event, account: { ...known, ...account } })
  const decision = decideVerified(arrived, { ...next, ...verified }, moment)
  if (decision.to === 'refuse') return `refuse ${decision.reason}${decision.isMissed ? ', missed' : ''}`
  return decision.to === 'log' && decision.breaksChain ? 'log, chain broken' : decision.to
}

test('a commit continues what is known, breaks it, or comes too late', () => {
  assert.equal(admission({}), 'log')
  assert.equal(admission({ account: { rev: undefined } }), 'log')
  assert.equal(admission({ verified: { prevData: digest('d4') } }), 'log, chain broken')
  assert.equal(admission({ verified: { since: rev('r4') } }), 'log, chain broken')
  assert.equal(admission({ verified: { rev: known.rev } }), 'refuse rev-not-increasing')
  assert.equal(admission({ verified: { prevData: undefined } }), 'refuse missing-prev-data, missed')
  assert.equal(admission({ verified: { prevData: undefined }, isStrict: false }), 'log')
})

test('a #sync moves on, repeats what is known, or contradicts it', () => {
  const sync = { kind: 'sync', since: undefined, prevData: undefined } as const
  assert.equal(admission({ verified: sync }), 'log')
  const same = { ...sync, ...known }
  assert.equal(admission({ verified: same }), 'ignore')
  assert.equal(admission({ verified: same, account: { isDesynchronized: true } }), 'log')
  assert.equal(admission({ verified: { ...same, data: digest('other') } }), 'refuse forked')
  assert.equal(admission({ verified: { ...sync, rev: rev('r4') } }), 'refuse rev-not-increasing')
})

test('the account that was verified is the one that the event was routed as', () => {
  assert.equal(admission({ verified: { did: 'did:plc:b' as Did } }), 'refuse internal-error')
})

test('nothing is logged of an account that was taken down while its event was being verified', () => {
  assert.equal(admission({ account: { localStatus: 'takendown' } }), 'refuse account-excluded')
})

test('an event of an account that is away asks its host once, and is missed when that does not help', () => {
  const account = { upstreamStatus: 'deactivated' }
  assert.equal(admission({ account }), 'ask-status')
  assert.equal(admission({ account, event: { statusCheck: 'asked' } }), 'refuse account-inactive, missed')
  assert.equal(admission({ account, mayAsk: false }), 'refuse account-inactive, missed')
  assert.equal(admission({ account, verified: { rev: known.rev } }), 'refuse account-inactive')
  assert.equal(admission({ account, verified: { prevData: undefined } }), 'ask-status')
  // What another host said of it does not count against this one.
  const moved = { account, source: other, host: 'other.test', mayAsk: false }
  assert.equal(admission(moved), 'ask-status')
})

test('an account that moved while its event was being verified is looked up again', () => {
  assert.equal(admission({ source: other, host: 'other.test' }), 'log')
  assert.equal(admission({ source: other, host: 'home.test' }), 'start-again')
})

test('an account has moved when a PDS begins or ends to speak for it, and not when relays take turns', () => {
  const otherRelay = { id: 4, host: 'other-relay.test', policy: { kind: 'relay' } } as Source // all that is looked at
  const isMoved = [
    [home, other],
    [home, relay],
    [relay, home],
    [relay, otherRelay],
    [home, home],
  ] as const
  assert.deepEqual(
    isMoved.map(([speaker, source]) => isMove(speaker, source)),
    [true, true, true, false, false],
  )
  assert.equal(isMove(undefined, home), false)
})

test('an account has left the PDS that spoke for it when its document names another host', () => {
  assert.equal(hasLeft(home, 'other.test'), true)
  assert.equal(hasLeft(home, 'home.test'), false)
  assert.equal(hasLeft(home, undefined), false)
  assert.equal(hasLeft(relay, 'other.test'), false)
  assert.equal(hasLeft(undefined, 'other.test'), false)
})
