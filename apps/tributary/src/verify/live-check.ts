/**
 * What a consumer can check of a firehose: every message by itself (form, signature, operations against the tree), and
 * each against those before it (order of the stream, revisions and chain of each account, nothing from who is away).
 * What is replayed may be signed by a key that was the account's at that time, and has been replaced since.
 */
import { tidToMicroseconds, type Did } from '@tributary/protocol'
import { FetchError, IdentityError, type IdentityResolver } from '@tributary/identity'
import {
  CheckedTrees,
  isSigned,
  readMessage,
  verifyMessage,
  type Digest,
  type Message,
  type RefusalReason,
  type VerifiedCommit,
  type VerifiedEvent,
  type VerifiedSync,
  type Refusal,
  type SignedMessage,
  type UnreadableMessage,
  type VerifyOptions,
} from '@tributary/repo-verify'
import type { EarlierKey } from './key-history.ts'

/** What was found wrong with one message. */
export interface LiveFault {
  seq: number | undefined
  did: string | undefined
  reason:
    | RefusalReason
    | 'error-frame'
    | 'seq-not-increasing'
    | 'rev-not-increasing'
    | 'chain-broken'
    | 'inactive-account'
  detail: string
}

/** Where an account stands, as far as it was seen. */
interface Seen {
  rev: string | undefined
  data: Digest | undefined
  isActive: boolean
}

const unknownPlace = { rev: undefined, data: undefined }

/** A commit may be made by one clock and its key replaced by another. */
const clockSkewMs = 60_000

export interface LiveCheckOptions {
  resolver: IdentityResolver
  /** Keys that an account had before its present one. */
  earlierKeysOf: (did: Did) => Promise<EarlierKey[]>
  onFault: (fault: LiveFault) => void
  /** Told of each message that could not be checked, because no key of its account could be read. */
  onUnchecked: (message: Pick<LiveFault, 'seq' | 'did' | 'detail'>) => void
}

export class LiveCheck {
  readonly #options: LiveCheckOptions
  /** Earlier keys of accounts whose present key did not fit, until their identity changes. */
  readonly #earlierKeys = new Map<Did, EarlierKey[]>()
  readonly #accounts = new Map<Did, Seen>()
  readonly #trees = new CheckedTrees()
  /** Messages by kind. */
  readonly counts: Record<string, number> = {}
  faults = 0
  /** Messages that could not be checked. They are counted as `unchecked` too. */
  unchecked = 0
  lastSeq = 0

  constructor(options: LiveCheckOptions) {
    this.#options = options
  }

  get messages(): number {
    return Object.values(this.counts).reduce((sum, count) => sum + count, 0)
  }

  get accounts(): number {
    return this.#accounts.size
  }

  /** Checks the next message of the stream. Messages are handed over one after the other, in order. */
  async check(frame: Uint8Array): Promise<void> {
    const message = readMessage(frame)
    const fault = (reason: LiveFault['reason'], detail: string): void => {
      this.faults++
      this.#options.onFault({ ...placeOf(message), reason, detail })
    }
    let event
    try {
      event = message.ok ? await this.#verify(message) : message
    } catch (error) {
      if (!(error instanceof IdentityError || error instanceof FetchError)) throw error
      this.unchecked++
      this.#count('unchecked')
      // The next message of the account need not fit to the one before this.
      if (message.ok && isSigned(message)) Object.assign(this.#account(message.did), unknownPlace)
      return this.#options.onUnchecked({ ...placeOf(message), detail: error.message })
    }
    this.#count(event.ok ? event.kind : 'refused')
    if (!event.ok) return fault(event.reason, event.detail)
    if (event.kind === 'error') return fault('error-frame', `${event.error}: ${event.message ?? ''}`)
    if (!('did' in event)) return
    if (event.upstreamSeq <= this.lastSeq) fault('seq-not-increasing', `it came after ${this.lastSeq}`)
    this.lastSeq = Math.max(this.lastSeq, event.upstreamSeq)
    const account = this.#account(event.did)
    if (event.kind === 'account') account.isActive = event.active
    else if (event.kind === 'identity') this.#earlierKeys.delete(event.did)
    else this.#follow(event, account, fault)
  }

  /**
   * Verifies a message: with the account's key, with that read anew if it does not fit, and with earlier ones that were
   * good when the commit was made.
   * @throws IdentityError or FetchError when no key could be read.
   */
  async #verify(message: Message): Promise<VerifiedEvent | Refusal> {
    const nowMs = Date.now()
    const options = { nowMs, strict: true, checkedTrees: this.#trees }
    if (!isSigned(message)) return message
    const { did } = message
    const { resolver, earlierKeysOf } = this.#options
    const { signingKey } = await resolver.resolve(did)
    const event = verifyMessage(message, { ...options, key: signingKey })
    if (event.ok || event.reason !== 'bad-signature') return event
    const known = signedEarlier(message, options, this.#earlierKeys.get(did))
    if (known) return known
    const fresh = await resolver.resolve(did, { refreshAfter: nowMs })
    const again = verifyMessage(message, { ...options, key: fresh.signingKey })
    if (again.ok || again.reason !== 'bad-signature') return again
    this.#earlierKeys.set(did, await earlierKeysOf(did))
    return signedEarlier(message, options, this.#earlierKeys.get(did)) ?? again
  }

  /** The event against what was seen of its account. */
  #follow(
    event: VerifiedCommit | VerifiedSync,
    account: Seen,
    fault: (reason: LiveFault['reason'], detail: string) => void,
  ): void {
    const { rev, data } = event
    const known = account.rev
    if (!account.isActive) fault('inactive-account', 'the account was said to be away')
    if (known !== undefined && (event.kind === 'commit' ? rev <= known : rev < known))
      return fault('rev-not-increasing', `rev ${rev} came after ${known}`)
    // `since` says nothing: it is not signed, and a PDS that imported the account names a revision that nobody saw.
    if (known !== undefined && event.kind === 'commit' && event.prevData !== account.data)
      fault('chain-broken', `prevData is not the tree of ${known}, which came before`)
    account.rev = rev
    account.data = data
  }

  #account(did: Did): Seen {
    let account = this.#accounts.get(did)
    if (!account) {
      account = { rev: undefined, data: undefined, isActive: true }
      this.#accounts.set(did, account)
    }
    return account
  }

  #count(kind: string): void {
    this.counts[kind] = (this.counts[kind] ?? 0) + 1
  }
}

/** Where a message stands and whose it is, as far as it could be read. */
function placeOf(message: Message | UnreadableMessage): Pick<LiveFault, 'seq' | 'did'> {
  const { upstreamSeq: seq, did } = { upstreamSeq: undefined, did: undefined, ...message }
  return { seq, did }
}

/** The event if one of the keys signed it before that key was replaced. */
function signedEarlier(
  message: SignedMessage,
  options: Omit<VerifyOptions, 'key'>,
  keys: readonly EarlierKey[] = [],
): VerifiedCommit | VerifiedSync | undefined {
  for (const { key, untilMs } of keys) {
    const event = verifyMessage(message, { ...options, key })
    if (!event.ok || (event.kind !== 'commit' && event.kind !== 'sync')) continue
    if (tidToMicroseconds(event.rev) / 1000 < untilMs + clockSkewMs) return event
  }
  return undefined
}
