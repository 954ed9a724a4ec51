import type { IncomingMessage } from 'node:http'
import { type EventKind, isCollectionPattern } from '@tributary/protocol'
import { XrpcError } from '@tributary/xrpc'
import type { Subscription } from '../delivery/filter-group.ts'

/** The parameters of `subscribeEvents`, as its lexicon checked them. */
export interface SubscribeParams {
  cursor?: number
  kinds?: EventKind[]
  collections?: string[]
  dids?: string[]
  maxMessageSizeBytes?: number
  zstdDictionary?: number
  progress?: boolean
}

/** Names of Jetstream v1, refused by name so that a v1 client is told rather than given what it did not ask for. */
const oldName = /[?&](wantedDids|wantedCollections|requireHello)(?:[=&]|$)/
const compress = /[?&]compress=true(?:&|$)/

/**
 * What a subscriber wants, after the checks that a lexicon cannot express (segment-format.md 14).
 * @param dictionaryId the one dictionary that messages can be compressed with.
 * @throws XrpcError 400 `InvalidRequest` or `UnknownZstdDictionary`.
 */
export function checkSubscription(
  params: SubscribeParams,
  request: IncomingMessage,
  dictionaryId: number,
): Subscription & { dids: string[]; collections: string[] } {
  const { url = '' } = request
  const [, name] = oldName.exec(url) ?? []
  if (name !== undefined) throw invalid(`${name} belongs to Jetstream v1; use kinds, collections and dids`)
  const encoding = String(request.headers['socket-encoding'] ?? '')
  if (compress.test(url) || encoding.includes('zstd')) {
    throw invalid('this method compresses only with zstdDictionary')
  }
  const { zstdDictionary } = params
  if (zstdDictionary !== undefined && zstdDictionary !== dictionaryId) {
    const advice = `This server has dictionary ${dictionaryId}; get it with getZstdDictionary, or connect without zstdDictionary`
    throw new XrpcError(400, 'UnknownZstdDictionary', advice)
  }
  if (params.cursor !== undefined && params.cursor < 0) throw invalid('cursor must not be negative')
  const { kinds, collections, dids } = checkFilter(params)
  return {
    kinds,
    collections: collections.map(ownText),
    dids: dids.map(ownText),
    maxMessageSizeBytes: params.maxMessageSizeBytes ?? 0,
  }
}

/** The same text in memory of its own. As a part of the request it would keep all of the request, up to a megabyte. */
export function ownText(text: string): string {
  return Buffer.from(text).toString()
}

/**
 * The rules on filters that the live stream and the archive share.
 * @throws XrpcError 400 `InvalidRequest`.
 */
export function checkFilter({
  kinds = [],
  collections = [],
  dids = [],
}: Partial<Pick<SubscribeParams, 'kinds' | 'collections' | 'dids'>>): {
  kinds: EventKind[]
  collections: string[]
  dids: string[]
} {
  for (const pattern of collections) {
    if (!isCollectionPattern(pattern)) {
      throw invalid(
        `collections must be NSIDs or end in .*, which ${JSON.stringify(pattern.slice(0, 100))} is not`,
      )
    }
  }
  if (collections.length > 0 && kinds.length > 0 && !kinds.includes('commit')) {
    throw invalid('collections apply to commits; add the kind commit, or leave collections out')
  }
  return { kinds, collections, dids }
}

function invalid(message: string): XrpcError {
  return new XrpcError(400, 'InvalidRequest', message)
}
