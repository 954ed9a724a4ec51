import type { SealedSegment } from '@tributary/segment/node'
import { XrpcError } from '@tributary/xrpc'
import { lostMessage, type LostSeqs } from '../archive/lost-rows.ts'
import type { Info } from '../delivery/render.ts'
import type { StartSource } from './time-seeks.ts'

/** Where a subscriber begins, and what it should be told first. */
export interface StartPosition {
  /** It has seen everything up to here. */
  afterSeq: number
  info?: Info
}

export interface LookBack {
  /** How far back a cursor may reach, in milliseconds. 0: cursors are ignored. */
  lookBackMs: number
  nowMs: number
  lost: readonly LostSeqs[]
  /** The sealed segments, in order. */
  sealed: readonly Pick<SealedSegment, 'header'>[]
}

/** Cursors from here on are times in microseconds, below it they are seqs. */
const firstTimeCursor = 1e15

/**
 * The oldest seq that may be asked for; 0 when everything may. It is the start of a sealed segment, never above the
 * last one, so that what is not sealed yet can always be read and a plan and a replay together cover everything.
 * Where nothing older was ever archived there is no floor.
 */
export function lookBackFloor({ lookBackMs, nowMs, sealed }: Omit<LookBack, 'lost'>): number {
  const filled = sealed.filter(({ header }) => header.maxSeq > 0)
  const oldestMicros = (nowMs - lookBackMs) * 1000
  const recent = filled.find(({ header }) => header.maxWitnessedAt >= oldestMicros) ?? filled.at(-1)
  return recent === undefined || recent === filled[0] ? 0 : recent.header.minSeq
}

/**
 * Resolves a cursor (segment-format.md 14): a seq is inclusive; a time stands for the first row seen at or after it.
 * @throws XrpcError 400 `CursorTooOld` for a seq below the floor, with the floor in the message.
 */
export async function startPosition(
  cursor: number | undefined,
  delivery: StartSource,
  lookBack: LookBack,
): Promise<StartPosition> {
  if (cursor === undefined || lookBack.lookBackMs === 0) return { afterSeq: delivery.headSeq }
  const floor = lookBackFloor(lookBack)
  if (cursor >= firstTimeCursor) return timePosition(cursor, delivery, lookBack.nowMs, floor)
  const seq = Math.max(1, cursor)
  if (seq < floor) {
    throw new XrpcError(
      400,
      'CursorTooOld',
      `Cursor ${cursor} is below ${floor}, the oldest seq that can be replayed; read the archive with planSnapshot from afterSeq=${Math.max(0, cursor - 1)}, then connect with the cursor it ends at`,
    )
  }
  const lost = lookBack.lost.find(({ afterSeq, throughSeq }) => afterSeq + 1 < seq && seq <= throughSeq)
  if (lost) return { afterSeq: lost.throughSeq, info: lostRows(seq, lost.throughSeq) }
  const { headSeq } = delivery
  if (seq > headSeq + 1) return { afterSeq: headSeq, info: futureCursor(cursor, headSeq) }
  return { afterSeq: seq - 1 }
}

/** The same for Jetstream v1: a seq below the floor stands for the floor, and nothing is told. */
export async function clampedPosition(
  cursor: number | undefined,
  delivery: StartSource,
  lookBack: LookBack,
): Promise<number> {
  const isSeq = cursor !== undefined && cursor < firstTimeCursor
  const clamped = isSeq ? Math.max(cursor, lookBackFloor(lookBack)) : cursor
  return (await startPosition(clamped, delivery, lookBack)).afterSeq
}

async function timePosition(
  cursor: number,
  delivery: StartSource,
  nowMs: number,
  floor: number,
): Promise<StartPosition> {
  const { headSeq } = delivery
  const seq = await delivery.seqWitnessedAt(cursor)
  // A clock that was set back may have to reach the times of rows that are there.
  const isAhead = seq > headSeq && cursor > (nowMs + 1) * 1000
  if (isAhead) return { afterSeq: headSeq, info: futureCursor(cursor, headSeq) }
  const oldest = delivery.oldestWitnessedAt()
  if (seq >= floor && (oldest === undefined || cursor >= oldest)) return { afterSeq: seq - 1 }
  const from = Math.max(seq, floor)
  const message = `The oldest event that can be replayed is ${from}`
  return { afterSeq: from - 1, info: { name: 'OutdatedCursor', message } }
}

function lostRows(firstSeq: number, lastSeq: number): Info {
  return { name: 'UnreadableEvents', message: lostMessage(firstSeq, lastSeq), firstSeq, lastSeq }
}

function futureCursor(cursor: number, headSeq: number): Info {
  return {
    name: 'FutureCursor',
    message: `Cursor ${cursor} is ahead of the newest seq ${headSeq}; continuing live`,
  }
}
