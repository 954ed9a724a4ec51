/** `tributary backfill`: the archive as NDJSON, to stdout or into a file that a later run continues. */
import { StreamError, type StreamStatus } from '@tributary/client/node'
import { stopSignal } from '../stop-signal.ts'
import { type ClientSettings, openStream } from './client-settings.ts'
import { describeStatus } from './describe-status.ts'
import { NdjsonFile, OutputFileError } from './ndjson-file.ts'
import { ProgressBar } from './progress-bar.ts'
import { toLines, writeOut } from './standard-output.ts'

/** A person waits for it: after about a minute without progress the failure comes out. */
const attemptsMax = 8

export interface BackfillOptions {
  output?: string
  afterSeq?: number
  beforeSeq?: number
}

/** Runs to the end of the archive. Returns the exit code. */
export async function runBackfill(settings: ClientSettings, options: BackfillOptions): Promise<number> {
  const stop = stopSignal()
  const progress = new ProgressBar()
  const { client, filter } = openStream(settings, { attemptsMax })
  let count = 0
  try {
    const selection = JSON.stringify([settings.url, settings.nsidPrefix, filter])
    await using file =
      options.output === undefined ? undefined : await NdjsonFile.open(options.output, selection)
    const afterSeq = Math.max(options.afterSeq ?? 0, file?.cursor ?? 0)
    let cursor = afterSeq
    const onStatus = (status: StreamStatus): void => {
      if (status.type === 'downloading') return progress.show(status, count)
      const text = describeStatus(status)
      if (text !== undefined) progress.print(text)
    }
    const { beforeSeq } = options
    const isWhole = file !== undefined && beforeSeq !== undefined && file.cursor >= beforeSeq
    const range = { afterSeq, ...(beforeSeq !== undefined && { beforeSeq }) }
    const batches = isWhole ? [] : client.snapshot({ ...filter, ...range, signal: stop, onStatus })
    for await (const batch of batches) {
      if (file) await file.append(batch.events, batch.cursor)
      else if (!(await writeOut(process.stdout, toLines(batch.events)))) return 0
      count += batch.events.length
      cursor = batch.cursor
    }
    await file?.sync()
    const end = stop.aborted ? 'stopped' : 'done'
    progress.print(
      `${end}: ${count} events through seq ${cursor}${file ? '; run it again to continue from here' : ''}`,
    )
    return stop.aborted ? 1 : 0
  } catch (error) {
    if (!(error instanceof StreamError) && !(error instanceof OutputFileError)) throw error
    const advice =
      error instanceof StreamError && error.code === 'AuthenticationRequired'
        ? '; give an archive key with --api-key'
        : ''
    progress.print(`${error.message}${advice}`)
    return 1
  }
}
