/**
 * Asks the hosts of the accounts we show whether they are still active, those first that were not asked for longest. An account event
 * may have been missed anywhere on the way to us; without this the records of somebody who left would stay for ever.
 * The word of a host only hides and shows; nothing is deleted on it. Each host has a pace of its own, so one that does not
 * answer, or has very many accounts, holds up questions about its own accounts only.
 */
import {
  FetchError,
  type Identity,
  IdentityError,
  type IdentityResolver,
  safeFetch,
} from '@tributary/identity'
import type { IndexWriter } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import type { Fold } from '../fold/fold.ts'
import { isStatus } from '../fold/readable.ts'
import { placesKeptMicros } from '../fold/records.ts'
import { type GoneAnswers, goneAgainMs } from '../gone-answers.ts'
import { HostPlaces, NoPlaceError } from '../host-places.ts'
import { pause } from '../pause.ts'
import { WorkPool } from '../work-pool.ts'
import { HostPace } from './host-pace.ts'

/** No host minds 8 requests a second. */
const hostPaceMsDefault = 125
/**
 * Between two accounts of all hosts. The host of an account is known when its document was read, so an account that comes
 * back later has cost one document: the directory gives many more a second.
 */
const paceMsDefault = 16
/** Questions at a time. Each host, and the documents of `did:web`, have a share of them. */
const placesMax = 64
/** Accounts at a time. Documents of the directory are read without a place. */
const accountsMax = 2 * placesMax
const pageRows = 64
/** How long to wait when nothing is due, or not yet caught up with the stream. */
const idleMs = 60_000
/** The same while accounts are put off until their host has a turn. */
const idleMsPutOff = 1000
/** How often places are forgotten. Not only when nothing is due, because with very many accounts something always is. */
const forgetEveryMs = 60_000
/**
 * An account that was hidden or shown on its host's word, or is said to be gone, is asked about again this soon: it may
 * just be moving, and what is said once does not count.
 */
const soonMs = goneAgainMs
/** A document no older than this tells well enough where an account lives. */
const documentAgeMsMax = 3_600_000
const answerBytesMax = 16_384
/** Places that no record can take up again are removed this much later, because times of a stream may go back a little. */
const placesGraceMicros = 86_400_000_000n

/** `doubted`: the account is said to be gone, which does not count yet. */
export type CheckResult = 'agrees' | 'changed' | 'no-answer' | 'doubted'

export interface AccountSweepOptions {
  writer: IndexWriter
  fold: Fold
  resolver: IdentityResolver
  goneAnswers: GoneAnswers
  allowedPrivateHosts: readonly string[]
  /** How often each account is asked about. */
  everyMs: number
  /** Between two accounts, and between two questions to one host. Defaults: those of this file. */
  paceMs?: number
  hostPaceMs?: number
  /** False while the index is behind: the stream may yet tell. */
  isCaughtUp: () => boolean
  /** Time of the newest event in the index, in microseconds since 1970; undefined when it is not known. */
  newestEventAt: () => bigint | undefined
  logger: Logger
  onChecked: (result: CheckResult) => void
  nowMs?: () => number
  /** Default: `safeFetch`. */
  fetch?: typeof safeFetch
}

/** Works until the signal aborts. Rejects with faults of the database only. */
export async function sweepAccounts(options: AccountSweepOptions, signal: AbortSignal): Promise<void> {
  const { writer, everyMs, isCaughtUp, paceMs = paceMsDefault, hostPaceMs = hostPaceMsDefault } = options
  const nowMs = options.nowMs ?? Date.now
  const pool = new WorkPool<Did>(accountsMax)
  const hosts = {
    places: new HostPlaces({ placesMax, apartMs: hostPaceMs, nowMs }),
    pace: new HostPace({ apartMs: hostPaceMs, withinMs: everyMs, nowMs }),
    putOffUntilMs: -Infinity,
  }
  const due = async (): Promise<Did[]> => {
    const wanted = {
      before: BigInt(nowMs() - everyMs) * 1000n,
      now: BigInt(nowMs()) * 1000n,
      limit: pageRows + pool.size,
    }
    const page = await writer.write((batch) => batch.queues.accountsToCheck(wanted))
    return page.filter((did) => !pool.has(did))
  }

  await pool.run(async () => {
    for (let forgottenMs = -Infinity; !signal.aborted;) {
      // By how far the clock is from then, because it may go back.
      if (Math.abs(nowMs() - forgottenMs) >= forgetEveryMs) {
        await forgetPlaces(options, signal)
        forgottenMs = nowMs()
      }
      const page = isCaughtUp() ? await due() : []
      for (const did of page) {
        if (signal.aborted) return
        await pool.start(did, () => sweepAccount(options, hosts, did, signal))
        await pause(paceMs, signal)
      }
      if (page.length === 0) await pause(nowMs() < hosts.putOffUntilMs ? idleMsPutOff : idleMs, signal)
    }
  })
}

/** The state of the hosts that are asked. */
interface Hosts {
  readonly places: HostPlaces
  readonly pace: HostPace
  /** The latest moment at which an account comes back that found no place or no turn. */
  putOffUntilMs: number
}

async function sweepAccount(
  options: AccountSweepOptions,
  hosts: Hosts,
  did: Did,
  signal: AbortSignal,
): Promise<void> {
  const { writer, everyMs, onChecked, nowMs = Date.now } = options
  // Not after the present moment, because such a time is one of a clock that was ahead.
  const checkedAt = (againMs: number): bigint =>
    BigInt(Math.ceil(nowMs() + Math.min(againMs, everyMs) - everyMs)) * 1000n
  try {
    const result = await checkAccount(options, hosts, did, signal)
    if (result === undefined) return
    const againMs = result === 'changed' || result === 'doubted' ? soonMs : everyMs
    await setChecked(writer, did, checkedAt(againMs))
    onChecked(result)
  } catch (error) {
    if (!(error instanceof NoPlaceError)) throw error
    hosts.putOffUntilMs = Math.max(
      hosts.putOffUntilMs,
      nowMs() + Math.min(error.waitMs, everyMs) + idleMsPutOff,
    )
    await putOff(writer, did, checkedAt(error.waitMs))
  }
}

/** Forgets places that no record can take up again. Each step is a transaction, so that others are written in between. */
async function forgetPlaces(
  { writer, newestEventAt, nowMs = Date.now }: AccountSweepOptions,
  signal: AbortSignal,
): Promise<void> {
  const newest = newestEventAt()
  if (newest === undefined) return
  const now = BigInt(nowMs()) * 1000n
  // A single event of a time to come would else have all places forgotten.
  const before = (newest < now ? newest : now) - placesKeptMicros - placesGraceMicros
  for (let isMore = true; isMore && !signal.aborted;)
    isMore = await writer.write((batch) => batch.queues.forgetSomePlaces(before))
}

async function setChecked(writer: IndexWriter, did: Did, checkedAt: bigint): Promise<void> {
  await writer.write(async (batch) => {
    const [account] = await batch.load('accounts', [did])
    if (account === undefined) return
    await batch.put('accounts', [{ ...account, checkedAt }])
    // A name may point elsewhere without any event.
    const asked = await batch.load('handleRequests', [did])
    if (account.isAuthor === 1n && asked.length === 0)
      await batch.put('handleRequests', [{ did, seq: 0n, attempts: 0n, dueAt: 0n }])
  })
}

async function putOff(writer: IndexWriter, did: Did, checkedAt: bigint): Promise<void> {
  await writer.write(async (batch) => {
    const [account] = await batch.load('accounts', [did])
    if (account !== undefined) await batch.put('accounts', [{ ...account, checkedAt }])
  })
}

/** Undefined when the sweep was stopped meanwhile. @throws NoPlaceError */
async function checkAccount(
  options: AccountSweepOptions,
  hosts: Hosts,
  did: Did,
  signal: AbortSignal,
): Promise<CheckResult | undefined> {
  const { fold, logger } = options
  const statusSeq = (await fold.statusSeq(did)) ?? 0n
  const answer = await askHost(options, hosts, did, signal)
  if (signal.aborted) return undefined
  if (answer === undefined) return 'no-answer'
  if (answer === 'doubted') return 'doubted'
  if (!(await fold.setHostStatus(did, statusSeq, answer))) return 'agrees'
  logger.warn({ did, hostStatus: answer }, 'an account event was missed; the host has told')
  return 'changed'
}

/** What the account's present host says of it, or `doubted`; undefined without a usable answer. */
async function askHost(
  { nowMs = Date.now, ...options }: AccountSweepOptions,
  { places, pace }: Hosts,
  did: Did,
  signal: AbortSignal,
): Promise<string | undefined> {
  const now = nowMs()
  const read = async (refreshAfter: number): Promise<Identity> => {
    const identity = await places.readDocument(did, () => options.resolver.resolve(did, { refreshAfter }))
    // A document that was read earlier says nothing of the directory as it is now.
    if (identity.fetchedAt >= now) options.goneAnswers.found(did)
    return identity
  }
  try {
    const { pdsUrl } = await read(now - documentAgeMsMax)
    if (pdsUrl === undefined) return undefined
    pace.take(pdsUrl)
    const status = await places.within(pdsUrl, did, () => fetchStatus(options, pdsUrl, did, signal))
    if (status === undefined) return undefined
    // An account that moved is inactive where it used to be, or is said to be active there.
    const fresh = await read(now)
    return fresh.pdsUrl === pdsUrl ? status : undefined
  } catch (error) {
    if (error instanceof IdentityError) {
      if (error.reason !== 'not-found') return undefined
      return options.goneAnswers.gone(did) ? 'deleted' : 'doubted'
    }
    if (error instanceof FetchError) return undefined
    throw error
  }
}

async function fetchStatus(
  { allowedPrivateHosts, fetch = safeFetch }: AccountSweepOptions,
  pdsUrl: string,
  did: Did,
  signal: AbortSignal,
): Promise<string | undefined> {
  const url = `${pdsUrl}/xrpc/com.atproto.sync.getRepoStatus?did=${encodeURIComponent(did)}`
  const { status, body } = await fetch(url, { allowedPrivateHosts, bytesMax: answerBytesMax, signal })
  const answer = parseObject(body)
  if (status === 400 || status === 404) return answer['error'] === 'RepoNotFound' ? 'deleted' : undefined
  if (status !== 200 || answer['did'] !== did || typeof answer['active'] !== 'boolean') return undefined
  if (answer['active']) return 'active'
  const word = answer['status']
  return typeof word === 'string' && isStatus(word) && word !== 'active' ? word : 'inactive'
}

function parseObject(body: Buffer): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body.toString())
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {} // not JSON: no answer
  }
}
