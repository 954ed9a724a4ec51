/**
 * Reads one page of a plan: downloads its segments and block ranges several at a time, and gives their rows as events
 * in plan order, block order and row order, which is seq order. Rows at or below `afterSeq` and above `throughSeq`
 * never come out, so a caller may plan and read again from any cursor it got.
 */
import type { EventFilter, StreamEvent } from '@tributary/protocol'
import { type BlockView, frameBodyBytes, SegmentError } from '@tributary/segment'
import type { StreamGap } from './batch.ts'
import { checkDecoder } from './check-decoder.ts'
import { StreamError } from './errors.ts'
import { frameBytesMax, segmentFrames } from './frames.ts'
import { callXrpc, readBody, type Server } from './http.ts'
import type { PlanEntry } from './plan.ts'
import { readAhead } from './read-ahead.ts'
import { rowEvent } from './row-event.ts'
import { compileRowFilter } from './row-filter.ts'
import { blockBodyBytesMax, type Runtime } from './runtime.ts'
import { type DownloadLimits, segmentChunks } from './segment-parts.ts'
import type { StreamStatus } from './status.ts'

/** Events of one batch at most, and bytes of their payloads above which it is not filled further. */
const batchEventsMax = 1000
const batchBytesMax = 8 * 1024 * 1024
/**
 * Bytes of decompressed blocks that wait for the consumer. No block is decompressed ahead of them. A block of posts has
 * 2 MB, so that one waits while the next is decompressed: more are no faster. One of large records can have a hundred times
 * that.
 */
const decodedBytesMax = 2 * 1024 * 1024
/** Compressed bytes of blocks that were asked for and wait, from which on no further one is. */
const compressedBytesMax = 16 * 1024 * 1024
/** A compaction may empty blocks between a plan and their download. More of them in a row are none. */
const emptyBlocksMax = 1000
/** Blocks in a row that do not decode and are left out. More are no accident: the archive is damaged. */
const badBlocksMax = 3

export interface ArchiveReader {
  server: Server
  runtime: Runtime
  filter: EventFilter
  limits: DownloadLimits
  signal: AbortSignal
  onStatus: (status: StreamStatus) => void
  /** After every block: the segment read, its compressed bytes, and the cursor after it. */
  onBlock: (block: { segment: string; bytes: number; cursor: number }) => void
}

/** Matching events, what could not be read, and the seq through which everything has been looked at. */
export interface ArchiveBatch {
  events: StreamEvent[]
  gaps: StreamGap[]
  cursor: number
}

interface PendingFrame {
  segment: string
  index: number
  frame: Promise<Uint8Array>
  /** Bytes of the frame; while it is on its way, those of the frame before it. */
  bytes: number
}

interface PendingBlock {
  segment: string
  index: number
  /** Compressed bytes. */
  bytes: number
  bodyBytes: number
  content: Promise<BlockView>
}

/**
 * Everything of the page that matches. After an error the batches so far are complete up to their cursor.
 * Blocks that do not decode are left out, and are gaps of a batch. A gap ends before the next block that decodes. Rows are
 * checked when they are looked at.
 * @throws StreamError, `ArchiveDamaged` when more than three blocks in a row do not decode, `ProtocolError` when the seqs of
 * a block do not follow those of the one before it.
 */
export async function* readPage(
  reader: ArchiveReader,
  entries: readonly PlanEntry[],
  range: { afterSeq: number; throughSeq: number },
): AsyncGenerator<ArchiveBatch, void> {
  const stop = new AbortController()
  const signal = AbortSignal.any([reader.signal, stop.signal])
  const wants = compileRowFilter(reader.filter)
  const { sha256 } = reader.runtime
  let events: StreamEvent[] = []
  let gaps: StreamGap[] = []
  let bytes = 0
  let cursor = range.afterSeq
  let lastSeq = 0
  let emptyBlocks = 0
  let badBlocks: string[] = []
  const closeGap = (throughSeq: number): void => {
    if (badBlocks.length === 0) return
    gaps.push({ source: 'archive', afterSeq: cursor, throughSeq, detail: badBlocks.join('; ') })
    cursor = throughSeq
    badBlocks = []
  }
  try {
    const limits = {
      items: reader.limits.parallel,
      bytes: { max: decodedBytesMax, of: ({ bodyBytes }: PendingBlock) => bodyBytes },
    }
    for await (const source of readAhead(pendingBlocks({ ...reader, signal }, entries), limits, stop)) {
      const block = await settleBlock(reader, source, cursor)
      if (typeof block === 'string') {
        badBlocks.push(block)
        if (badBlocks.length > badBlocksMax) throw new StreamError('ArchiveDamaged', badBlocks.join('; '))
        continue
      }
      if (block.count > 0 && block.seqAt(0) <= lastSeq) {
        const place = `block ${source.index} of ${source.segment}`
        throw new StreamError('ProtocolError', `${place} begins with seq ${block.seqAt(0)}, after ${lastSeq}`)
      }
      if (block.count > 0) lastSeq = block.seqAt(block.count - 1)
      emptyBlocks = block.count > 0 ? 0 : emptyBlocks + 1
      if (emptyBlocks > emptyBlocksMax)
        throw new StreamError('ProtocolError', `${emptyBlocks} blocks in a row have no rows`)
      const start = block.firstAfter(cursor)
      const end = block.firstAfter(range.throughSeq)
      if (start < end) closeGap(block.seqAt(start) - 1)
      for (let i = start; i < end; i++) {
        cursor = block.seqAt(i)
        if (!wants(block, i)) continue
        events.push(rowEvent(block, i, cursor, sha256))
        bytes += block.payloadBytesAt(i)
        if (events.length < batchEventsMax && bytes < batchBytesMax) continue
        yield { events, gaps, cursor }
        events = []
        gaps = []
        bytes = 0
      }
      reader.onBlock({ segment: source.segment, bytes: source.bytes, cursor })
    }
    closeGap(range.throughSeq)
  } catch (error) {
    yield { events, gaps, cursor }
    throw error
  }
  yield { events, gaps, cursor }
}

/** Blocks that are being decompressed. */
async function* pendingBlocks(
  reader: ArchiveReader,
  entries: readonly PlanEntry[],
): AsyncGenerator<PendingBlock, void> {
  const stop = new AbortController()
  const signal = AbortSignal.any([reader.signal, stop.signal])
  const frames = pendingFrames({ ...reader, signal }, entries)
  const limits = {
    items: reader.limits.parallel,
    bytes: { max: compressedBytesMax, of: ({ bytes }: PendingFrame) => bytes },
  }
  for await (const { segment, index, frame } of readAhead(frames, limits, stop)) {
    yield pendingBlock(segment, index, await frame, reader.runtime)
  }
}

async function* pendingFrames(
  { server, limits, signal }: ArchiveReader,
  entries: readonly PlanEntry[],
): AsyncGenerator<PendingFrame, void> {
  let lastBytes = 0
  for (const { name: segment, blocks } of entries) {
    if (blocks === undefined) {
      let index = 0
      for await (const frame of segmentFrames(segmentChunks(server, segment, limits, signal))) {
        yield { segment, index: index++, frame: Promise.resolve(frame), bytes: frame.length }
      }
    }
    for (const { first, last } of blocks ?? []) {
      for (let index = first; index <= last; index++) {
        const frame = fetchBlock(server, segment, index, signal)
        const pending = { segment, index, frame, bytes: lastBytes }
        const noteBytes = ({ length }: Uint8Array): void => {
          lastBytes = pending.bytes = length
        }
        // A failure is met when the block's turn comes; until then it must not count as unhandled.
        frame.then(noteBytes, () => undefined)
        yield pending
      }
    }
  }
}

function pendingBlock(segment: string, index: number, frame: Uint8Array, runtime: Runtime): PendingBlock {
  const decode = async (): Promise<BlockView> => await runtime.decode(frame)
  const content = decode()
  // As above.
  content.catch(() => undefined)
  return { segment, index, bytes: frame.length, bodyBytes: bodyBytesOf(frame), content }
}

/** What the frame takes when it is decompressed. One that cannot be takes nothing. */
function bodyBytesOf(frame: Uint8Array): number {
  try {
    return frameBodyBytes(frame, blockBodyBytesMax)
  } catch (error) {
    if (error instanceof SegmentError) return 0
    throw error
  }
}

async function fetchBlock(
  server: Server,
  segment: string,
  index: number,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const params = { segment, blockIndex: String(index) }
  return readBody(await callXrpc(server, { method: 'getBlock', params, signal }), frameBytesMax)
}

/** The decoded block, or why it cannot be had. It is fetched once more by itself, in case it was spoilt on its way. */
async function settleBlock(
  reader: ArchiveReader,
  source: PendingBlock,
  cursor: number,
): Promise<BlockView | string> {
  const { runtime, server, signal, onStatus } = reader
  const said = (error: unknown): string => {
    if (!(error instanceof SegmentError)) throw error
    return `block ${source.index} of ${source.segment} does not decode: ${error.message}`
  }
  try {
    return await source.content
  } catch (error) {
    const detail = said(error)
    await checkDecoder(runtime)
    onStatus({ type: 'reconnecting', reason: 'archive-failed', detail, delayMs: 0, attempt: 1, cursor })
  }
  const frame = await fetchBlock(server, source.segment, source.index, signal)
  try {
    return await runtime.decode(frame)
  } catch (error) {
    const detail = said(error)
    onStatus({ type: 'malformed', source: 'archive', seq: undefined, detail })
    return detail
  }
}
