import { hash } from 'node:crypto'
import {
  type CatchUp,
  type CatchUpSource,
  type Fanout,
  type FanoutGroup,
  frameMessage,
} from '@tributary/fanout'
import { compileFilterBesidesDid, type EventFilter } from '@tributary/protocol'
import type { FilterIndex, Indexed } from './filter-index.ts'
import type { FrameRun, Wants } from './frame-run.ts'
import type { LiveFrames } from './live-frames.ts'
import { renderError } from './render.ts'
import { ownRendition, renderedAs, type Rendition } from './rendition.ts'

/** What a subscriber asked for, checked. */
export interface Subscription extends EventFilter {
  /** Messages with more bytes of JSON are left out; 0 leaves out none. */
  maxMessageSizeBytes: number
  /** How messages are written. Default: as ours. */
  rendition?: Rendition
}

/** Reads on for a group whose subscriber is behind. */
export type ReadBehind = (
  wants: Wants,
  afterSeq: number,
  maxBytes: number,
  rendition: Rendition,
) => CatchUp | Promise<CatchUp>

/** A group needs this of the `Delivery` that it belongs to. */
interface GroupPlace {
  fanout: Fanout
  /** Has the group for as long as the group has members. */
  index: Pick<FilterIndex<FilterGroup>, 'wantsDid'>
  headSeq: () => number
  read: ReadBehind
}

/** The subscribers with one filter: matches rows for all of them at once. */
export class FilterGroup implements Indexed, CatchUpSource {
  readonly key: string
  readonly filter: EventFilter
  readonly matchesBesidesDid: Indexed['matchesBesidesDid']
  readonly members: FanoutGroup
  readonly #place: GroupPlace
  readonly #wantsAll: boolean
  readonly #rendition: Rendition
  readonly #maxMessageSizeBytes: number
  /** Rows of the run being published: the first one, and all when there are more. Most runs have one row. */
  #first = -1
  #wanted: number[] | undefined

  constructor(subscription: Subscription, place: GroupPlace) {
    this.key = subscriptionKey(subscription)
    this.filter = subscription
    this.matchesBesidesDid = compileFilterBesidesDid(subscription)
    this.#maxMessageSizeBytes = subscription.maxMessageSizeBytes
    this.#rendition = subscription.rendition ?? ownRendition
    this.#wantsAll =
      !subscription.kinds?.length &&
      !subscription.collections?.length &&
      !subscription.dids?.length &&
      subscription.maxMessageSizeBytes === 0
    this.#place = place
    this.members = place.fanout.group(this)
  }

  headSeq(): number {
    return this.#place.headSeq()
  }

  read(afterSeq: number, maxBytes: number): CatchUp | Promise<CatchUp> {
    return this.#place.read(this.#wants, afterSeq, maxBytes, this.#rendition)
  }

  errorFrame(error: string, message: string): Uint8Array {
    return this.#rendition.frame(frameMessage('text', Buffer.from(renderError(error, message))))
  }

  /** Notes that row `i` of the run being published is wanted. True for the first row of the run. */
  want(i: number): boolean {
    if (this.#first === -1) {
      this.#first = i
      return true
    }
    const wanted = (this.#wanted ??= [this.#first])
    if (wanted[wanted.length - 1] !== i) wanted.push(i)
    return false
  }

  /** Hands the wanted rows of a run to the live members. */
  publish(live: LiveFrames): void {
    const wanted = this.#wanted ?? live.only(this.#first)
    this.#first = -1
    this.#wanted = undefined
    const { run } = live
    if (this.#wantsAll && wanted.length === run.count && this.#rendition === ownRendition) {
      this.members.publish([run.frames], run.lastSeq)
      return
    }
    const rendered = renderedAs(run, this.#rendition)
    const fitting = this.#maxMessageSizeBytes === 0 ? wanted : wanted.filter((i) => this.#fits(rendered, i))
    const frames = rendered === run ? live.framesOf(fitting) : shownFrames(rendered, fitting)
    if (frames.length > 0) this.members.publish(frames, run.lastSeq)
  }

  readonly #wants: Wants = (run: FrameRun, i: number) => {
    if (this.#wantsAll) return true
    return (
      this.#place.index.wantsDid(this, run.didAt(i)) &&
      this.matchesBesidesDid({ kind: run.kindAt(i), collection: run.collectionAt(i) }) &&
      (this.#maxMessageSizeBytes === 0 || this.#fits(run, i))
    )
  }

  #fits(run: FrameRun, i: number): boolean {
    return run.messageBytesAt(i) <= this.#maxMessageSizeBytes
  }
}

/** The messages of rows that have one. */
function shownFrames(run: FrameRun, rows: readonly number[]): Uint8Array[] {
  return rows.map((i) => run.frameAt(i)).filter(({ length }) => length > 0)
}

/** The same text for all subscriptions that want the same messages. */
export function subscriptionKey(subscription: Subscription): string {
  const { kinds, collections, dids, maxMessageSizeBytes, rendition = ownRendition } = subscription
  const sorted = [kinds, collections, dids].map((values) => [...new Set<string>(values)].toSorted())
  return hash('sha256', JSON.stringify([...sorted, maxMessageSizeBytes, rendition.name]))
}
