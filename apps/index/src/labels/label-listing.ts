/**
 * Reads the labels of one labeler by `com.atproto.label.queryLabels`, from the first to the last, when its stream no longer
 * holds what we have missed.
 *
 * That a listing is due is durable until one was read to its end, so a kill only repeats it. A list may be a part that looks
 * whole, so a label is taken back only when two lists, one after the other, do not have it. A labeler that fails, or goes beyond
 * a bound, is asked again after growing waits; its stream is followed meanwhile, and its labels so far stay in force.
 */
import { toBytes } from '@atcute/cbor'
import {
  FetchError,
  IdentityError,
  type Identity,
  type IdentityResolver,
  safeFetch,
} from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import { backoffMs, pause } from '../pause.ts'
import { labelKey, type LabelStore } from './label-store.ts'
import { type LabelResult, readLabel, type ReadLabel } from './read-label.ts'

/** What one listing may cost. */
export interface ListingBounds {
  /** Answers, of at most 250 labels each. */
  pagesMax: number
  /** Bytes of an answer; after one that has more, fewer labels are asked for. They are read in one turn of the event loop. */
  pageBytesMax: number
  /** No answer is asked for after so long. */
  msMax: number
  /** The wait before the next answer. */
  pauseMs: number
  /** The wait before the next listing: after one that failed, and after one that was read to its end. */
  retry: { firstMs: number; maxMs: number }
  againMs: number
}

const defaultBounds: ListingBounds = {
  pagesMax: 4000,
  pageBytesMax: 256_000,
  msMax: 600_000,
  pauseMs: 50,
  retry: { firstMs: 60_000, maxMs: 21_600_000 },
  againMs: 600_000,
}
/** What the lexicon allows. */
const pageLabelsMax = 250
const cursorCharsMax = 512
const answerMsMax = 20_000
/** Labels are checked against a DID document that is no older. */
const documentAgeMsMax = 60_000
/** Something is looked at again after so long, though nobody has asked. */
const idleMs = 3_600_000
/** The signed fields of a label. Others, which some labelers add to their answers, are not signed. */
const labelFields = ['ver', 'src', 'uri', 'cid', 'val', 'neg', 'cts', 'exp'] as const

export interface LabelListingOptions {
  labeler: Did
  store: LabelStore
  resolver: IdentityResolver
  allowedPrivateHosts: readonly string[]
  logger: Logger
  onLabels: (result: LabelResult, count: number) => void
  /** Told while labels are missing that must be read from the labeler's list. */
  onListingDue: (isDue: boolean) => void
  /** Default: those of this file. */
  listingBounds?: Partial<ListingBounds>
  nowMs?: () => number
}

interface Page {
  readonly labels: readonly unknown[]
  readonly cursor: string | undefined
}

/** The listing is worth another attempt. */
class LabelListingError extends Error {
  override readonly name = 'LabelListingError'
}

export class LabelListing {
  readonly #options: LabelListingOptions
  readonly #bounds: ListingBounds
  /** Labels in force that the first list did not have, until there is a second one. */
  #unlisted: ReadonlySet<string> | undefined
  #woken = new AbortController()
  /** How often a listing was asked for. */
  #asks = 0

  constructor(options: LabelListingOptions) {
    this.#options = options
    this.#bounds = { ...defaultBounds, ...options.listingBounds }
  }

  /** Asks for a listing that begins after this moment. */
  async ask(): Promise<void> {
    const { labeler, store } = this.#options
    this.#asks++
    await store.setListingDue(labeler, true)
    this.#woken.abort()
  }

  /** Works until the signal aborts. Rejects with faults of the database only. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      await this.#run(signal)
    } finally {
      this.#options.onListingDue(false)
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { labeler, store, onListingDue, logger } = this.#options
    for (let failures = 0; !signal.aborted;) {
      this.#woken = new AbortController()
      const isDue = await store.isListingDue(labeler)
      onListingDue(isDue)
      if (!isDue) {
        await pause(idleMs, signal, this.#woken.signal)
        continue
      }
      try {
        const asks = this.#asks
        const read = await this.#list(signal)
        if (read === undefined) return
        failures = 0
        // What was missed meanwhile may be on pages that were read before.
        if (read.doubted === 0 && asks === this.#asks) {
          await store.setListingDue(labeler, false)
          onListingDue(false)
        }
        logger.info(
          { labeler, ...read },
          'the labels that the stream of the labeler no longer holds were read',
        )
        await pause(this.#bounds.againMs, signal)
      } catch (error) {
        if (!isPassing(error)) throw error
        logger.error({ labeler, err: error }, 'labels are missing: the list of the labeler cannot be read')
        await pause(backoffMs(failures++, this.#bounds.retry), signal)
      }
    }
  }

  /** Undefined when the signal aborts. @throws LabelListingError, FetchError, IdentityError */
  async #list(
    signal: AbortSignal,
  ): Promise<{ pages: number; takenBack: number; doubted: number } | undefined> {
    const { labeler, store, resolver } = this.#options
    const { pagesMax, msMax, pauseMs } = this.#bounds
    const nowMs = this.#options.nowMs ?? Date.now
    const endMs = performance.now() + msMax
    // Only labels that are there now: later ones come from the stream, and may not be in the answers.
    const unlisted = await store.inForce(labeler)
    const hadLabels = unlisted.size > 0
    let hasLabels = false
    const seen = new Set<string>()
    let cursor: string | undefined
    let limit = pageLabelsMax
    for (let pages = 1; !signal.aborted; pages++) {
      if (pages > pagesMax) throw new LabelListingError(`it has more than ${pagesMax} pages`)
      if (performance.now() >= endMs) throw new LabelListingError(`it takes more than ${msMax} ms`)
      const identity = await resolver.resolve(labeler, { refreshAfter: nowMs() - documentAgeMsMax })
      const page = await this.#page(identity, { cursor, limit }, signal)
      if (page === 'too-large') {
        limit = Math.floor(limit / 2)
        if (limit === 0) throw new LabelListingError('its answer with one label is too large')
        await pause(pauseMs, signal)
        continue
      }
      if (page.labels.length > 0) hasLabels = true
      for (const key of await this.#take(identity, page.labels)) unlisted.delete(key)
      // Some labelers give a cursor with their last answer, too.
      if (page.cursor === undefined || page.labels.length === 0) {
        if (hadLabels && !hasLabels) throw new LabelListingError('it lists nothing, though it had labels')
        const before = this.#unlisted
        if (before === undefined && unlisted.size > 0) {
          this.#unlisted = new Set(unlisted.keys())
          return { pages, takenBack: 0, doubted: unlisted.size }
        }
        this.#unlisted = undefined
        const gone = [...unlisted].filter(([key]) => before?.has(key)).map(([, label]) => label)
        await store.takeBack(gone)
        return { pages, takenBack: gone.length, doubted: 0 }
      }
      if (seen.has(page.cursor)) throw new LabelListingError('it gives the same cursor again')
      seen.add(page.cursor)
      cursor = page.cursor
      await pause(pauseMs, signal)
    }
    return undefined
  }

  async #page(
    { labelerUrl }: Identity,
    { cursor, limit }: { cursor: string | undefined; limit: number },
    signal: AbortSignal,
  ): Promise<Page | 'too-large'> {
    if (labelerUrl === undefined) throw new LabelListingError('its DID document names no labeler service')
    const { labeler, allowedPrivateHosts } = this.#options
    const query = new URLSearchParams({ uriPatterns: '*', sources: labeler, limit: String(limit) })
    if (cursor !== undefined) query.set('cursor', cursor)
    const url = `${labelerUrl}/xrpc/com.atproto.label.queryLabels?${query.toString()}`
    const bytesMax = this.#bounds.pageBytesMax
    try {
      const options = { allowedPrivateHosts, bytesMax, timeoutMs: answerMsMax, signal }
      const { status, body } = await safeFetch(url, options)
      if (status !== 200) throw new LabelListingError(`it answers with status ${status}`)
      return readAnswer(body)
    } catch (error) {
      if (error instanceof FetchError && error.isTooLarge) return 'too-large'
      throw error
    }
  }

  /** Stores what is signed. Returns the keys of all labels that can be read. */
  async #take(identity: Identity, values: readonly unknown[]): Promise<string[]> {
    const { labeler, store, onLabels } = this.#options
    const key = identity.labelKey
    if (key === undefined) throw new LabelListingError('its DID document has no usable #atproto_label key')
    const labels = values.map(labelOf)
    const read = labels.map((label): ReadLabel => readLabel(label, labeler, key))
    const good = read.flatMap((each) => (each.result === 'label' ? [each.label] : []))
    await store.add(good)
    for (const { result } of read) onLabels(result === 'label' ? 'stored' : result, 1)
    return labels.flatMap((label) => {
      const { uri, cid, val } = label ?? {}
      return typeof uri === 'string' && typeof val === 'string' ? [labelKey(uri, cid, val)] : []
    })
  }
}

/** @throws LabelListingError */
function readAnswer(body: Buffer): Page {
  let answer: unknown
  try {
    answer = JSON.parse(body.toString())
  } catch (cause) {
    throw new LabelListingError('its answer is not JSON', { cause })
  }
  const field = (name: string): unknown =>
    typeof answer === 'object' && answer !== null ? Reflect.get(answer, name) : undefined
  const [labels, cursor] = [field('labels'), field('cursor')]
  if (!Array.isArray(labels) || labels.length > pageLabelsMax)
    throw new LabelListingError('its answer has no list of labels, or too many')
  if (cursor === undefined || cursor === null || cursor === '') return { labels, cursor: undefined }
  if (typeof cursor !== 'string' || cursor.length > cursorCharsMax)
    throw new LabelListingError('its cursor is no text, or too long')
  return { labels, cursor }
}

/** A label as its stream would give it: the signed fields with plain values, and the signature as bytes. */
function labelOf(value: unknown): Record<string, unknown> | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const label: Record<string, unknown> = {}
  for (const name of labelFields) {
    const field: unknown = Reflect.get(value, name)
    if (typeof field === 'string' || typeof field === 'boolean' || Number.isSafeInteger(field))
      label[name] = field
  }
  const sig: unknown = Reflect.get(value, 'sig')
  const bytes: unknown = typeof sig === 'object' && sig !== null ? Reflect.get(sig, '$bytes') : undefined
  if (typeof bytes === 'string') label['sig'] = toBytes(Buffer.from(bytes, 'base64'))
  return label
}

function isPassing(error: unknown): boolean {
  return error instanceof LabelListingError || error instanceof IdentityError || error instanceof FetchError
}
