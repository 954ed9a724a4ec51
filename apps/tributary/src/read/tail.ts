/** `tributary tail`: events as NDJSON on stdout, from now on or from a cursor. */
import {
  Checkpoint,
  CursorFileError,
  FileCursorStore,
  type StreamBatch,
  StreamError,
} from '@tributary/client/node'
import { stopSignal } from '../stop-signal.ts'
import { type ClientSettings, openStream } from './client-settings.ts'
import { describeStatus } from './describe-status.ts'
import { toLines, writeOut } from './standard-output.ts'

export interface TailOptions {
  /** Last seq seen. */
  cursor?: number
  /** Where the cursor is kept between runs. */
  cursorFile?: string
  /** Everything behind the cursor, from the archive first. */
  replay: boolean
  /** End after this many events. */
  limit?: number
  /** Say nothing on stderr but errors. */
  quiet: boolean
}

/** Runs until it is stopped, the limit is reached or nobody reads any more. Returns the exit code. */
export async function runTail(settings: ClientSettings, options: TailOptions): Promise<number> {
  const stop = stopSignal()
  const { client, filter } = openStream(settings)
  try {
    const checkpoint = await openCheckpoint(settings, options)
    const cursor = checkpoint?.cursor ?? options.cursor
    const read = {
      ...filter,
      ...(cursor !== undefined && { cursor }),
      signal: stop,
      onStatus: (status: Parameters<typeof describeStatus>[0]) => {
        const text = options.quiet ? undefined : describeStatus(status)
        if (text !== undefined) process.stderr.write(`tributary tail: ${text}\n`)
      },
    }
    await printBatches(
      options.replay ? client.replay(read) : client.live(read),
      options.limit ?? Infinity,
      checkpoint,
    )
    await checkpoint?.flush()
    return 0
  } catch (error) {
    if (!(error instanceof StreamError) && !(error instanceof CursorFileError)) throw error
    const advice =
      error instanceof StreamError && error.code === 'CursorTooOld'
        ? '; with --replay (and an API key) the archive fills the gap'
        : ''
    process.stderr.write(`tributary tail: ${error.message}${advice}\n`)
    return 1
  }
}

async function openCheckpoint(
  settings: ClientSettings,
  options: TailOptions,
): Promise<Checkpoint | undefined> {
  if (options.cursorFile === undefined) return undefined
  return Checkpoint.open(new FileCursorStore(options.cursorFile, settings.url))
}

async function printBatches(
  batches: AsyncGenerator<StreamBatch, void>,
  limit: number,
  checkpoint: Checkpoint | undefined,
): Promise<void> {
  let left = limit
  if (left <= 0) return
  for await (const { events, cursor } of batches) {
    const printed = events.slice(0, left)
    left -= printed.length
    if (printed.length > 0 && !(await writeOut(process.stdout, toLines(printed)))) return
    const acknowledge = await checkpoint?.track(left > 0 ? cursor : (printed.at(-1)?.seq ?? cursor))
    acknowledge?.()
    if (left <= 0) return
  }
}
