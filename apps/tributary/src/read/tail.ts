/** `tributary tail`: events on stdout, from now on or from a cursor: as NDJSON, or on a terminal as lines to read. */
import { access, constants } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import {
  Checkpoint,
  type ClientEvent,
  CursorStoreError,
  FileCursorStore,
  NdjsonWriter,
  type StreamBatch,
  StreamError,
  type StreamStatus,
} from '@tributary/client/node'
import { FileUseError, UsageError } from '../command-errors.ts'
import { exitCodeOf, exitCodes } from '../exit-codes.ts'
import { terminalWidth } from '../operator/text-table.ts'
import { sayError, sayNotice } from '../say.ts'
import { systemMessage } from '../system-message.ts'
import { stopSignal } from '../stop-signal.ts'
import type { ClientSettings } from './client-settings.ts'
import { openStream } from './open-stream.ts'
import { eventLine } from './event-line.ts'
import { describeGap, describeStatus } from './describe-status.ts'
import { linesForOutput, writeOut } from './standard-output.ts'
import type { StartPosition } from './start-position.ts'

export interface TailOptions {
  /** Where to begin instead of now. */
  cursor?: StartPosition
  since?: Date
  /** Where the cursor is kept between runs. */
  cursorFile?: string
  /** Everything after the cursor, from the archive first. */
  replay: boolean
  /** End after this many events. */
  limit?: number
  /** Lines of JSON on a terminal too. */
  json: boolean
  /** Ask for compressed messages. */
  compress: boolean
  /** As typed here. A key that a variable or the settings file gives is for other commands too. */
  apiKey?: string
  apiKeyFile?: string
  /** Say nothing on stderr but errors and what is missing. */
  quiet: boolean
  /** Seconds without progress after which it is given up; absent: it goes on trying. */
  wait?: number
}

/** Runs until it is stopped, the limit is reached or nobody reads any more. Returns the exit code. */
export async function runTail(settings: ClientSettings, options: TailOptions): Promise<number> {
  const stop = stopSignal()
  const say = (text: string): void => sayNotice(`tributary tail: ${text}`)
  try {
    refuseIdle(settings, options)
    const giveUp = options.wait === undefined ? {} : { giveUpMs: options.wait * 1000 }
    const { client, filter } = openStream(settings, giveUp, options.compress)
    const checkpoint = await openCheckpoint(settings, options)
    const start = startOf(options, checkpoint?.cursor)
    const onStatus = (status: StreamStatus): void => {
      const text = describeStatus(status)
      // A filter of which nothing will come looks like a stream on which nothing happens.
      const isImportant = status.type === 'info' && status.name === 'UnwatchedCollections'
      if (text !== undefined && (!options.quiet || isImportant)) say(text)
    }
    const read = { ...filter, signal: stop, onStatus }
    const batches =
      options.replay && !('since' in start)
        ? client.replay({ ...read, ...start })
        : client.live({ ...read, ...start })
    // Programs get JSON; a person at a terminal gets lines to read.
    const isReadable = process.stdout.isTTY && !options.json
    await printBatches(batches, { limit: options.limit ?? Infinity, checkpoint, say, isReadable })
    await checkpoint?.flush()
    return exitCodes.done
  } catch (error) {
    const words = systemMessage(error)
    const isKnown = [StreamError, CursorStoreError, FileUseError, UsageError].some(
      (kind) => error instanceof kind,
    )
    if (!isKnown && words === undefined) throw error
    sayError(`tributary tail: ${words ?? (error as Error).message}${adviceFor(error)}`) // known kinds are errors
    return exitCodeOf(error)
  }
}

function adviceFor(error: unknown): string {
  if (!(error instanceof StreamError)) return ''
  if (error.code === 'CursorTooOld') return '; with --replay (and an API key) the archive fills the gap'
  return error.code === 'AuthenticationRequired'
    ? '; give an archive key with --api-key-file or --api-key'
    : ''
}

/** @throws UsageError for what was typed and would count for nothing. */
function refuseIdle({ jetstreamVersion }: ClientSettings, { replay, apiKey, apiKeyFile }: TailOptions): void {
  if (replay && jetstreamVersion === '1')
    throw new UsageError(
      '--replay reads the archive, which a server of Jetstream v1 does not have: leave it out',
    )
  const key = apiKey === undefined ? '--api-key-file' : '--api-key'
  if (!replay && (apiKey ?? apiKeyFile) !== undefined)
    throw new UsageError(`${key} is for the archive: give --replay too, or leave it out`)
}

/** @throws UsageError when two places say where to begin. */
function startOf(
  { cursor, since, cursorFile, replay }: TailOptions,
  saved: number | undefined,
): { cursor?: number } | { since: Date } {
  if (cursor !== undefined && since !== undefined) throw new UsageError('give one of --cursor and --since')
  const typed = cursor ?? (since && { since })
  if (saved !== undefined && typed !== undefined) {
    throw new UsageError(
      `${cursorFile} goes on after seq ${saved}: leave ${since ? '--since' : '--cursor'} out, or remove the file`,
    )
  }
  if (replay && typed !== undefined && 'since' in typed) {
    throw new UsageError('--replay goes by seq: give --cursor a seq, or leave --replay out')
  }
  return typed ?? (saved === undefined ? {} : { cursor: saved })
}

async function openCheckpoint(
  settings: ClientSettings,
  options: TailOptions,
): Promise<Checkpoint | undefined> {
  if (options.cursorFile === undefined) return undefined
  // The file is made with the first event, which may come late.
  await access(dirname(resolve(options.cursorFile)), constants.W_OK)
  try {
    return await Checkpoint.open(new FileCursorStore(options.cursorFile, settings.url))
  } catch (error) {
    // An error of reading does not name the file.
    const words = systemMessage(error)
    if (words === undefined || words.includes(options.cursorFile)) throw error
    throw new FileUseError(`${options.cursorFile}: ${words}`, { cause: error })
  }
}

async function printBatches(
  batches: AsyncGenerator<StreamBatch, void>,
  options: {
    limit: number
    checkpoint: Checkpoint | undefined
    say: (text: string) => void
    isReadable: boolean
  },
): Promise<void> {
  const { checkpoint, say, isReadable } = options
  const writer = new NdjsonWriter()
  let left = options.limit
  if (left <= 0) return
  for await (const { events, cursor, gaps } of batches) {
    for (const gap of gaps) say(describeGap(gap))
    const printed = events.slice(0, left)
    left -= printed.length
    const { text, malformed } = isReadable ? readableLines(printed) : linesOfJson(writer, printed)
    for (const { message } of malformed) say(`an event is left out: ${message}`)
    if (text.length > 0 && !(await writeOut(process.stdout, text))) return
    const acknowledge = await checkpoint?.track(left > 0 ? cursor : (printed.at(-1)?.seq ?? cursor))
    acknowledge?.()
    if (left <= 0) return
  }
}

interface Lines {
  text: string | Uint8Array
  malformed: readonly StreamError[]
}

function linesOfJson(writer: NdjsonWriter, events: readonly ClientEvent[]): Lines {
  const { bytes, malformed } = writer.lines(events)
  return { text: linesForOutput(bytes), malformed }
}

function readableLines(events: readonly ClientEvent[]): Lines {
  const width = terminalWidth()
  const hasColors = process.stdout.isTTY && process.stdout.hasColors()
  const malformed: StreamError[] = []
  const lines = events.flatMap((event) => {
    try {
      return [`${eventLine(event, { width, hasColors })}\n`]
    } catch (error) {
      if (!(error instanceof StreamError)) throw error
      malformed.push(error)
      return []
    }
  })
  return { text: lines.join(''), malformed }
}
