/**
 * What a feed request may look like (feed.md section 1): the published input lexicon, with the two freedoms that
 * it cannot express. `organizationQuality` may also be an object, and `params` of another feed are not looked into.
 * Everything refused here is a shape fault (400); values that only this feed refuses are in rules.ts.
 */
import { ValidationError, type Lexicons } from '@atproto/lexicon'
import type { QualityRule } from '@tributary/index-store'
import { isDid, type Did } from '@tributary/protocol'
import { badRequest } from './refusal.ts'

export const impactFeedId = 'org.impact.feed.defs#impactFeed'
export const impactParamsType = 'org.impact.feed.defs#impactFeedParams'

/** `params` of the impact feed, in shape. Lists may still hold duplicates and values that the feed does not take. */
export interface ImpactParams {
  readonly viewerDid?: Did
  readonly trustedEvaluators: readonly Did[]
  readonly organizationQuality?: QualityRule
  readonly kinds: readonly string[]
}

/** A request in shape. `impact` is absent when `params` is missing or belongs to another feed. */
export interface ShapedRequest {
  readonly feedId: string
  readonly limit?: number
  readonly cursor?: string
  readonly impact?: ImpactParams
}

type JsonObject = Readonly<Record<string, unknown>>

/** Reads the body of either feed method, which have the same input. Throws 400 naming the first field at fault. */
export function readShape(lexicons: Lexicons, method: string, body: unknown): ShapedRequest {
  if (!isObject(body)) throw badRequest('the body must be a JSON object')
  const params = body['params']
  const isImpact = isObject(params) && params['$type'] === impactParamsType
  const quality = isImpact ? readQuality(lexicons, params['organizationQuality']) : undefined
  checkInput(lexicons, method, inPublishedForm(body, isImpact, quality))
  return {
    feedId: body['feedId'] as string, // required by the lexicon
    ...(body['limit'] === undefined ? {} : { limit: body['limit'] as number }), // an integer by the lexicon
    ...(body['cursor'] === undefined ? {} : { cursor: body['cursor'] as string }), // a string by the lexicon
    ...(isImpact ? { impact: impactParams(params, quality) } : {}),
  }
}

function impactParams(params: JsonObject, organizationQuality: QualityRule | undefined): ImpactParams {
  const viewerDid = params['viewerDid']
  return {
    ...(isDid(viewerDid) ? { viewerDid } : {}),
    trustedEvaluators: (params['trustedEvaluators'] ?? []) as readonly Did[], // DIDs by the lexicon
    ...(organizationQuality ? { organizationQuality } : {}),
    kinds: (params['kinds'] ?? []) as readonly string[], // strings by the lexicon
  }
}

/** Both forms of the quality rule. A list means these labels and no unrated organization. */
function readQuality(lexicons: Lexicons, value: unknown): QualityRule | undefined {
  if (!isObject(value)) {
    // Anything but a list of strings is refused by the input lexicon.
    return Array.isArray(value) ? { allowed: value as string[], includeUnrated: false } : undefined
  }
  const checked = lexicons.validate('org.impact.feed.defs#organizationQualityPolicy', value)
  if (!checked.success) throw shapeFault(checked.error, 'params/organizationQuality')
  return checked.value as QualityRule // validated just now
}

/** The body with the array form of the quality rule and without `params` of another feed. */
function inPublishedForm(body: JsonObject, isImpact: boolean, quality: QualityRule | undefined): JsonObject {
  const { params, ...rest } = body
  if (!isImpact) return isObject(params) && typeof params['$type'] === 'string' ? rest : body
  return quality
    ? { ...rest, params: { ...(params as JsonObject), organizationQuality: quality.allowed } }
    : body
}

function checkInput(lexicons: Lexicons, method: string, body: JsonObject): void {
  try {
    lexicons.assertValidXrpcInput(method, body)
  } catch (error) {
    if (error instanceof ValidationError) throw shapeFault(error, '')
    throw error
  }
}

/** The library's message begins with the path of the field. `root` is what the path starts from, the body if empty. */
function shapeFault(error: ValidationError, root: string): Error {
  const message = error.message.replace(/^(?:Input|Object)\//, root === '' ? '' : `${root}/`)
  return badRequest(message.replace(/^(?:Input|Object)/, root || 'the body'))
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
