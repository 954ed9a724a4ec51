/** What the impact feed takes of a well-formed request. Everything refused here is a value of the right shape (422). */
import { entryKinds, qualityLabels, type EntryKind, type QualityRule } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { refusedValue } from './refusal.ts'
import type { ShapedRequest } from './shape.ts'

const pageSizeMax = 50
const pageSizeDefault = 20
/** Different evaluators of one request; each adds the accounts that it endorsed. */
const evaluatorsMax = 64
const allKinds: ReadonlySet<string> = new Set(entryKinds)
const allLabels: ReadonlySet<string> = new Set(qualityLabels)

/** Which entries a page may hold, after all rules. `kinds` is absent when every kind may appear. */
export interface PageRules {
  readonly limit: number
  readonly evaluators: readonly Did[]
  readonly quality?: QualityRule
  readonly kinds?: readonly EntryKind[]
}

/** Checks the values of a request in shape. Lists lose their duplicates before they are counted. Throws 422. */
export function readRules(request: ShapedRequest): PageRules {
  const { limit = pageSizeDefault, impact } = request
  if (limit > pageSizeMax) throw refusedValue(`limit must be at most ${pageSizeMax}`)

  const evaluators = [...new Set(impact?.trustedEvaluators)]
  if (evaluators.length > evaluatorsMax) {
    throw refusedValue(`params/trustedEvaluators must name at most ${evaluatorsMax} different accounts`)
  }

  const quality = impact?.organizationQuality
  for (const label of quality?.allowed ?? []) {
    if (!allLabels.has(label)) throw unknownValue('params/organizationQuality', label, qualityLabels)
  }

  const kinds = [...new Set(impact?.kinds)].map((kind) => {
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
