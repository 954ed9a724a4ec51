/**
 * Asks the hosts of the accounts we show, one account after the other, whether they are still active. An account event
 * may have been missed anywhere on the way to us; without this the records of somebody who left would stay for ever.
 * What a host says only hides and shows; nothing is deleted on its word.
 */
import { FetchError, IdentityError, type IdentityResolver, safeFetch } from '@tributary/identity'
import type { IndexConnection } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import type { Fold } from '../fold/fold.ts'
import { pause } from '../pause.ts'

/** Accounts that are asked about at the same time. */
const parallelMax = 4
const pageRows = 64
/** How long to wait when nothing is due, or not yet caught up with the stream. */
const idleMs = 60_000
/** A document no older than this tells well enough where an account lives. */
const documentAgeMsMax = 3_600_000
const answerBytesMax = 16_384
/** How long the places of records that a sync marker took away are kept for their return. */
const placesKeptMs = 7 * 86_400_000

export interface AccountSweepOptions {
  connection: IndexConnection
  fold: Fold
  resolver: IdentityResolver
  allowedPrivateHosts: readonly string[]
  /** How often each account is asked about. */
  everyMs: number
  /** False while the index is behind: the stream may yet tell. */
  isCaughtUp: () => boolean
  logger: Logger
  onChecked: (result: 'agrees' | 'changed' | 'no-answer') => void
  nowMs?: () => number
}

/** Works until the signal aborts. Rejects with faults of the database only. */
export async function sweepAccounts(options: AccountSweepOptions, signal: AbortSignal): Promise<void> {
  const { connection, everyMs, isCaughtUp } = options
  const { sqlite } = connection
  const nowMs = options.nowMs ?? Date.now
  const due = sqlite
    .prepare<[bigint], Did>(
      `select did from accounts where checkedAt < ? order by checkedAt limit ${pageRows}`,
    )
    .pluck()
  const forgetPlaces = sqlite.prepare<[bigint]>('delete from superseded where supersededAt < ?')

  while (!signal.aborted) {
    const page = isCaughtUp() ? due.all(BigInt(nowMs() - everyMs) * 1000n) : []
    const queue = page.values()
    const worker = async (): Promise<void> => {
      for (const did of queue) {
        if (signal.aborted) return
        await checkAccount(options, did, nowMs, signal)
      }
    }
    await Promise.all(Array.from({ length: Math.min(parallelMax, page.length) }, worker))
    if (page.length > 0) continue
    forgetPlaces.run(BigInt(nowMs() - placesKeptMs) * 1000n)
    await pause(idleMs, signal)
  }
}

async function checkAccount(
  options: AccountSweepOptions,
  did: Did,
  nowMs: () => number,
  signal: AbortSignal,
): Promise<void> {
  const { fold, logger, onChecked } = options
  const statusSeq = fold.statusSeq(did)
  if (statusSeq === undefined) return
  const answer = await askHost(options, did, nowMs(), signal)
  if (signal.aborted) return
  const hasChanged = fold.setHostStatus(did, statusSeq, answer, BigInt(nowMs()) * 1000n)
  if (hasChanged) logger.warn({ did, hostStatus: answer }, 'an account event was missed; the host has told')
  onChecked(answer === undefined ? 'no-answer' : hasChanged ? 'changed' : 'agrees')
}

/** What the account's present host says of it; undefined without a usable answer. */
async function askHost(
  options: AccountSweepOptions,
  did: Did,
  now: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const { pdsUrl } = await options.resolver.resolve(did, { refreshAfter: now - documentAgeMsMax })
    if (pdsUrl === undefined) return undefined
    const status = await fetchStatus(options, pdsUrl, did, signal)
    if (status === undefined || status === 'active') return status
    // Before anything is hidden: an account that moved is inactive where it used to be.
    const fresh = await options.resolver.resolve(did, { refreshAfter: now })
    return fresh.pdsUrl === pdsUrl ? status : undefined
  } catch (error) {
    if (error instanceof IdentityError) return error.reason === 'not-found' ? 'deleted' : undefined
    if (error instanceof FetchError) return undefined
    throw error
  }
}

async function fetchStatus(
  { allowedPrivateHosts }: AccountSweepOptions,
  pdsUrl: string,
  did: Did,
  signal: AbortSignal,
): Promise<string | undefined> {
  const url = `${pdsUrl}/xrpc/com.atproto.sync.getRepoStatus?did=${encodeURIComponent(did)}`
  const { status, body } = await safeFetch(url, { allowedPrivateHosts, bytesMax: answerBytesMax, signal })
  const answer = parseObject(body)
  if (status === 400 || status === 404) return answer['error'] === 'RepoNotFound' ? 'deleted' : undefined
  if (status !== 200 || answer['did'] !== did || typeof answer['active'] !== 'boolean') return undefined
  if (answer['active']) return 'active'
  return typeof answer['status'] === 'string' ? answer['status'] : 'inactive'
}

function parseObject(body: Buffer): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body.toString())
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {} // not JSON: no answer
  }
}
