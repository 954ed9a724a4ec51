/**
 * The impact feed: the newest entries of the accounts that the viewer follows, and of those that trusted evaluators have
 * endorsed. Its `params` are read here (feed.md section 1), with the freedom that the lexicon cannot express:
 * `organizationQuality` may also be an object.
 */
import type { Lexicons } from '@atproto/lexicon'
import type { QualityRule } from '@tributary/index-store'
import { type Did, type EntryKind, entryKinds, isDid, qualityLabels } from '@tributary/protocol'
import { refusedValue, shapeFault } from '../request/refusal.ts'
import type { FeedAlgorithm, JsonObject, PageRules } from './feed-algorithm.ts'

const pageSizeMax = 50
const pageSizeDefault = 20
/** Different evaluators of one request; each adds the accounts that it endorsed. */
const evaluatorsMax = 64
const allKinds: ReadonlySet<string> = new Set(entryKinds)
const allLabels: ReadonlySet<string> = new Set(qualityLabels)

export const impactFeed: FeedAlgorithm = {
  feedId: 'org.impact.feed.defs#impactFeed',
  paramsType: 'org.impact.feed.defs#impactFeedParams',
  readParams(params, lexicons) {
    const quality = readQuality(lexicons, params['organizationQuality'])
    const viewerDid = params['viewerDid']
    return {
      published: quality ? { ...params, organizationQuality: quality.allowed } : params,
      viewerDid: isDid(viewerDid) ? viewerDid : undefined,
      rules: (limit) => readRules(params, quality, limit),
    }
  },
}

/** Both forms of the quality rule. A list means these labels and no unrated organization. */
function readQuality(lexicons: Lexicons, value: unknown): QualityRule | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    // Anything but a list of strings is refused by the input lexicon.
    return Array.isArray(value) ? { allowed: value as string[], includeUnrated: false } : undefined
  }
  const checked = lexicons.validate('org.impact.feed.defs#organizationQualityPolicy', value)
  if (!checked.success) throw shapeFault(checked.error, 'params/organizationQuality')
  return checked.value as QualityRule // validated just now
}

/** Checks the values of params in shape. Lists lose their duplicates before they are counted. Throws 422. */
function readRules(
  params: JsonObject,
  quality: QualityRule | undefined,
  limit: number = pageSizeDefault,
): PageRules {
  if (limit > pageSizeMax) throw refusedValue(`limit must be at most ${pageSizeMax}`)

  const named = (params['trustedEvaluators'] ?? []) as readonly Did[] // DIDs by the lexicon
  const evaluators = [...new Set(named)]
  if (evaluators.length > evaluatorsMax) {
    throw refusedValue(`params/trustedEvaluators must name at most ${evaluatorsMax} different accounts`)
  }

  for (const label of quality?.allowed ?? []) {
    if (!allLabels.has(label)) throw unknownValue('params/organizationQuality', label, qualityLabels)
  }

  const wanted = (params['kinds'] ?? []) as readonly string[] // strings by the lexicon
  const kinds = [...new Set(wanted)].map((kind) => {
    if (!isKind(kind)) throw unknownValue('params/kinds', kind, entryKinds)
    return kind
  })
  return {
    limit,
    evaluators,
    ...(quality ? { quality } : {}),
    ...(kinds.length > 0 && kinds.length < entryKinds.length ? { kinds } : {}),
  }
}

function isKind(kind: string): kind is EntryKind {
  return allKinds.has(kind)
}

function unknownValue(field: string, value: string, known: readonly string[]): Error {
  return refusedValue(`${field} holds ${JSON.stringify(value)}, which is none of ${known.join(', ')}`)
}
