/** Where a reader begins, as it is typed: a seq, a time in microseconds as Jetstream v1 has it, a time ago, or a date. */
import { InvalidArgumentError } from 'commander'

/** Cursors from here on are times in microseconds, below it they are seqs. */
const firstTimeCursor = 1e15
const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Another clock, from which a time may be, is not more than this ahead of ours. */
const clockDifferenceMs = 60_000

export type StartPosition = { cursor: number } | { since: Date }

/** @throws InvalidArgumentError */
export function readCursor(text: string): StartPosition {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (!Number.isSafeInteger(value)) {
    throw new InvalidArgumentError('expected a seq, or a time in microseconds as Jetstream v1 has it.')
  }
  return value >= firstTimeCursor ? { since: past(new Date(Math.floor(value / 1000))) } : { cursor: value }
}

/** `30s`, `15m`, `2h`, `3d`, or a date like `2026-05-01T12:00:00Z`. @throws InvalidArgumentError */
export function readSince(text: string): Date {
  const ago = /^(\d{1,6})([smhd])$/.exec(text)
  // The pattern allows no other unit.
  if (ago) return new Date(Date.now() - Number(ago[1]) * unitMs[ago[2] as keyof typeof unitMs])
  const date = new Date(/^\d{4}-\d\d-\d\d/.test(text) ? text : Number.NaN)
  if (Number.isNaN(date.getTime())) {
    throw new InvalidArgumentError(
      'expected a time ago like 30s, 15m, 2h or 3d, or a date like 2026-05-01T12:00:00Z.',
    )
  }
  return past(date)
}

/** A time that has not come would begin now, and nobody means that. One far ahead is no cursor. */
function past(date: Date): Date {
  if (date.getTime() > Date.now() + clockDifferenceMs)
    throw new InvalidArgumentError(`${date.toISOString()} has not come yet: expected a time in the past.`)
  return date
}

/** @throws InvalidArgumentError */
export function readCount(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('expected a whole number from 0.')
  return Number(text)
}
