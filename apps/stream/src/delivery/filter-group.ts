import { hash } from 'node:crypto'
import { type CatchUp, type CatchUpSource, type Fanout, type FanoutGroup, frameText } from '@tributary/fanout'
import { compileFilterBesidesDid, type EventFilter } from '@tributary/protocol'
import type { FilterIndex, Indexed } from './filter-index.ts'
import type { FrameRun, Wants } from './frame-run.ts'
import type { LiveFrames } from './live-frames.ts'
import { renderError } from './render.ts'
import { ownRendition, type Rendition } from './rendition.ts'

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
  /** Wanted rows of what is being published: the first one, and all when there are more. */
  #first = -1
  #wanted: number[] | undefined

  /** @param key of the subscription. Made by the caller, because that takes long for many DIDs. */
  constructor(subscription: Subscription, key: string, place: GroupPlace) {
    this.key = key
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
    return this.#rendition.frame(frameText(renderError(error, message)))
  }

  /** Notes that a row of what is being published is wanted. True for the first one. */
  want(row: number): boolean {
    if (this.#first === -1) {
      this.#first = row
      return true
    }
    const wanted = (this.#wanted ??= [this.#first])
    if (wanted[wanted.length - 1] !== row) wanted.push(row)
    return false
  }

  /**
   * Hands the wanted rows to the live members.
   * @param mayRender whether messages may be written in another way now. If not, members read them, one after the other.
   */
  publish(live: LiveFrames, mayRender: boolean): void {
    const wanted = this.#wanted ?? live.only(this.#first)
    this.#first = -1
    this.#wanted = undefined
    if (!mayRender && this.#rendition !== ownRendition) {
      this.members.publishUnmade(live.firstSeq - 1)
      return
    }
    const frames = this.#framesOf(live, wanted)
    if (frames.length > 0) this.members.publish(frames, live.lastSeq)
  }

  #framesOf(live: LiveFrames, wanted: readonly number[]): readonly Uint8Array[] {
    const rendition = this.#rendition
    const bytesMax = this.#maxMessageSizeBytes
    const fitting =
      bytesMax === 0 ? wanted : wanted.filter((row) => live.messageBytesAt(row, rendition) <= bytesMax)
    if (rendition !== ownRendition)
      return fitting.map((row) => live.renderedAt(row, rendition)).filter(({ length }) => length > 0)
    return fitting.length === live.count ? [live.frames] : live.framesOf(fitting)
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

/** The same text for all subscriptions that want the same messages. */
export function subscriptionKey(subscription: Subscription): string {
  const { kinds, collections, dids, maxMessageSizeBytes, rendition = ownRendition } = subscription
  const sorted = [kinds, collections, dids].map((values) => [...new Set<string>(values)].toSorted())
  return hash('sha256', JSON.stringify([...sorted, maxMessageSizeBytes, rendition.name]))
}
