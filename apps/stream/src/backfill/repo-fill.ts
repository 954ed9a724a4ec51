import { type Identity, IdentityError, type IdentityResolver, RecentMap } from '@tributary/identity'
import { systemClock, wait, type Clock } from '@tributary/lanes'
import type { Did } from '@tributary/protocol'
import type { AccountCorrections } from '../ingest/account-corrections.ts'
import type { Ingest } from '../ingest/ingest.ts'
import type { RefillWish } from '../ingest/refills.ts'
import type { RepoContents } from '../ingest/repo-refill.ts'
import { type RepoStates, unknownRepo } from '../ingest/repo-states.ts'
import type { WatchedCollections } from '../policy/watched-collections.ts'
import type { StateDatabase } from '../state-database.ts'
import { type AskOptions, HostAwayError, type HostRequests, OversizeError } from './host-requests.ts'
import { HostRestsError, LargeTurns } from './large-turns.ts'
import type { IncomingRepo, RepoReader } from './repo-reader.ts'
import { Rereads } from './rereads.ts'
import { readAccountRev, readAccountWord, readInactive } from './sync-answers.ts'

/** What became of the attempt to make a repository whole. */
export type FillOutcome =
  | { is: 'whole' }
  /** Nobody has it now: trying again is for when something of the account happens, or by hand. */
  | { is: 'unavailable'; detail: string }
  /** What it said cannot be used. */
  | { is: 'refused'; detail: string }
  /** Somebody who is needed does not answer, or it was put off: other large repositories come first, and nobody was asked. */
  | { is: 'later'; detail: string; afterMs?: number | undefined; isPutOff?: boolean }
  /** Its host gives one that is older than what is known of it: for a moment, or because it was restored from a backup. */
  | { is: 'older'; detail: string }
  /** Its events are expected to come first. */
  | { is: 'live-behind' }

export interface RepoFillOptions {
  database: StateDatabase
  requests: HostRequests
  /** Origin of the relay, for what it says of accounts. */
  relayUrl: string
  resolver: IdentityResolver
  reader: RepoReader
  ingest: Pick<Ingest, 'hasRoom' | 'refill'>
  states: RepoStates
  watched: WatchedCollections
  /** Told what the relay says of each account. Default: nobody. */
  corrections?: Pick<AccountCorrections, 'correct'>
  signal: AbortSignal
  /** Default: that of the machine. */
  clock?: Clock
}

export interface FillWish {
  did: Did
  /** The host that is asked for it; undefined for the one that its document names. */
  host?: string
  mayReplace: boolean
  onWhole: () => void
  /**
   * Called when the repository is known to be a large one. Gives for whom it waits for its turn among those; undefined
   * when it is left for later. Default: for its host.
   */
  largeTurn?: () => string | undefined
  /** Whether the host that its document names may be asked now; otherwise it is left for later. Default: it may. */
  mayAsk?: (host: string) => boolean
}

/** How what was read is to be written. */
interface Writing extends RefillWish {
  did: Did
  /** It was marked when its host was asked. */
  isAgain: boolean
}

/**
 * How often a marked repository is read again within a day. Its account, or its host, can have it marked as often as it
 * likes, and each reading writes all of it into the archive once more.
 */
export const rereadsPerDay = 12
const dayMs = 86_400_000
const mebibyte = 1024 * 1024
const statusBounds = { bytesMax: 64 * 1024, timeoutMs: 10_000 }
/** Most repositories are below a megabyte. One that is larger than this is begun again, in the line of the large ones. */
const repoBounds = { bytesMax: 4 * mebibyte, timeoutMs: 60_000 }
/** A large repository is read alone, because the thread holds all of it. */
const largeRepoBounds = { bytesMax: 64 * mebibyte, timeoutMs: 900_000 }
/**
 * All other large ones wait meanwhile. If there are any, its host must send a megabit a second, as the connection of a
 * home does: otherwise one of 4 MiB could be drawn out for two minutes.
 */
const hurry = { secondsMax: 120, bytesPerSecondMin: 128 * 1024 }
/** A repository of which so much came in vain is read in the line of the large ones from then on, where it may take longer. */
const slowBytesMin = 256 * 1024
/** Large repositories that are remembered as such, so that the next attempt does not begin as for a usual one. */
const largeMax = 100_000
/** How long events are waited for that the repository has already, with what was read in memory. */
const liveMsMax = 5000
const liveLookMs = 50
/** How long a large repository waits among the events of its account, while all other large ones wait for it. */
const largeBeginMsMax = 5000
/** Milliseconds between two looks whether the archive has room for a repository. */
const roomLookMs = 250
/** The method of a relay, or a host, that tells how an account is. */
const statusOf = (did: Did): string => `getRepoStatus?did=${encodeURIComponent(did)}`
const older: FillOutcome = { is: 'older', detail: 'its host gives an older one than is known of' }

/** Makes repositories whole: asks the relay for the state of the account, and its host for the repository. */
export class RepoFill {
  readonly #options: RepoFillOptions
  readonly #clock: Clock
  readonly #largeTurns: LargeTurns
  readonly #large = new RecentMap<string, true>(largeMax)
  readonly #rereads: Rereads

  constructor(options: RepoFillOptions) {
    this.#options = options
    this.#rereads = new Rereads({ ...options, max: rereadsPerDay, windowMs: dayMs })
    this.#clock = options.clock ?? systemClock
    this.#largeTurns = new LargeTurns(this.#clock)
  }

  /** Whether the relay says that it never heard of an account. @throws HostAwayError, OversizeError */
  async isUnknown(did: Did): Promise<boolean> {
    const { requests, relayUrl } = this.#options
    const word = await requests.ask(relayUrl, statusOf(did), statusBounds)
    return word.status !== 200 && readInactive(word) === 'deleted'
  }

  /** The repository may be read as often as if it had not been read today. */
  forgetRereads(did: string): void {
    this.#rereads.forget(did)
  }

  async makeWhole(wish: FillWish): Promise<FillOutcome> {
    try {
      return await this.#fill(wish)
    } catch (error) {
      if (error instanceof HostAwayError)
        return {
          is: 'later',
          detail: error.message,
          afterMs: error.retryAfterMs,
          isPutOff: error instanceof HostRestsError,
        }
      if (error instanceof OversizeError) return { is: 'refused', detail: error.message }
      if (!(error instanceof IdentityError)) throw error
      if (!error.retryable) return { is: 'unavailable', detail: error.message }
      return { is: 'later', detail: error.message, afterMs: error.retryAfterMs }
    }
  }

  async #fill(wish: FillWish): Promise<FillOutcome> {
    const { did, host, largeTurn, mayAsk } = wish
    const { requests, relayUrl, resolver, states, corrections } = this.#options
    await this.#awaitRoom()
    const { accountSeen: seen, rev: seenRev } = states.get(did) ?? unknownRepo
    const word = await requests.ask(relayUrl, statusOf(did), statusBounds)
    const said = readAccountWord(word)
    if (said) await corrections?.correct(did, said, seen)
    // A relay may never have heard of an account that its host has.
    const inactive = word.status === 200 ? readInactive(word) : undefined
    if (inactive !== undefined) return { is: 'unavailable', detail: `the relay says ${inactive}` }
    const isAgain = states.get(did)?.needsRefetch === true
    const afterMs = isAgain ? this.#rereads.waitMs(did, this.#clock.nowMs()) : 0
    // Records may be missing until then, and no job is done while they are.
    if (afterMs > 0)
      return { is: 'later', detail: `it was read ${rereadsPerDay} times within a day`, afterMs }
    const identity = await resolver.resolve(did)
    const { pdsUrl, pdsHost } = identity
    if (pdsUrl === undefined) return { is: 'unavailable', detail: 'its document names no host' }
    if (host !== undefined && pdsHost !== host)
      return { is: 'unavailable', detail: `it lives at ${String(pdsHost)}` }
    if (mayAsk?.(pdsHost ?? '') === false) return { is: 'later', detail: 'its host is asked for others' }
    // An older one may lack commits whose events were not kept: from before the backfill, or of collections not watched then.
    const knownRev = readAccountRev(word)
    const leastRev = seenRev > knownRev ? seenRev : knownRev
    const contents = await this.#getUsual(pdsUrl, identity, leastRev)
    const writing = { ...wish, isAgain }
    if (contents) return 'is' in contents ? contents : await this.#write(contents, writing)
    const turn = largeTurn ? largeTurn() : pdsUrl
    if (turn === undefined)
      return { is: 'later', detail: 'other large repositories of its host come first', isPutOff: true }
    const isNeeded = (): boolean => this.#largeTurns.othersWait(turn)
    const bounds = { ...largeRepoBounds, hurry: { ...hurry, isNeeded } }
    return await this.#largeTurns.run(turn, async () => {
      await this.#awaitRoom()
      const get = async () => await this.#get(pdsUrl, identity, leastRev, bounds)
      return await this.#fillLarge(turn, get, writing)
    })
  }

  /** Has a large repository read and written. Its host's time ends when the writing begins, which is ours. */
  async #fillLarge(
    turn: string,
    get: () => Promise<RepoContents | FillOutcome>,
    writing: Writing,
  ): Promise<FillOutcome> {
    const { outcome } = await this.#largeTurns.timed(turn, async () => {
      const contents = await get()
      if ('is' in contents) return { outcome: contents }
      const begun = Promise.withResolvers<void>()
      const bounds = { beginMsMax: largeBeginMsMax, onBegin: begun.resolve }
      const written = this.#write(contents, { ...writing, ...bounds })
      await Promise.race([begun.promise, written])
      return { outcome: written }
    })
    return await outcome
  }

  /** Nobody is asked for what the archive has no room for: it would wait in memory. */
  async #awaitRoom(): Promise<void> {
    const { ingest, signal } = this.#options
    while (!ingest.hasRoom) {
      await wait(this.#clock, roomLookMs, signal)
      signal.throwIfAborted()
    }
  }

  async #write(contents: RepoContents, { did, isAgain, ...writing }: Writing): Promise<FillOutcome> {
    const { ingest } = this.#options
    this.#large.delete(did)
    await this.#awaitLive(contents)
    const outcome = await this.#unlessStopped(ingest.refill(contents, writing))
    switch (outcome.is) {
      case 'whole':
      case 'complete':
        if (isAgain) this.#rereads.take(did, this.#clock.nowMs())
        return { is: 'whole' }
      case 'live-behind':
        return outcome
      case 'contents-behind':
        return {
          is: 'later',
          detail: 'events of the account were newer than what its host gave',
          afterMs: 1000,
        }
      case 'hidden':
        return { is: 'unavailable', detail: 'its account is not active' }
      case 'no-room':
        return { is: 'later', detail: 'too much waits for the account' }
    }
  }

  /** Gets a repository unless it is a large one. */
  async #getUsual(
    pdsUrl: string,
    identity: Identity,
    leastRev: string,
  ): Promise<RepoContents | FillOutcome | undefined> {
    if (this.#large.get(identity.did)) return undefined
    try {
      return await this.#get(pdsUrl, identity, leastRev, repoBounds)
    } catch (error) {
      if (!(error instanceof OversizeError)) throw error
      this.#large.set(identity.did, true)
      return undefined
    }
  }

  /** @throws OversizeError */
  async #get(
    pdsUrl: string,
    identity: Identity,
    leastRev: string,
    bounds: AskOptions,
  ): Promise<RepoContents | FillOutcome> {
    const { requests, reader, states, watched } = this.#options
    // What is lost, or comes to be watched, while the host answers may be newer than its answer.
    const [marksBefore, watchRevision, collections] = [states.marks, watched.revision, watched.names()]
    using repo = reader.open()
    const take = (piece: Buffer): void => repo.add(piece)
    const method = `getRepo?did=${encodeURIComponent(identity.did)}`
    const answer = await requests.ask(pdsUrl, method, { ...bounds, take }).catch((error: unknown) => {
      // What is too large or too slow here may be had in the line of the large ones.
      if (bounds !== repoBounds) requests.noteUseless(pdsUrl, repo.bytes)
      else if (repo.bytes >= slowBytesMin) this.#large.set(identity.did, true)
      throw error
    })
    if (answer.status === 200) {
      const read = await this.#verify(repo, identity, bounds.bytesMax, collections)
      if (!('is' in read) && read.rev >= leastRev) return { ...read, marksBefore, watchRevision }
      requests.noteUseless(pdsUrl, repo.bytes)
      return 'is' in read ? read : older
    }
    const said = readInactive(answer)
    if (said !== undefined) return { is: 'unavailable', detail: `its host says ${said}` }
    return { is: 'refused', detail: `getRepo answered with ${answer.status}` }
  }

  /** Verifies a repository, with a document that is read again when the key of the one that was known does not fit. */
  async #verify(
    repo: IncomingRepo,
    identity: Identity,
    bytesMax: number,
    collections: ReadonlySet<string>,
  ): Promise<Pick<RepoContents, 'did' | 'rev' | 'data' | 'records'> | FillOutcome> {
    const { resolver } = this.#options
    const { did } = identity
    const nowMs = this.#clock.nowMs()
    for (let known = identity; ; known = await resolver.resolve(did, { refreshAfter: nowMs })) {
      const { signingKey: key } = known
      if (!key) return { is: 'unavailable', detail: 'its document names no key' }
      const read = await repo.verify({ did, key, bytesMax, collections })
      if (read.ok) {
        const { rev, data, records } = read
        return { did, rev, data, records }
      }
      const { reason, detail } = read
      if (reason !== 'bad-signature' || known.fetchedAt >= nowMs)
        return { is: 'refused', detail: `${reason}: ${detail}` }
    }
  }

  /** What a repository has that its events did not bring yet comes within moments, as a rule. */
  async #awaitLive({ did, rev }: RepoContents): Promise<void> {
    const { states, signal } = this.#options
    const isBehind = (): boolean => {
      const state = states.get(did)
      return state !== undefined && state.rev !== '' && state.completeRevision > 0 && state.rev < rev
    }
    for (let leftMs = liveMsMax; isBehind() && leftMs > 0; leftMs -= liveLookMs) {
      await wait(this.#clock, liveLookMs, signal)
      signal.throwIfAborted()
    }
  }

  /** The ingest finishes nothing that is under way when it is closed. */
  async #unlessStopped<T>(work: Promise<T>): Promise<T> {
    const { signal } = this.#options
    const stopped = Promise.withResolvers<never>()
    const stop = (): void => stopped.reject(signal.reason as Error) // as Node makes it
    signal.addEventListener('abort', stop)
    try {
      signal.throwIfAborted()
      return await Promise.race([work, stopped.promise])
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }
}
