/**
 * One call of a feed method, from its bytes to its output. The order of the steps is part of the contract (feed.md
 * 1.1): it decides which of several faults is told, and which requests spend their token.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { jsonStringToLex, type Lexicons } from '@atproto/lexicon'
import { RecentMap } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { siteOf, XrpcError, parseJson } from '@tributary/xrpc'
import type { Authenticator } from '../auth/authenticate.ts'
import type { FeedAlgorithm } from '../feeds/feed-algorithm.ts'
import { readCursor } from '../request/cursor.ts'
import { badRequest } from '../request/refusal.ts'
import { readShape } from '../request/shape.ts'
import { type FeedMethod, feedMethods } from './feed-method.ts'
import type { FeedPage, PageReader } from './page.ts'

export interface FeedCallParts {
  readonly lexicons: Lexicons
  readonly feeds: readonly FeedAlgorithm[]
  readonly authenticate: Authenticator
  readonly readPage: PageReader
}

/** Entries that are remembered as fitting, for each method. */
const checked = { items: 2000, charsMax: 2000 }

/** The output of a call as JSON, checked against its lexicon. Throws XrpcError for a refusal; every other error is ours. */
export type FeedCall = (
  method: FeedMethod,
  body: Uint8Array,
  headers: IncomingHttpHeaders,
  clientAddress: string,
  /** Aborts when the caller has gone. */
  signal?: AbortSignal,
) => Promise<string>

export function createFeedCall({ lexicons, feeds, authenticate, readPage }: FeedCallParts): FeedCall {
  const checkOutput = createOutputCheck(lexicons)
  return async (method, bytes, headers, clientAddress, signal) => {
    const body = parseJson(bytes)
    const network = siteOf(clientAddress)
    const caller = await authenticate(headers.authorization, method, network)
    requireJson(headers['content-type'])
    const { feedId, limit, cursor, params } = readShape(lexicons, feeds, method, body)
    const viewer = params && bindViewer(params.viewerDid, caller)
    const feed = feeds.find((known) => known.feedId === feedId)
    if (feed === undefined) {
      const known = feeds.map((each) => each.feedId).join(' or ')
      throw new XrpcError(400, 'UnsupportedFeed', `feedId must be ${known}`)
    }
    if (viewer === undefined || params?.$type !== feed.paramsType)
      throw badRequest(`params must be an object whose $type is ${feed.paramsType}`)
    const rules = params.rules(limit)
    const after = cursor ? readCursor(cursor, feedId) : undefined

    const request = { feedId, viewer, ...rules, ...(after ? { after } : {}) }
    const page = await readPage(method, request, { network, ...(signal && { signal }) })
    checkOutput(method, page)
    return textOf(page)
  }
}

/**
 * Checks that a page fits the lexicon of its method, and throws if not. An entry that did fit still does, and new entries are
 * on the pages of many viewers, so that it is not looked at again for as long as it is remembered.
 */
function createOutputCheck(lexicons: Lexicons): (method: FeedMethod, page: FeedPage) => void {
  const fitting = new Map(feedMethods.map((method) => [method, new RecentMap<string, true>(checked.items)]))
  return (method, page) => {
    const known = fitting.get(method)
    const others = page.feed.filter((text) => known?.get(text) === undefined)
    lexicons.assertValidXrpcOutput(method, { ...page, feed: others.map((text) => jsonStringToLex(text)) })
    for (const text of others) if (text.length <= checked.charsMax) known?.set(text, true)
  }
}

function textOf({ feed, cursor }: FeedPage): string {
  const next = cursor === undefined ? '' : `,"cursor":${JSON.stringify(cursor)}`
  return `{"feed":[${feed.join(',')}]${next}}`
}

function requireJson(contentType: string | undefined): void {
  const mediaType = contentType?.split(';', 1)[0]?.trim().toLowerCase()
  if (mediaType !== 'application/json')
    throw badRequest('the request needs the header Content-Type: application/json')
}

/** The viewer is the caller, or whom an anonymous request names (feed.md 3.4). */
function bindViewer(named: Did | undefined, caller: Did | undefined): Did {
  const viewer = caller ?? named
  if (viewer === undefined) throw badRequest('params/viewerDid is required in a request without a token')
  if (named !== undefined && named !== viewer) {
    throw badRequest('params/viewerDid must be the issuer of the token, or be left out')
  }
  return viewer
}
