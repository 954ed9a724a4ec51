/**
 * What a feed request may look like (feed.md section 1): the published input lexicon. `params` of a feed that is not known
 * are not looked into. Everything refused here is a shape fault (400); values that only one feed refuses are in the file of
 * that feed.
 */
import { ValidationError, type Lexicons } from '@atproto/lexicon'
import type { FeedAlgorithm, FeedParams, JsonObject } from '../feeds/feed-algorithm.ts'
import { badRequest, shapeFault } from './refusal.ts'

/** A request in shape. */
export interface ShapedRequest {
  readonly feedId: string
  readonly limit?: number
  readonly cursor?: string
  /** Absent when `params` is missing or belongs to a feed that is not known. */
  readonly params?: FeedParams & { readonly $type: string }
}

/** Reads the body of either feed method, which have the same input. Throws 400 naming the first field at fault. */
export function readShape(
  lexicons: Lexicons,
  feeds: readonly FeedAlgorithm[],
  method: string,
  body: unknown,
): ShapedRequest {
  if (!isObject(body)) throw badRequest('the body must be a JSON object')
  const { params: given, ...rest } = body
  const type = isObject(given) ? given['$type'] : undefined
  const owner = feeds.find(({ paramsType }) => paramsType === type)
  const params = owner && isObject(given) ? owner.readParams(given, lexicons) : undefined
  if (params !== undefined) checkInput(lexicons, method, { ...rest, params: params.published })
  else checkInput(lexicons, method, typeof type === 'string' ? rest : body)
  return {
    feedId: body['feedId'] as string, // required by the lexicon
    ...(body['limit'] === undefined ? {} : { limit: body['limit'] as number }), // an integer by the lexicon
    ...(body['cursor'] === undefined ? {} : { cursor: body['cursor'] as string }), // a string by the lexicon
    ...(owner && params ? { params: { ...params, $type: owner.paramsType } } : {}),
  }
}

function checkInput(lexicons: Lexicons, method: string, body: JsonObject): void {
  try {
    lexicons.assertValidXrpcInput(method, body)
  } catch (error) {
    if (error instanceof ValidationError) throw shapeFault(error, '')
    throw error
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
