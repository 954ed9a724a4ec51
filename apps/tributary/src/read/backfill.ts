/** `tributary backfill`: everything up to now, to stdout or into a file that a later run continues. */
import {
  NdjsonWriter,
  type ReplayOptions,
  type StreamBatch,
  type StreamClient,
  StreamError,
  type StreamStatus,
} from '@tributary/client/node'
import { collectGarbageSooner } from '@tributary/settings'
import { UsageError } from '../command-errors.ts'
import { counted } from '../counted.ts'
import { exitCodeOf, exitCodes } from '../exit-codes.ts'
import { systemMessage } from '../system-message.ts'
import { printJson } from '../print-json.ts'
import { stopSignal } from '../stop-signal.ts'
import { type ClientSettings, defaultNamespace } from './client-settings.ts'
import { openStream } from './open-stream.ts'
import { describeGap, describeStatus } from './describe-status.ts'
import { NdjsonFile } from './ndjson-file.ts'
import { formatOf, type OutputFile, OutputFileError, type OutputFormat } from './output-file.ts'
import { ParquetDirectory } from './parquet-directory.ts'
import { ProgressBar } from './progress-bar.ts'
import { SqliteFile } from './sqlite-file.ts'
import { linesForOutput, writeOut } from './standard-output.ts'

export interface BackfillOptions {
  output?: string
  /** Absent: as the name of `output` says. */
  format?: OutputFormat
  afterSeq?: number
  beforeSeq?: number
  /** Seconds without progress after which it is given up. */
  wait: number
  /** What came of it as JSON on stdout. */
  json: boolean
}

/**
 * Reads what is sealed and then, through the look-back, what is not, to the head of the stream at the start. Returns the
 * exit code.
 */
export async function runBackfill(settings: ClientSettings, options: BackfillOptions): Promise<number> {
  collectGarbageSooner()
  const stop = stopSignal()
  const progress = new ProgressBar()
  let count = 0
  let gaps = 0
  const writer = new NdjsonWriter()
  try {
    refuseContradictions(settings, options)
    const { client, filter } = openStream(settings, { giveUpMs: options.wait * 1000 })
    const selection = JSON.stringify([settings.url, settings.nsidPrefix ?? defaultNamespace, filter])
    await using file =
      options.output === undefined
        ? undefined
        : await openOutput(options.output, options.format ?? formatOf(options.output), selection)
    const { afterSeq: typedAfter = 0 } = options
    const afterSeq = Math.max(typedAfter, file?.cursor ?? 0)
    if (options.afterSeq !== undefined && typedAfter < afterSeq)
      progress.print(
        `${options.output} goes on after seq ${afterSeq}, where it ends, and not after ${typedAfter}`,
      )
    let cursor = afterSeq
    const onStatus = (status: StreamStatus): void => {
      if (status.type === 'downloading') return progress.show(status, count)
      const text = describeStatus(status)
      if (text !== undefined) progress.printNotice(text)
    }
    // With a key the archive is the faster way also for what the look-back reaches.
    const archiveFirst = (settings.apiKey ?? settings.apiKeyFile) !== undefined
    const read = { ...filter, cursor: afterSeq, archiveFirst, signal: stop, onStatus }
    const target = await targetOf(client, options, afterSeq, stop)
    for await (const batch of batchesTo(client, target, read)) {
      const malformed = file
        ? await file.append(batch.events, batch.cursor)
        : await print(writer.lines(batch.events))
      if (malformed === undefined) return exitCodes.done
      count += batch.events.length - malformed.length
      cursor = batch.cursor
      gaps += batch.gaps.length + malformed.length
      const { throughSeq } = target
      if (batch.live && throughSeq !== undefined && cursor < throughSeq)
        progress.showSeqs({ afterSeq, cursor, throughSeq }, count)
      for (const { message } of malformed) progress.printNotice(`an event is left out: ${message}`)
      for (const gap of batch.gaps) progress.printNotice(describeGap(gap))
    }
    await file?.sync()
    const isWhole = !stop.aborted && gaps === 0
    if (options.json) {
      printJson({ isDone: !stop.aborted, events: count, afterSeq, throughSeq: cursor, gaps })
      return isWhole ? exitCodes.done : exitCodes.failed
    }
    progress.print(
      [
        `${stop.aborted ? 'stopped' : 'done'}: ${counted(count, 'event')} after seq ${afterSeq} through seq ${cursor}${stop.aborted ? '' : `, ${target.words}`}`,
        ...(gaps > 0 ? [`${counted(gaps, 'gap')}: what is named above is missing`] : []),
        ...(file ? ['run it again to continue from here'] : []),
      ].join('; '),
    )
    return isWhole ? exitCodes.done : exitCodes.failed
  } catch (error) {
    if (stop.aborted) return exitCodes.failed
    progress.print(reasonOf(error))
    return exitCodeOf(error)
  }
}

/** @throws UsageError for options that count for nothing together. */
function refuseContradictions({ jetstreamVersion }: ClientSettings, options: BackfillOptions): void {
  const { json, output, format, afterSeq = 0, beforeSeq } = options
  if (json && output === undefined)
    throw new UsageError('--json says what came of it, and needs --output: events are JSON without it')
  if (format !== undefined && output === undefined)
    throw new UsageError('--format needs --output: stdout has one JSON object a line')
  if (jetstreamVersion === '1')
    throw new UsageError('a server of Jetstream v1 has no archive: tributary tail reads what it has')
  if (beforeSeq !== undefined && beforeSeq <= afterSeq)
    throw new UsageError(
      `nothing is after seq ${afterSeq} and up to seq ${beforeSeq}: give a larger --before-seq`,
    )
}

/** Why a run could not go on, in words. @throws an error that is a defect of ours. */
function reasonOf(error: unknown): string {
  const words = systemMessage(error)
  const isKnown = [StreamError, OutputFileError, UsageError].some((kind) => error instanceof kind)
  if (!isKnown && words === undefined) throw error
  const advice =
    error instanceof StreamError && error.code === 'AuthenticationRequired'
      ? '; give an archive key with --api-key-file or --api-key'
      : ''
  return `${words ?? (error as Error).message}${advice}` // known kinds are errors
}

async function openOutput(path: string, format: OutputFormat, selection: string): Promise<OutputFile> {
  switch (format) {
    case 'ndjson':
      return await NdjsonFile.open(path, selection)
    case 'sqlite':
      return SqliteFile.open(path, selection)
    case 'parquet':
      return await ParquetDirectory.open(path, selection)
  }
}

/** Undefined when nobody reads stdout any more. */
async function print({
  bytes,
  malformed,
}: ReturnType<NdjsonWriter['lines']>): Promise<StreamError[] | undefined> {
  return (await writeOut(process.stdout, linesForOutput(bytes))) ? malformed : undefined
}

/** How far a run goes, and what to say of it at the end. */
type Target = { throughSeq: number; words: string } | { throughSeq: undefined; words: string }

async function targetOf(
  client: StreamClient,
  { beforeSeq }: BackfillOptions,
  afterSeq: number,
  signal: AbortSignal,
): Promise<Target> {
  if (beforeSeq !== undefined && beforeSeq <= afterSeq)
    return { throughSeq: beforeSeq, words: 'it was all there' }
  const head = await client.head({ signal })
  if (head === undefined) {
    return {
      throughSeq: undefined,
      words: 'what is not sealed is left out, because the server does not tell its head',
    }
  }
  if (head < afterSeq) {
    const why = `the head of this stream is seq ${head}, and this was to go on after ${afterSeq}`
    throw new StreamError('FutureCursor', `${why}: is it another stream, or one that was set up again?`)
  }
  if (beforeSeq === undefined) return { throughSeq: head, words: 'the head of the stream when it began' }
  if (beforeSeq <= head) return { throughSeq: beforeSeq, words: 'as --before-seq says' }
  return {
    throughSeq: head,
    words: `the head of the stream, which has not reached --before-seq ${beforeSeq}`,
  }
}

function batchesTo(
  client: StreamClient,
  { throughSeq }: Target,
  { cursor, ...read }: ReplayOptions & { cursor: number },
): AsyncGenerator<StreamBatch, void> {
  if (throughSeq === undefined) return client.snapshot({ ...read, afterSeq: cursor })
  return client.replay({ ...read, cursor, throughSeq })
}
