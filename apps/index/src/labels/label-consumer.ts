/**
 * Follows one trusted labeler for ever: finds its address and key in its DID document, subscribes behind the durable
 * cursor, checks every signature, stores labels and position in one transaction. A labeler that is away, or sends what
 * cannot be read, is tried again with growing waits; its labels so far stay in force. What its stream no longer holds is read
 * in `label-listing.ts`.
 */
import { isDeepStrictEqual } from 'node:util'
import { FetchError, IdentityError, type Identity, type IdentityResolver } from '@tributary/identity'
import { decodeFrame, type Did, type Frame, FrameError } from '@tributary/protocol'
import { backoffMs, pause } from '../pause.ts'
import { LabelListing, type LabelListingOptions } from './label-listing.ts'
import { LabelSocketError, openLabelSocket } from './label-socket.ts'
import { type Label, type LabelResult, readLabels } from './read-label.ts'

const retry = { firstMs: 1_000, maxMs: 60_000 }
/**
 * How often the document is read again because of a signature, and how far the labeler's clock may be behind. A label that
 * is older than the document, though it does not fit, is of an earlier key and is refused.
 */
const refreshEveryMs = 60_000
/** A labeler that was connected, or that was not there, may have moved: its document is no older then. */
const documentAgeMsMax = 60_000

/** How often it is looked whether a labeler that stays connected has moved or has another key. */
const lookEveryMsDefault = 600_000

export interface LabelConsumerOptions extends LabelListingOptions {
  onConnected: (isConnected: boolean) => void
  /** Milliseconds between two looks at the document of a labeler that stays connected. Default: ten minutes. */
  lookEveryMs?: number
}

/** Characters of a labeler's words in a log line. */
const saidMax = 200

/** The subscription ended and is worth another attempt. */
class LabelerAwayError extends Error {
  override readonly name = 'LabelerAwayError'
}

/** Works until the signal aborts. Rejects with faults of the database only. */
export async function consumeLabels(options: LabelConsumerOptions, signal: AbortSignal): Promise<void> {
  const listing = new LabelListing(options)
  await Promise.all([listing.run(signal), followStream(options, listing, signal)])
}

async function followStream(
  options: LabelConsumerOptions,
  listing: LabelListing,
  signal: AbortSignal,
): Promise<void> {
  const { labeler, store, resolver, logger, onConnected } = options
  const nowMs = options.nowMs ?? Date.now
  let stale: StaleKeyError | undefined
  for (let failures = 0; !signal.aborted; failures++) {
    const before = await store.cursor(labeler)
    try {
      const knownAfter = stale?.atMs ?? 0
      const identity =
        failures === 0
          ? await resolver.resolve(labeler, { refreshAfter: knownAfter })
          : await lookAgain(resolver, labeler, knownAfter, nowMs())
      const over = new AbortController()
      const until = AbortSignal.any([signal, over.signal])
      void untilMoved(options, identity, nowMs, until).then(() => over.abort())
      try {
        await subscribe(options, identity, { listing, stale, signal: until, nowMs })
      } finally {
        over.abort()
      }
    } catch (error) {
      if (!isPassing(error)) throw error
      if (error instanceof StaleKeyError) {
        if (stale) await pause(stale.atMs + refreshEveryMs - error.atMs, signal)
        stale = error
      }
      logger.warn({ labeler, err: error, cursor: await store.cursor(labeler) }, 'the labeler is away')
    } finally {
      onConnected(false)
    }
    if ((await store.cursor(labeler)) !== before) failures = 0
    await pause(backoffMs(failures, retry), signal)
  }
}

/** Finds where the labeler is now. While the directory is away, what is known will do if it is not older than `knownAfter`. */
async function lookAgain(
  resolver: IdentityResolver,
  labeler: Did,
  knownAfter: number,
  now: number,
): Promise<Identity> {
  try {
    return await resolver.resolve(labeler, { refreshAfter: Math.max(knownAfter, now - documentAgeMsMax) })
  } catch (error) {
    if (!(error instanceof IdentityError) || !error.retryable) throw error
    return await resolver.resolve(labeler, { refreshAfter: knownAfter })
  }
}

/**
 * Resolves when the labeler's DID document names another address or key than is known, or when the signal aborts. An address
 * that the labeler has left may stay connected, and a key that it has given up fits its labels still.
 */
async function untilMoved(
  { labeler, resolver, logger, lookEveryMs = lookEveryMsDefault }: LabelConsumerOptions,
  known: Identity,
  nowMs: () => number,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    await pause(lookEveryMs, signal)
    if (signal.aborted) return
    try {
      const now = await lookAgain(resolver, labeler, known.fetchedAt, nowMs())
      if (now.labelerUrl === known.labelerUrl && isDeepStrictEqual(now.labelKey, known.labelKey)) continue
      logger.info({ labeler, labelerUrl: now.labelerUrl }, 'the labeler has another address or key')
      return
    } catch (error) {
      if (!isPassing(error)) throw error
    }
  }
}

/** A signature failed against a document that may be out of date. */
class StaleKeyError extends LabelerAwayError {
  /** When it failed, and of which message. */
  readonly atMs: number
  readonly seq: number
  constructor(atMs: number, seq: number) {
    super('a signature does not fit the key that was known; reading the DID document again')
    this.atMs = atMs
    this.seq = seq
  }
}

interface Subscription {
  listing: LabelListing
  /** Why the document was read again last. */
  stale: StaleKeyError | undefined
  signal: AbortSignal
  nowMs: () => number
}

async function subscribe(
  options: LabelConsumerOptions,
  identity: Identity,
  { listing, stale, signal, nowMs }: Subscription,
): Promise<void> {
  const { labeler, store, allowedPrivateHosts, onConnected, logger } = options
  const { labelerUrl } = identity
  if (labelerUrl === undefined) throw new LabelerAwayError('its DID document names no labeler service')
  if (identity.labelKey === undefined)
    throw new LabelerAwayError('its DID document has no usable #atproto_label key')
  const cursor = await store.cursor(labeler)
  const url = `${labelerUrl.replace(/^http/, 'ws')}/xrpc/com.atproto.label.subscribeLabels?cursor=${cursor}`
  for await (const message of openLabelSocket(url, {
    allowedPrivateHosts,
    signal,
    onOpen: () => onConnected(true),
  })) {
    const frame = readFrame(message)
    if (frame === undefined) {
      options.onLabels('malformed', 1)
      continue
    }
    const { op, t, body } = frame
    if (op === -1 && body['error'] === 'FutureCursor') {
      logger.error({ labeler, cursor }, 'the labeler counts anew; reading its labels from the beginning')
      // Its list alone tells which labels it has lost. Noted first, because the new position says nothing of that.
      await listing.ask()
      await store.rewind(labeler)
      return
    }
    if (op === -1)
      throw new LabelerAwayError(`it ended the stream: ${said(body['error'])} ${said(body['message'])}`)
    if (t === '#labels') await takeLabels(options, identity, body, { stale, nowMs })
    else if (t === '#info') {
      logger.warn({ labeler, cursor, info: said(body['name']) }, 'notice of the labeler')
      // Durable before later labels move the cursor.
      if (body['name'] === 'OutdatedCursor') await listing.ask()
    }
  }
}

/** What a labeler says, which may be anything, for a log line. */
function said(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, saidMax) : typeof value
}

async function takeLabels(
  options: LabelConsumerOptions,
  identity: Identity,
  body: Record<string, unknown>,
  { stale, nowMs }: Pick<Subscription, 'stale' | 'nowMs'>,
): Promise<void> {
  const { labeler, store, onLabels, logger } = options
  const { seq, labels } = body
  const key = identity.labelKey
  if (
    typeof seq !== 'number' ||
    !Number.isSafeInteger(seq) ||
    seq < 1 ||
    !Array.isArray(labels) ||
    key === undefined
  ) {
    onLabels('malformed', 1)
    return
  }
  // Its number is not looked at: after one that was far too high, all further messages would be passed over. Labels that are there
  // already stay one row.
  const read = await readLabels(labels, labeler, key)
  const wasReadFor = seq === stale?.seq
  const knownMicros = BigInt(Math.floor(identity.fetchedAt - refreshEveryMs)) * 1000n
  if (!wasReadFor && read.some((each) => each.result === 'bad-signature' && each.cts > knownMicros))
    throw new StaleKeyError(nowMs(), seq)
  const good = read.flatMap((each): Label[] => (each.result === 'label' ? [each.label] : []))
  await store.store(labeler, seq, good)
  const counts = new Map<LabelResult, number>()
  for (const { result } of read) {
    const counted = result === 'label' ? 'stored' : result
    counts.set(counted, (counts.get(counted) ?? 0) + 1)
  }
  for (const [result, count] of counts) {
    onLabels(result, count)
    if (result !== 'irrelevant' && result !== 'stored')
      logger.warn({ labeler, seq, result, count }, 'labels were refused')
  }
}

/** Undefined for what is no frame: it is passed over, and the position moves on with the next one. */
function readFrame(message: Uint8Array): Frame | undefined {
  try {
    return decodeFrame(message)
  } catch (error) {
    if (error instanceof FrameError) return undefined
    throw error
  }
}

function isPassing(error: unknown): boolean {
  return (
    error instanceof LabelerAwayError ||
    error instanceof LabelSocketError ||
    error instanceof IdentityError ||
    error instanceof FetchError
  )
}
