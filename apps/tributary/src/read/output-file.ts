/** What `backfill` writes into: each run continues where the last one ended, however it ended. */
import type { ClientEvent, StreamError } from '@tributary/client/node'

export const outputFormats = ['ndjson', 'sqlite', 'parquet'] as const

export type OutputFormat = (typeof outputFormats)[number]

export interface OutputFile extends AsyncDisposable {
  /** Last seq that is in the file, or that was passed over; 0 at the beginning. */
  readonly cursor: number
  /**
   * Adds events. Afterwards the file holds everything up to `cursor`. Returns an error for each malformed event: those are
   * left out.
   */
  append(events: readonly ClientEvent[], cursor: number): Promise<readonly StreamError[]>
  /** Makes everything so far durable. */
  sync(): Promise<void>
}

/** The file cannot be continued or written. The message says why and what to do. */
export class OutputFileError extends Error {
  override readonly name = 'OutputFileError'
}

/** Whether what was read is a note of a run: of a selection, with these whole numbers from 0. */
export function isNote<Note extends { selection: string }>(
  value: unknown,
  ...numbers: readonly Exclude<keyof Note, 'selection'>[]
): value is Note {
  if (typeof value !== 'object' || value === null) return false
  const fields = value as Record<PropertyKey, unknown> // an object has fields
  return (
    typeof fields['selection'] === 'string' &&
    numbers.every((name) => Number.isSafeInteger(fields[name]) && Number(fields[name]) >= 0)
  )
}

/** The format that a file's name says, and NDJSON when it says none. */
export function formatOf(path: string): OutputFormat {
  if (/\.parquet$/i.test(path)) return 'parquet'
  return /\.(sqlite3?|db)$/i.test(path) ? 'sqlite' : 'ndjson'
}
