import type { Lexicons } from '@atproto/lexicon'
import type { QualityRule } from '@tributary/index-store'
import type { Did, EntryKind } from '@tributary/protocol'

export type JsonObject = Readonly<Record<string, unknown>>

/**
 * One feed: what it takes as `params`, and which entries follow from them. Order, cursors, pages and what is shown of an
 * entry are the same for every feed. A feed is a file in this folder, a line in `registry.ts`, and its names in the lexicons
 * of both methods.
 */
export interface FeedAlgorithm {
  /** `feedId` of its requests. Its cursors are good for no other feed. */
  readonly feedId: string
  /** `$type` of its `params`. */
  readonly paramsType: string
  /** Reads `params` of that type. Throws 400 for a shape that the lexicon of the methods cannot refuse. */
  readonly readParams: (params: JsonObject, lexicons: Lexicons) => FeedParams
}

/** `params` of a request. What is read of them may be asked for when `published` has passed the lexicon. */
export interface FeedParams {
  /** In the form that the lexicon of the methods states. */
  readonly published: JsonObject
  readonly viewerDid: Did | undefined
  /** Checks the values, and says what a page holds. Throws 422. */
  readonly rules: (limit: number | undefined) => PageRules
}

/** Which entries a page may hold, after all rules. `kinds` is absent when every kind may appear. */
export interface PageRules {
  readonly limit: number
  readonly evaluators: readonly Did[]
  readonly quality?: QualityRule
  readonly kinds?: readonly EntryKind[]
}
