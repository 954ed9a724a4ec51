/**
 * Pure functions decide what becomes of an event, from what is known of it, its account and its host. The pipeline carries
 * the decisions out. It calls `decideArrival` when an event is first in its lane, and again after each wait; and
 * `decideVerified` when its signature and tree were verified, right before logging.
 */
import type { Identity } from '@tributary/identity'
import type { AccountBound, AccountMessage, SigningKey } from '@tributary/repo-verify'
import type { RelayRefusal } from '../refusals.ts'
import { activeNoteOf, statusOf, type Account, type PublicStatus } from '../state/account.ts'
import type { Source } from '../sources/source.ts'
import type { RoutedMessage, UpstreamEvent, WaitFault } from '../sources/upstream-event.ts'
import type { Verified } from '../verify/verified.ts'

/** What an event waits for: the verdicts on those before it, a DID document, or the word of the account's own host. */
export type WaitsFor = 'verdicts' | 'identity' | 'fresh-identity' | 'confirmation' | 'status'

export interface Refuse {
  to: 'refuse'
  reason: RelayRefusal
  detail: string
  /** The account may miss something that its host sent, so its current commit is fetched. */
  isMissed: boolean
}

export interface Await {
  to: 'wait'
  for: WaitsFor
}

/** @see decideArrival */
export type Arrival =
  | Await
  | Refuse
  /** A commit or sync: its signature and tree come next. */
  | { to: 'verify'; key: SigningKey }
  /** An `#identity` or `#account` of a source that speaks for the account. */
  | { to: 'pass-on' }
  /** An `#account` that says what is known already. */
  | { to: 'ignore' }

/** What the pipeline knows besides the event when it is first in its lane. */
export interface Surroundings {
  /** What is known of the account's identity now. */
  identity: Identity | undefined
  /** Whether events of the lane are with verifying threads. */
  areOthersAway: boolean
  /** Why events of this host do not count when another relay forwards them. Undefined when they do. */
  refusalOfForwarded: (host: string) => RelayRefusal | undefined
  /** Whether the source may bring in one account more. */
  hasPlace: (isActive: boolean) => boolean
  /** The source that spoke for the account last. */
  speaker: Source | undefined
}

/** Whether an event is an `#identity` or `#account`. They are not signed: they count by the host that they come from. */
export function isPlain({ kind }: Pick<AccountBound, 'kind'>): boolean {
  return kind === 'identity' || kind === 'account'
}

export function decideArrival(event: UpstreamEvent, around: Surroundings): Arrival {
  const { account, source, message, receipt, needsFreshKey, waitFault, statusCheck } = event
  const { identity } = around
  if (source.isBanned) return refuseBanned(event)
  // Plain events are not verified, so those before them must be back from the threads first.
  if (isPlain(message) && around.areOthersAway) return waitFor('verdicts')
  if (waitFault !== undefined) return refuseUnknown(event, waitFault)
  if (statusCheck === 'wanted') return waitFor('status')
  if (!identity) return waitFor('identity')
  const isFresh = identity.fetchedAt >= receipt.receivedAtMs
  if (needsFreshKey && !isFresh) return waitFor('fresh-identity')
  if (source.policy.kind === 'relay') {
    const reason = around.refusalOfForwarded(identity.pdsHost ?? '')
    // An account that is not active any more where it was known may be active at a host that comes by the relay.
    const mayHaveMoved = account.upstreamStatus !== 'active' && saysActive(message)
    if (reason && mayHaveMoved && !isFresh) return waitFor('fresh-identity')
    if (reason === 'host-banned') return refuseBanned(event)
    if (reason) return refuse(reason, 'the host of the account is read directly')
    return decideAsSpeaker(event, identity, isFresh, around)
  }
  if (identity.pdsHost === source.host) return decideAsSpeaker(event, identity, isFresh, around)
  if (!isFresh) return waitFor('fresh-identity')
  return refuse('wrong-host', 'the DID document of the account names another host')
}

/** Whether an `#account` says something else of the account than what is known. */
export function isNews(message: PublicStatus, { upstreamStatus, activeNote }: Account): boolean {
  return statusOf(message) !== upstreamStatus || activeNoteOf(message) !== activeNote
}

function saysActive(message: RoutedMessage): boolean {
  return message.kind === 'account' ? message.active : message.kind !== 'identity'
}

/** For an event of a source that may speak for the account. */
function decideAsSpeaker(
  event: UpstreamEvent,
  identity: Identity,
  isFresh: boolean,
  around: Surroundings,
): Arrival {
  const { message, account, source } = event
  if (message.kind === 'identity') return { to: 'pass-on' }
  if (message.kind === 'account') {
    const said = statusOf(message)
    const tooMany = isTooMany(event, around, said === 'active')
    if (tooMany) return tooMany
    // Relays that read each other would send it round without an end.
    if (isEcho(message, event, around.speaker)) return { to: 'ignore' }
    const isOld = isFromBefore(message, event)
    if (isOld && !isNews(message, account)) return { to: 'ignore' }
    // Nothing is signed here: a host that the account has left may say anything until its document is read again.
    if (isNews(message, account) && !isFresh) return waitFor('fresh-identity')
    if (source.policy.kind === 'relay') return confirm(event, said) ?? { to: 'pass-on' }
    return (isOld ? confirmOld(event, said) : undefined) ?? { to: 'pass-on' }
  }
  const tooMany = isTooMany(event, around, true)
  if (tooMany) return tooMany
  const excluded = account.sourceId === source.id ? exclusionOf(account) : undefined
  if (excluded) return refuse(excluded, 'the account is left out here')
  const { signingKey } = identity
  if (signingKey) return { to: 'verify', key: signingKey }
  if (!isFresh) return waitFor('fresh-identity')
  return refuse('missing-key', 'the DID document has no signing key')
}

/**
 * Whether an `#account` of a relay says what is known already. It passes when a PDS spoke for the account last, or when
 * something of the account was left out that this relay sent: then it shows that the account may miss something.
 */
function isEcho(
  message: PublicStatus,
  { account, source }: UpstreamEvent,
  speaker: Source | undefined,
): boolean {
  const isKnown = speaker?.policy.kind === 'relay' && !isNews(message, account)
  return isKnown && source.policy.kind === 'relay' && !source.unheard.has(account.did)
}

/**
 * Whether an `#account` was made before its source began to be read again from an earlier event. It may have passed then, and
 * later ones, too. Nothing is old when something of the account was left out that this source sent.
 */
function isFromBefore({ time }: AccountMessage, { account, source }: UpstreamEvent): boolean {
  const isOfBefore = Date.parse(time) < source.epochAtMs && account.sourceId === source.id
  return isOfBefore && !source.unheard.has(account.did)
}

/** An old `#account` passes if the account's host still says the same, or gives no answer. */
function confirmOld({ account, confirmedStatus }: UpstreamEvent, said: string): Arrival | undefined {
  if (confirmedStatus === undefined) return waitFor('confirmation')
  if (confirmedStatus === account.upstreamStatus) return { to: 'ignore' }
  if (confirmedStatus === said || confirmedStatus === 'unknown') return undefined
  const detail = `said to be ${said} before, by its host ${confirmedStatus} now`
  return { ...refuse('unconfirmed-status', detail), isMissed: true }
}

/** What another relay says of an account counts when the account's own host says the same. */
function confirm({ account, confirmedStatus }: UpstreamEvent, said: string): Arrival | undefined {
  if (confirmedStatus === said) return undefined
  if (confirmedStatus === undefined)
    return said === account.upstreamStatus ? undefined : waitFor('confirmation')
  const detail = `said to be ${said}, by its host ${confirmedStatus}`
  return { ...refuse('unconfirmed-status', detail), isMissed: confirmedStatus === 'unknown' }
}

/** An account that has moved counts as new: otherwise two hosts could have any number of accounts kept by moving them. */
function isTooMany(
  { account, source }: UpstreamEvent,
  { hasPlace, speaker }: Surroundings,
  isActive: boolean,
): Refuse | undefined {
  const isNew = account.sourceId === 0 || hasLeft(speaker, source.host)
  if (!isNew || hasPlace(isActive)) return undefined
  return refuse('over-quota', 'its host has no slot for it, and many accounts without one')
}

/** Why this relay leaves an account out, whatever its host says. Undefined when it does not. */
function exclusionOf({ localStatus, throttledAtMs }: Account): RelayRefusal | undefined {
  if (localStatus !== undefined) return 'account-excluded'
  return throttledAtMs > 0 ? 'over-quota' : undefined
}

/**
 * Whether another source speaks for an account than before. The account has moved then, and what its hosts sent on the
 * way may be missing. Relays that forward the same account speak for it by turns.
 */
export function isMove(speaker: Source | undefined, source: Source): boolean {
  if (!speaker || speaker.id === source.id) return false
  return speaker.policy.kind === 'pds' || source.policy.kind === 'pds'
}

/** Whether the document of an account names another host than the PDS that spoke for the account last. */
export function hasLeft(speaker: Source | undefined, host: string | undefined): boolean {
  return speaker?.policy.kind === 'pds' && host !== undefined && speaker.host !== host
}

/** Whether the PDS that spoke for an account last does so no more: the account has left it, or nobody reads it. */
export function hasFallenSilent(speaker: Source | undefined, host: string | undefined): boolean {
  return hasLeft(speaker, host) || (speaker?.policy.kind === 'pds' && !speaker.isWanted)
}

/** @see decideVerified */
export type Admission =
  | Refuse
  /** The account is inactive as far as is known, which may be old: its host is asked, and the event comes again. */
  | { to: 'ask-status' }
  /** The account belongs to another host by now: the event starts again, to find out which host that is. */
  | { to: 'start-again' }
  /** The event says what is known already. */
  | { to: 'ignore' }
  /** `breaksChain`: the event is a commit that does not continue what is stored. */
  | { to: 'log'; breaksChain: boolean }

export interface Moment {
  /** Host that the account's document names, as far as it is known now. */
  host: () => string | undefined
  isStrict: boolean
  /** Why events of this host do not count when the event's source forwards them. Undefined when they do. */
  refusalOfForwarded: (host: string) => RelayRefusal | undefined
  /** The account's host may be asked for its status now. */
  mayAsk: () => boolean
}

/** The checks that need the account's state. */
export function decideVerified(
  event: UpstreamEvent,
  verified: Verified,
  { host, isStrict, refusalOfForwarded, mayAsk }: Moment,
): Admission {
  const { account, source } = event
  if (verified.did !== account.did)
    return refuse('internal-error', 'another account was verified than the event was routed as')
  if (account.localStatus !== undefined) return refuse('account-excluded', revsOf(account, verified))
  const isHostBanned = source.policy.kind === 'relay' && refusalOfForwarded(host() ?? '') === 'host-banned'
  if (source.isBanned || isHostBanned) return refuseBanned(event)
  const isOtherSpeaker = account.sourceId !== 0 && account.sourceId !== source.id
  if (isOtherSpeaker && source.policy.kind === 'pds' && host() !== source.host) return { to: 'start-again' }
  const broken = chainRefusalOf(account, verified, isStrict)
  if (broken === 'repeated') return { to: 'ignore' }
  if (account.upstreamStatus !== 'active') {
    const detail = revsOf(account, verified)
    if (broken && broken !== 'missing-prev-data') return refuse('account-inactive', detail)
    // If another host said so, this one is asked at once.
    if (event.statusCheck === 'none' && (isOtherSpeaker || mayAsk())) return { to: 'ask-status' }
    return { ...refuse('account-inactive', detail), isMissed: true }
  }
  // A commit without `prevData` is newer than what is stored, so the account misses it.
  if (broken)
    return { ...refuse(broken, revsOf(account, verified)), isMissed: broken === 'missing-prev-data' }
  return { to: 'log', breaksChain: verified.kind === 'commit' && !continues(account, verified) }
}

/** The revisions of an event and its account, in the words of a refusal. */
export function revsOf({ rev }: Account, verified: Verified): string {
  return `rev ${verified.rev}, known ${rev ?? 'none'}`
}

/** Why an event does not follow what is stored of its account. Undefined when it does, or when it may break the chain. */
function chainRefusalOf(
  account: Account,
  { kind, rev, data, prevData }: Verified,
  isStrict: boolean,
): RelayRefusal | undefined {
  const known = account.rev
  if (known === undefined) return undefined
  if (kind === 'commit') {
    if (rev <= known) return 'rev-not-increasing'
    return prevData === undefined && isStrict ? 'missing-prev-data' : undefined
  }
  if (rev < known) return 'rev-not-increasing'
  if (rev > known) return undefined
  if (data !== account.data) return 'forked'
  // If the account may miss something, a sync of the state that is stored says that it is whole.
  return account.isDesynchronized ? undefined : 'repeated'
}

/** Whether a commit continues what is stored. Hosts from before Sync 1.1 tell only the revision before. */
export function continues(
  account: Account,
  { prevData, since }: Pick<Verified, 'prevData' | 'since'>,
): boolean {
  const { rev } = account
  if (rev === undefined) return true
  return since === rev && (prevData === undefined || prevData === account.data)
}

/**
 * Reasons that come up only after the signature was checked. The account's own host sent what is refused for them, so
 * the account misses it.
 */
const signedReasons = new Set<RelayRefusal>([
  // Its host's clock may be ahead, or ours behind.
  'future-rev',
  'deprecated-flag',
  'invalid-ops',
  'malformed-record',
  'record-too-large',
  'missing-op-prev',
  'missing-block',
  'invalid-mst',
  'malformed-time',
])

/**
 * Whether an account misses an event that verification refused. A commit with a bad signature may have been signed with the
 * former key if the account's own PDS sent it. If another relay sent it, it may be made up.
 */
export function isMissedBy(reason: RelayRefusal, { policy }: Source): boolean {
  return signedReasons.has(reason) || (reason === 'bad-signature' && policy.kind === 'pds')
}

function refuseUnknown({ account, receipt }: UpstreamEvent, fault: WaitFault): Refuse {
  const isOurs = fault === 'internal-error'
  const detail = isOurs ? 'a defect of this relay' : 'the identity of the account could not be read'
  // If an account is known, a directory that says there is none is wrong for the moment, or the account is gone.
  const isKnown = fault !== 'identity-not-found' || account.sourceId !== 0
  return { ...refuse(fault, detail), isMissed: isKnown && receipt.upstreamSeq > 0 }
}

/**
 * For an event that a source sent before it was banned, or that a relay forwards of a banned host. If the ban is lifted, the
 * account misses the event. An account that no source has spoken for yet comes in with its next event instead.
 */
function refuseBanned({ account, source }: UpstreamEvent): Refuse {
  const isMissed = source.isBanned || account.sourceId === source.id
  return { ...refuse('host-banned', 'the host is banned here'), isMissed }
}

function waitFor(what: WaitsFor): Await {
  return { to: 'wait', for: what }
}

function refuse(reason: RelayRefusal, detail: string): Refuse {
  return { to: 'refuse', reason, detail, isMissed: false }
}
