/**
 * Rows that lie in seq order and can be sent: the one shape that live delivery, the memory tail and archive blocks
 * share, so that a filter is applied by the same code wherever a subscriber stands.
 */
import type { CatchUp } from '@tributary/fanout'
import type { EventKind } from '@tributary/protocol'
import type { RowKind } from '@tributary/segment'

export interface FrameRun {
  readonly count: number
  /** The newest seq that the run covers. */
  readonly lastSeq: number
  seqAt(i: number): number
  kindAt(i: number): EventKind
  rowKindAt(i: number): RowKind
  didAt(i: number): string
  /** Empty for all kinds but commits. */
  collectionAt(i: number): string
  /** The row's whole WebSocket message. Empty for a row whose payload cannot be shown. */
  frameAt(i: number): Uint8Array
  /** Bytes of the row's message before it is compressed. 0 for a row whose payload cannot be shown. */
  messageBytesAt(i: number): number
  /** Index of the first row above a seq; `count` when there is none. */
  firstAfter(seq: number): number
  /** Messages that were made for readers so far. What was there before anybody read does not count. */
  readonly made: number
  /** So many more bytes are kept for as long as the run is: its messages, written in another way. */
  keep(bytes: number): void
}

/** Which rows a subscriber wants. */
export type Wants = (run: FrameRun, i: number) => boolean

/** Milliseconds of one read. A filter by size has every message made, also those that it leaves out. */
const readMsMax = 2
/** Rows between two looks at the clock, where no message was made: making one may take ten milliseconds. */
const rowsPerLook = 32

/** When a read that begins now ends, as `performance.now` has it. */
export function readEndMs(): number {
  return performance.now() + readMsMax
}

/**
 * The wanted messages after a position, about `maxBytes` of them and as many as can be found until `endMs`, at least one
 * row. The new position is the last row looked at, or the end of the run, so a reader moves on also where nothing matches.
 */
export function collect(
  run: FrameRun,
  afterSeq: number,
  wants: Wants,
  maxBytes: number,
  endMs: number = readEndMs(),
): CatchUp {
  const frames: Uint8Array[] = []
  let bytes = 0
  const first = run.firstAfter(afterSeq)
  let { made } = run
  let i = first
  for (; i < run.count && bytes < maxBytes; i++) {
    const mustLook = run.made > made || (i > first && (i - first) % rowsPerLook === 0)
    if (mustLook && performance.now() >= endMs) break
    made = run.made
    if (!wants(run, i)) continue
    const frame = run.frameAt(i)
    if (frame.length === 0) continue
    frames.push(frame)
    bytes += frame.length
  }
  return { frames: joinNeighbours(frames), lastSeq: i < run.count ? run.seqAt(i - 1) : run.lastSeq }
}

/** Frames that lie one behind the other in one buffer become one view of it: nothing is copied for a whole run. */
function joinNeighbours(frames: readonly Uint8Array[]): Uint8Array[] {
  const joined: Uint8Array[] = []
  let current: Uint8Array | undefined
  for (const frame of frames) {
    if (
      current &&
      current.buffer === frame.buffer &&
      current.byteOffset + current.length === frame.byteOffset
    ) {
      current = new Uint8Array(current.buffer, current.byteOffset, current.length + frame.length)
      joined[joined.length - 1] = current
    } else {
      current = frame
      joined.push(frame)
    }
  }
  return joined
}
