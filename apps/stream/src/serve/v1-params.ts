/**
 * What a reader of Jetstream v1 may ask for (segment-format.md 15), in the query and in the texts that it sends later.
 * Both follow the same rules, and a text replaces everything that was asked for before.
 */
import type { IncomingMessage } from 'node:http'
import { CloseReason } from '@tributary/fanout'
import { isDid, isNsid } from '@tributary/protocol'
import { XrpcError } from '@tributary/xrpc'
import type { Subscription } from '../replay/filter-group.ts'
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

const collectionsMax = 100
const repeatedCollectionsMax = 10_000
/** The longest NSID with a star. Nothing longer could match. */
const patternCharsMax = 319
/** How often DIDs are repeated is bounded by the size of the query and of a text, which is a megabyte. */
const didsMax = 10_000
const u32Max = 2 ** 32 - 1

/** @throws XrpcError 400 `InvalidRequest`. */
export function readV1Query(request: IncomingMessage): V1Query {
  const query = new URLSearchParams((request.url ?? '').split('?', 2)[1] ?? '')
  const encoding = String(request.headers['socket-encoding'] ?? '')
  const size = query.get('maxMessageSizeBytes') ?? ''
  return {
    filter: checkFilter({
      wantedCollections: query.getAll('wantedCollections'),
      wantedDids: query.getAll('wantedDids'),
      maxMessageSizeBytes: /^\d+$/.test(size) ? Number(size) : 0,
    }),
    cursor: readCursor(query.get('cursor') ?? ''),
    isCompressed: query.get('compress') === 'true' || encoding.includes('zstd'),
    requiresHello: query.get('requireHello') === 'true',
  }
}

/**
 * What a text of a reader asks for. Undefined when it is no `options_update`.
 * @throws CloseReason 1007 when the text is no JSON object, 1008 when it asks for what cannot be.
 */
export function readOptionsUpdate(text: string): V1Filter | undefined {
  const message = parseObject(text)
  if (message['type'] !== 'options_update') return undefined
  const payload = message['payload'] ?? {}
  if (!isObject(payload)) throw refusal('payload must be an object')
  try {
    return checkFilter({
      wantedCollections: textsOf(payload, 'wantedCollections'),
      wantedDids: textsOf(payload, 'wantedDids'),
      maxMessageSizeBytes: payload['maxMessageSizeBytes'],
    })
  } catch (error) {
    if (error instanceof XrpcError) throw refusal(error.message)
    throw error
  }
}

function checkFilter(wished: {
  wantedCollections: readonly string[]
  wantedDids: readonly string[]
  maxMessageSizeBytes: unknown
}): V1Filter {
  if (wished.wantedCollections.length > repeatedCollectionsMax)
    throw invalid(`wantedCollections may be given ${repeatedCollectionsMax} times at most`)
  const collections = [...new Set(wished.wantedCollections)]
  const dids = [...new Set(wished.wantedDids)]
  if (collections.length > collectionsMax)
    throw invalid(`wantedCollections may name ${collectionsMax} collections at most`)
  if (dids.length > didsMax) throw invalid(`wantedDids may name ${didsMax} DIDs at most`)
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

function parseObject(text: string): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new CloseReason(1007, 'InvalidRequest', 'The message is not JSON')
  }
  if (isObject(value)) return value
  throw new CloseReason(1007, 'InvalidRequest', 'The message is not a JSON object')
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A list of texts. A missing one is empty. */
function textsOf(payload: Record<string, unknown>, name: string): string[] {
  const value = payload[name] ?? []
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value
  throw refusal(`${name} must be a list of texts`)
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 40))
}

function invalid(message: string): XrpcError {
  return new XrpcError(400, 'InvalidRequest', message)
}

function refusal(message: string): CloseReason {
  return new CloseReason(1008, 'InvalidRequest', message)
}
