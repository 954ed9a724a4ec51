/**
 * What a reader of Jetstream v1 may ask for (segment-format.md 15), in the query and in the texts that it sends later.
 * Both follow the same rules, and a text replaces everything that was asked for before.
 */
import type { IncomingMessage } from 'node:http'
import { isDid, isNsid } from '@tributary/protocol'
import { XrpcError } from '@tributary/xrpc'
import type { Subscription } from '../delivery/filter-group.ts'
import { ownText } from './subscription-params.ts'

/** Which messages a reader wants. */
export type V1Filter = Subscription & { dids: string[] }

export interface V1Query {
  filter: V1Filter
  cursor: number | undefined
  isCompressed: boolean
  /** Nothing is sent before the reader has sent its first `options_update`. */
  requiresHello: boolean
}

/** Different texts of each list. How often DIDs are repeated is bounded by the size of a query and of a text. */
export const v1FilterMax = { wantedCollections: 100, wantedDids: 10_000 } as const
const repeatedCollectionsMax = 10_000
/** The longest NSID with a star. Nothing longer could match. */
const patternCharsMax = 319
const u32Max = 2 ** 32 - 1

/** @throws XrpcError 400 `InvalidRequest`. */
export function readV1Query(request: IncomingMessage): V1Query {
  const query = new URLSearchParams((request.url ?? '').split('?', 2)[1] ?? '')
  const encoding = String(request.headers['socket-encoding'] ?? '')
  const size = query.get('maxMessageSizeBytes') ?? ''
  return {
    filter: checkV1Filter({
      wantedCollections: new RepeatedTexts(v1FilterMax.wantedCollections, query.getAll('wantedCollections')),
      wantedDids: new RepeatedTexts(v1FilterMax.wantedDids, query.getAll('wantedDids')),
      maxMessageSizeBytes: /^\d+$/.test(size) ? Number(size) : 0,
    }),
    cursor: readCursor(query.get('cursor') ?? ''),
    isCompressed: query.get('compress') === 'true' || encoding.includes('zstd'),
    requiresHello: query.get('requireHello') === 'true',
  }
}

/** Different texts in the order in which they first came, and how many there were with repeats. */
export class RepeatedTexts {
  readonly #max: number
  readonly #texts = new Set<string>()
  count = 0

  /** @param max texts that may be different. One more is kept, so that it shows. */
  constructor(max: number, texts: readonly string[] = []) {
    this.#max = max
    for (const text of texts) this.add(text)
  }

  add(text: string): void {
    this.count++
    if (this.#texts.size <= this.#max) this.#texts.add(text)
  }

  get different(): string[] {
    return [...this.#texts]
  }
}

/** @throws XrpcError 400 `InvalidRequest`. */
export function checkV1Filter(wished: {
  wantedCollections: RepeatedTexts
  wantedDids: RepeatedTexts
  maxMessageSizeBytes: unknown
}): V1Filter {
  if (wished.wantedCollections.count > repeatedCollectionsMax)
    throw invalid(`wantedCollections may be given ${repeatedCollectionsMax} times at most`)
  const collections = wished.wantedCollections.different
  const dids = wished.wantedDids.different
  if (collections.length > v1FilterMax.wantedCollections)
    throw invalid(`wantedCollections may name ${v1FilterMax.wantedCollections} collections at most`)
  if (dids.length > v1FilterMax.wantedDids)
    throw invalid(`wantedDids may name ${v1FilterMax.wantedDids} DIDs at most`)
  const badPattern = collections.find((pattern) => !isPattern(pattern))
  if (badPattern !== undefined)
    throw invalid(`wantedCollections must be NSIDs or end in .*, which ${shown(badPattern)} is not`)
  const badDid = dids.find((did) => !isDid(did))
  if (badDid !== undefined) throw invalid(`wantedDids must be DIDs, which ${shown(badDid)} is not`)
  const size = wished.maxMessageSizeBytes
  return {
    // Version 1 has no others.
    kinds: ['commit', 'identity', 'account'],
    collections: collections.map(ownText),
    dids: dids.map(ownText),
    maxMessageSizeBytes:
      typeof size === 'number' && Number.isInteger(size) && size >= 0 && size <= u32Max ? size : 0,
  }
}

/** What comes before the star is not checked: a pattern may match nothing. */
function isPattern(text: string): boolean {
  return text.endsWith('.*') ? text.length <= patternCharsMax : isNsid(text)
}

function readCursor(text: string): number | undefined {
  if (text === '') return undefined
  if (/^\d{1,19}$/.test(text)) return Number(text)
  throw invalid(`cursor must be a seq or microseconds since 1970, which ${shown(text)} is not`)
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 40))
}

function invalid(message: string): XrpcError {
  return new XrpcError(400, 'InvalidRequest', message)
}
