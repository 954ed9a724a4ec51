/**
 * The way of one event, from a source's socket into the log:
 * route by DID → lane → identity and host authority → signature, structure and inversion (verify threads) → account
 * state → append.
 *
 * Always holds: events of one DID are logged in the order in which their authoritative hosts sent them, whatever waits
 * or is tried again; an event is refused for a reason of a closed set or logged, and only then is it done; nothing
 * here waits for one account on behalf of another.
 * An account whose document names another host than the sender does not make its own lane wait: the sender's events
 * stand aside until the document has been read again.
 */
import { encodeFrame, decodeFrame, isDid, isPlcOrWeb, type Did } from '@tributary/protocol'
import type { EventLog } from '@tributary/event-log'
import { headerSize, writeHeader } from '@tributary/fanout'
import { IdentityError, type Identity, type IdentityResolver } from '@tributary/identity'
import { peekFrame, verifyEvent } from '@tributary/repo-verify'
import { recordKinds } from './record-kinds.ts'
import type { OnRefused, RelayRefusal } from '../refusals.ts'
import type { Source } from '../sources/source.ts'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import { statusOf, type Account } from '../state/account.ts'
import type { AccountTable } from '../state/account-table.ts'
import type { StateTrail } from '../state/state-trail.ts'
import type { Verdict, Verified } from '../verify/verify-messages.ts'
import { VerifyPool } from '../verify/verify-pool.ts'

export interface PipelineOptions {
  log: EventLog
  accounts: AccountTable
  resolver: IdentityResolver
  trail: StateTrail
  workers: number
  strict: boolean
  onRefused: OnRefused
  onReceived: (source: Source, type: string, bytes: number) => void
  /** Reading a DID document failed; it is tried again while the lane waits. */
  onIdentityFault: (did: Did, error: IdentityError) => void
}

/** What one account may have waiting in its lane, and all of them together. */
const waitingMax = {
  eventsPerAccount: 1000,
  bytesPerAccount: 10_000_000,
  bytes: 128 * 1024 * 1024,
  ms: 3_600_000,
}
/** Bytes under way above which sources are not read, and below which they are again. */
const pressure = { high: 16 * 1024 * 1024, low: 8 * 1024 * 1024 }
const identityRetryMs = { first: 1000, max: 60_000 }
/** `#identity` events of one account that are followed by a new look at its document, in each minute. */
const identityEventsMax = { count: 10, windowMs: 60_000 }

export class Pipeline {
  readonly #options: PipelineOptions
  readonly #pool: VerifyPool
  readonly #identityEvents = new Map<Did, { count: number; sinceMs: number }>()
  #waitingBytes = 0
  #isPressed = false
  #onPressure: (isPressed: boolean) => void = () => {}
  readonly #scratch = Buffer.alloc(32)

  constructor(options: PipelineOptions) {
    this.#options = options
    this.#pool = new VerifyPool({
      workers: options.workers,
      strict: options.strict,
      onVerdict: (event, account, verdict, frame) => this.#onVerdict(event, account, verdict, frame),
    })
    options.log.onDurable(() => this.#checkPressure())
  }

  /** Told when sources have to be paused, and when they may be read again. */
  onPressure(listener: (isPressed: boolean) => void): void {
    this.#onPressure = listener
  }

  /** A verifying thread died: the service stops. */
  onError(listener: (error: Error) => void): void {
    this.#pool.onError(listener)
  }

  async close(): Promise<void> {
    await this.#pool.close()
  }

  /**
   * Takes one message of a source. The bytes may be used again by the caller when this returns.
   * @param lastSeq the newest seq that came on the same connection; 0 on the first message.
   * @returns the seq of the message, or `lastSeq` when it has none that counts.
   */
  receive(source: Source, frame: Buffer, lastSeq: number): number {
    const head = peekFrame(frame)
    const type = head?.t ?? ''
    this.#options.onReceived(source, type, frame.length)
    const kind = recordKinds[type]
    if (!head || kind === undefined || head.did === undefined || head.upstreamSeq === undefined) {
      const isKnown = type === '#info'
      if (!isKnown)
        this.#options.onRefused(
          source,
          head && kind === undefined ? 'unknown-event' : 'malformed-frame',
          `a message of type ${type.slice(0, 32)}`,
          { type },
        )
      return lastSeq
    }
    if (head.upstreamSeq <= lastSeq) {
      this.#options.onRefused(source, 'seq-not-increasing', `seq ${head.upstreamSeq} came after ${lastSeq}`, {
        upstreamSeq: head.upstreamSeq,
        type,
      })
      return lastSeq
    }
    const event: UpstreamEvent = {
      source,
      epoch: source.epoch,
      upstreamSeq: head.upstreamSeq,
      type,
      receivedAtMs: Date.now(),
      frame,
      needsFreshKey: false,
      hasPurged: false,
      loggedAs: undefined,
    }
    source.begin(event)
    if (source.isLogged(event.upstreamSeq)) event.loggedAs = 0
    else if (!isDid(head.did) || !isPlcOrWeb(head.did))
      this.#refuse(event, undefined, 'malformed-event', 'the account is not a did:plc or did:web')
    else this.#enter(event, this.#options.accounts.take(head.did))
    this.#checkPressure()
    return event.upstreamSeq
  }

  /** Puts an event at the end of its account's lane, and starts it if it is the head. */
  #enter(event: UpstreamEvent, account: Account): void {
    if (account.waiting.length === 0 && this.#start(event, account)) return
    if (this.#isFull(account.waiting.length, account.waitingBytes + event.frame.length)) {
      account.isDesynchronized = true
      this.#refuse(event, account, 'identity-unavailable', 'too much waits for the identity of the account')
      return
    }
    account.waiting.push(event)
    this.#hold(event, account, event.frame)
  }

  /** Starts or finishes the head of a lane. False when it has to wait; whatever it waits for wakes the lane. */
  #start(event: UpstreamEvent, account: Account): boolean {
    if (account.returned.length > 0 || account.isResolving) return false
    const isPlain = event.type === '#identity' || event.type === '#account'
    // Plain events are handled here, so those before them must be back from the threads first.
    if (isPlain && account.inFlight > 0) return false
    const identity = this.#identityOf(event, account)
    const isCurrent = identity !== undefined && identity.fetchedAt >= event.receivedAtMs
    if (!identity || (event.needsFreshKey && !isCurrent)) {
      this.#resolve(event, account)
      return false
    }
    const isBehindOthers = account.aside.some(
      ({ source, upstreamSeq }) => source === event.source && upstreamSeq < event.upstreamSeq,
    )
    if (isBehindOthers || (identity.pdsHost !== event.source.host && !isCurrent))
      this.#standAside(event, account)
    else if (identity.pdsHost !== event.source.host) this.#handleForeign(event, account)
    else if (isPlain) this.#handlePlain(event, account, identity)
    else if (!identity.signingKey)
      this.#refuse(event, account, 'missing-key', 'the DID document has no signing key')
    else {
      account.inFlight++
      this.#pool.add(event, account, identity.signingKey)
    }
    return true
  }

  /** The cached identity. An `#identity` of the account's own host empties the cache first, once. */
  #identityOf(event: UpstreamEvent, account: Account): Identity | undefined {
    const { resolver } = this.#options
    const identity = resolver.peek(account.did)
    const isHint = event.type === '#identity' && !event.hasPurged && identity?.pdsHost === event.source.host
    if (!isHint || !this.#mayPurge(account.did, event.receivedAtMs)) return identity
    event.hasPurged = true
    resolver.purge(account.did)
    return undefined
  }

  /** Starts whatever can start at the head of a lane. */
  #wake(account: Account): void {
    if (account.inFlight === 0 && account.returned.length > 0) {
      account.waiting = [...account.returned, ...account.waiting]
      account.returned = []
    }
    for (let head = account.waiting[0]; head; head = account.waiting[0]) {
      const { length } = head.frame
      if (!this.#start(head, account)) return
      account.waiting.shift()
      this.#release(length, account)
    }
  }

  /** Keeps an event's bytes beyond the call that brought them. */
  #hold(event: UpstreamEvent, account: Account, frame: Uint8Array): void {
    event.frame = Buffer.from(frame)
    account.waitingBytes += frame.length
    this.#waitingBytes += frame.length
  }

  #release(bytes: number, account: Account): void {
    account.waitingBytes -= bytes
    this.#waitingBytes -= bytes
  }

  #isFull(events: number, bytes: number): boolean {
    return (
      events >= waitingMax.eventsPerAccount ||
      bytes > waitingMax.bytesPerAccount ||
      this.#waitingBytes > waitingMax.bytes
    )
  }

  /** Reads the identity for the head of a lane, trying again until it is there, known not to be, or waited for too long. */
  #resolve(event: UpstreamEvent, account: Account): void {
    account.isResolving = true
    void this.#identityFor(event, event.needsFreshKey, account.did).then((found) => {
      account.isResolving = false
      if (found !== 'ready' && account.waiting[0] === event) {
        account.waiting.shift()
        this.#release(event.frame.length, account)
        account.isDesynchronized = true
        this.#refuse(event, account, found, 'the identity of the account could not be read')
      }
      this.#wake(account)
    })
  }

  async #identityFor(
    event: UpstreamEvent,
    isFresh: boolean,
    did: Did,
  ): Promise<'ready' | 'identity-not-found' | 'identity-unavailable'> {
    const until = event.receivedAtMs + waitingMax.ms
    for (let waitMs = identityRetryMs.first; ; waitMs = Math.min(waitMs * 2, identityRetryMs.max)) {
      try {
        const fresh = { refreshAfter: event.receivedAtMs, onBehalfOf: event.source.host }
        await this.#options.resolver.resolve(did, isFresh ? fresh : {})
        return 'ready'
      } catch (error) {
        if (!(error instanceof IdentityError)) throw error
        this.#options.onIdentityFault(did, error)
        if (!error.retryable) return 'identity-not-found'
        const pauseMs = error.retryAfterMs ?? waitMs * (0.5 + Math.random() / 2)
        if (Date.now() + pauseMs > until) return 'identity-unavailable'
        await new Promise((resolve) => setTimeout(resolve, pauseMs).unref())
      }
    }
  }

  /** Another host than the document's: its events wait beside the lane until the document has been read again. */
  #standAside(event: UpstreamEvent, account: Account): void {
    if (this.#isFull(account.aside.length, account.waitingBytes + event.frame.length)) {
      this.#refuse(
        event,
        account,
        'wrong-host',
        'too much of other hosts waits for the DID document of the account',
      )
      return
    }
    account.aside.push(event)
    this.#hold(event, account, event.frame)
    if (account.aside.length === 1) void this.#readAside(account)
  }

  async #readAside(account: Account): Promise<void> {
    for (let head = account.aside[0]; head; head = account.aside[0]) {
      const identity = this.#options.resolver.peek(account.did)
      const isSettled =
        identity && (identity.pdsHost === head.source.host || identity.fetchedAt >= head.receivedAtMs)
      const found = isSettled ? 'ready' : await this.#identityFor(head, true, account.did)
      account.aside.shift()
      this.#release(head.frame.length, account)
      if (found === 'ready') this.#enter(head, account)
      else this.#refuse(head, account, found, 'the identity of the account could not be read')
    }
  }

  /** From a host that the account's current document does not name: nothing but the hint that its identity changed. */
  #handleForeign(event: UpstreamEvent, account: Account): void {
    if (event.type === '#identity' && account.sourceId !== 0) this.#handleIdentity(event, account, undefined)
    else this.#refuse(event, account, 'wrong-host', 'the DID document of the account names another host')
  }

  #handlePlain(event: UpstreamEvent, account: Account, identity: Identity): void {
    if (event.type === '#identity') this.#handleIdentity(event, account, identity)
    else this.#handleAccount(event, account)
  }

  /** The handle is kept only if the account's own host sent it and the document declares it. */
  #handleIdentity(event: UpstreamEvent, account: Account, authority: Identity | undefined): void {
    const read = verifyEvent(event.frame, { key: undefined, nowMs: event.receivedAtMs, strict: true })
    if (!read.ok) return this.#refuse(event, account, read.reason, read.detail)
    if (read.kind !== 'identity')
      return this.#refuse(event, account, 'malformed-event', 'not an identity event')
    if (authority) this.#options.accounts.assign(account, event.source.id, account.upstreamStatus)
    if (read.handle === undefined || read.handle === authority?.handle) {
      this.#append(event, account, event.frame, read)
      return
    }
    const { handle: _, ...body } = decodeFrame(event.frame).body
    const frame = encodeFrame('#identity', body)
    const rewritten = verifyEvent(frame, { key: undefined, nowMs: event.receivedAtMs, strict: true })
    if (rewritten.ok && rewritten.kind === 'identity') this.#append(event, account, frame, rewritten)
  }

  /** Bounds what the hints of one account may cost the directory. */
  #mayPurge(did: Did, nowMs: number): boolean {
    const seen = this.#identityEvents.get(did)
    if (!seen || nowMs - seen.sinceMs > identityEventsMax.windowMs) {
      if (this.#identityEvents.size > 10_000) this.#identityEvents.clear()
      this.#identityEvents.set(did, { count: 1, sinceMs: nowMs })
      return true
    }
    return ++seen.count <= identityEventsMax.count
  }

  #handleAccount(event: UpstreamEvent, account: Account): void {
    const read = verifyEvent(event.frame, { key: undefined, nowMs: event.receivedAtMs, strict: true })
    if (!read.ok) return this.#refuse(event, account, read.reason, read.detail)
    if (read.kind !== 'account')
      return this.#refuse(event, account, 'malformed-event', 'not an account event')
    const status = statusOf(read)
    // What was missed while the account was away cannot be told: its next #sync passes whatever its revision.
    if (status !== account.upstreamStatus && !read.active) account.isDesynchronized = true
    this.#options.accounts.assign(account, event.source.id, status)
    this.#append(event, account, event.frame, read)
  }

  /** A verdict came back from a thread. Those of one DID come in the order in which they went. */
  #onVerdict(event: UpstreamEvent, account: Account, verdict: Verdict, frame: Buffer): void {
    account.inFlight--
    if (account.returned.length > 0 || this.#mustTryAgain(event, account, verdict)) {
      account.returned.push(event)
      this.#hold(event, account, frame)
    } else if (!verdict.ok) {
      this.#refuse(event, account, verdict.reason, verdict.detail)
    } else {
      this.#admit(event, account, verdict, frame)
    }
    if (account.inFlight === 0 && (account.returned.length > 0 || account.waiting.length > 0))
      this.#wake(account)
    this.#checkPressure()
  }

  /** A signature is refused only against a key that was fetched after the event came in. */
  #mustTryAgain(event: UpstreamEvent, account: Account, verdict: Verdict): boolean {
    if (verdict.ok) return false
    if (verdict.reason === 'missing-key') {
      account.sentKey = undefined
      return true
    }
    if (verdict.reason !== 'bad-signature' || event.needsFreshKey) return false
    event.needsFreshKey = true
    return true
  }

  /** The checks that need the account's state, at the moment of logging. */
  #admit(event: UpstreamEvent, account: Account, verified: Verified, frame: Buffer): void {
    const reason = this.#refusalOf(account, verified)
    if (reason)
      return this.#refuse(event, account, reason, `rev ${verified.rev}, known ${account.rev ?? 'none'}`)
    if (verified.kind === 'sync') account.isDesynchronized = false
    else if (
      account.rev !== undefined &&
      (verified.prevData !== account.data || verified.since !== account.rev)
    )
      account.isDesynchronized = true
    this.#options.accounts.assign(account, event.source.id, account.upstreamStatus)
    account.rev = verified.rev
    account.commit = verified.commit
    account.data = verified.data
    this.#append(event, account, frame, verified)
  }

  #refusalOf(account: Account, { kind, rev, data, prevData }: Verified): RelayRefusal | undefined {
    if (account.upstreamStatus !== 'active') return 'account-inactive'
    if (account.rev === undefined) return undefined
    if (kind === 'commit') {
      if (rev <= account.rev) return 'rev-not-increasing'
      return prevData === undefined && this.#options.strict ? 'missing-prev-data' : undefined
    }
    if (rev < account.rev) return 'rev-not-increasing'
    if (rev > account.rev) return undefined
    if (data !== account.data) return 'forked'
    return account.isDesynchronized ? undefined : 'rev-not-increasing'
  }

  /** Logs the event as it came, with our seq in the place of the source's. */
  #append(
    event: UpstreamEvent,
    account: Account,
    frame: Uint8Array,
    { seqStart, seqEnd }: { seqStart: number; seqEnd: number },
  ): void {
    const { log, trail } = this.#options
    const seqBytes = writeCborUnsigned(this.#scratch, 16, log.nextSeq)
    const length = frame.length - (seqEnd - seqStart) + seqBytes
    writeHeader(this.#scratch, 0, 'binary', length)
    const seq = log.append(
      {
        kind: recordKinds[event.type] ?? 0,
        account: account.logId,
        source: event.source.id,
        epoch: event.epoch,
        upstreamSeq: event.upstreamSeq,
      },
      this.#scratch.subarray(0, headerSize(length)),
      frame.subarray(0, seqStart),
      this.#scratch.subarray(16, 16 + seqBytes),
      frame.subarray(seqEnd),
    )
    const { did, sourceId, upstreamStatus, rev, commit, data, isDesynchronized } = account
    trail.push({ seq, did, sourceId, upstreamStatus, rev, commit, data, isDesynchronized })
    this.#finish(event, seq)
  }

  #refuse(event: UpstreamEvent, account: Account | undefined, reason: RelayRefusal, detail: string): void {
    const { source, upstreamSeq, type } = event
    this.#options.onRefused(source, reason, detail, { did: account?.did, upstreamSeq, type })
    this.#finish(event, 0)
  }

  #finish(event: UpstreamEvent, loggedAs: number): void {
    event.frame = emptyFrame
    event.loggedAs = loggedAs
  }

  #checkPressure(): void {
    const bytes = this.#pool.pendingBytes + this.#options.log.pendingBytes
    if (this.#isPressed ? bytes > pressure.low : bytes < pressure.high) return
    this.#isPressed = !this.#isPressed
    this.#onPressure(this.#isPressed)
  }
}

const emptyFrame = new Uint8Array(0)

/** Writes a CBOR unsigned integer in its shortest form. Returns its length. */
function writeCborUnsigned(target: Buffer, at: number, value: number): number {
  if (value < 24) {
    target[at] = value
    return 1
  }
  if (value < 0x100) {
    target[at] = 0x18
    target[at + 1] = value
    return 2
  }
  if (value < 0x10000) {
    target[at] = 0x19
    return target.writeUInt16BE(value, at + 1) - at
  }
  if (value < 0x100000000) {
    target[at] = 0x1a
    return target.writeUInt32BE(value, at + 1) - at
  }
  target[at] = 0x1b
  return target.writeBigUInt64BE(BigInt(value), at + 1) - at
}
