/**
 * Follows one trusted labeler for ever: finds its address and key in its DID document, subscribes behind the durable
 * cursor, checks every signature, stores labels and position in one transaction. A labeler that is away, or sends what
 * cannot be read, is tried again with growing waits; its labels so far stay in force. What its stream no longer holds is read
 * in `label-listing.ts`.
 */
import { FetchError, IdentityError, type Identity } from '@tributary/identity'
import { decodeFrame, type Frame, FrameError } from '@tributary/protocol'
import { backoffMs, pause } from '../pause.ts'
import { LabelListing, type LabelListingOptions } from './label-listing.ts'
import { LabelSocketError, openLabelSocket } from './label-socket.ts'
import { type Label, readLabel } from './read-label.ts'

const retry = { firstMs: 1_000, maxMs: 60_000 }
/** A signature that fails against a document younger than this is refused; otherwise the document is read again first. */
const documentAgeMsMax = 60_000

export interface LabelConsumerOptions extends LabelListingOptions {
  onConnected: (isConnected: boolean) => void
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
  let refreshAfter = 0
  for (let failures = 0; !signal.aborted; failures++) {
    const before = await store.cursor(labeler)
    try {
      const identity = await resolver.resolve(labeler, { refreshAfter })
      await subscribe(options, identity, listing, signal, nowMs)
    } catch (error) {
      if (!isPassing(error)) throw error
      if (error instanceof StaleKeyError) refreshAfter = error.at
      logger.warn({ labeler, err: error, cursor: await store.cursor(labeler) }, 'the labeler is away')
    } finally {
      onConnected(false)
    }
    if ((await store.cursor(labeler)) !== before) failures = 0
    await pause(backoffMs(failures, retry), signal)
  }
}

/** A signature failed against a document that may be out of date. */
class StaleKeyError extends LabelerAwayError {
  readonly at: number
  constructor(at: number) {
    super('a signature does not fit the key that was known; reading the DID document again')
    this.at = at
  }
}

async function subscribe(
  options: LabelConsumerOptions,
  identity: Identity,
  listing: LabelListing,
  signal: AbortSignal,
  nowMs: () => number,
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
      await store.rewind(labeler)
      return
    }
    if (op === -1)
      throw new LabelerAwayError(`it ended the stream: ${said(body['error'])} ${said(body['message'])}`)
    if (t === '#labels') await takeLabels(options, identity, body, nowMs())
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
  now: number,
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
  if (seq <= (await store.cursor(labeler))) return
  const read = labels.map((label: unknown) => readLabel(label, labeler, key))
  if (read.some(({ result }) => result === 'bad-signature') && now - identity.fetchedAt > documentAgeMsMax) {
    throw new StaleKeyError(now)
  }
  const good = read.flatMap((each): Label[] => (each.result === 'label' ? [each.label] : []))
  await store.store(labeler, seq, good)
  if (good.length > 0) onLabels('stored', good.length)
  for (const { result } of read) {
    if (result === 'label') continue
    onLabels(result, 1)
    if (result !== 'irrelevant') logger.warn({ labeler, seq, result }, 'a label was refused')
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
