import { compileFilter, type EventFilter, type StreamEvent } from '@tributary/protocol'
import type { StreamBatch, StreamGap } from './batch.ts'
import type { Compression } from './compression.ts'
import { refusalError, StreamError } from './errors.ts'
import { hiddenRefusal } from './hidden-refusal.ts'
import type { Server } from './http.ts'
import { readSession, type SessionEnd } from './live-session.ts'
import { askedCursor, firstTimeSeq, nameOf, RecentEvents } from './recent-events.ts'
import { delay, Retries, type RetryPolicy } from './retry.ts'
import type { Runtime } from './runtime.ts'
import { messageBytesMax } from './socket.ts'
import type { ReconnectReason, StreamStatus } from './status.ts'
import { type Wire, wires } from './wire.ts'

/** A consumer is told of a cursor that moves without events this often, in milliseconds. */
const silentMsMax = 15_000
/** Where refusals are not shown, this many in a row by a server that is there may mean that the cursor is too old. */
const hiddenRefusalsMax = 3
/** The least time for a handshake, also where `giveUpMs` is less, because a refusal takes a moment. */
const openLimitMsMin = 2000
const unknownDictionary = 'UnknownZstdDictionary'
/** Gaps that are kept while nothing has a seq. */
const earlyGapsMax = 100
/** Clocks of one server differ by less. */
const timeSlackMicros = 60_000_000

export interface LiveOptions {
  server: Server
  runtime: Runtime
  compression: Compression
  filter: EventFilter
  /** Last seq seen; undefined starts at `sinceMicros`, or at the tip. */
  cursor: number | undefined
  /** Unix microseconds: where to start while no cursor is known. */
  sinceMicros?: number | undefined
  retry: RetryPolicy
  signal: AbortSignal
  onStatus: (status: StreamStatus) => void
  /** Whether the server has more after the cursor. Then it is given up when it says nothing for `giveUpMs`. Default false. */
  expectsMore?: boolean
}

/**
 * Follows the live stream from behind `cursor`, over as many connections as it takes (segment-format.md 13, steps 4
 * to 7). Every matching event comes once, in seq order. Ends when the signal aborts.
 * @throws StreamError, `CursorTooOld` when the server no longer holds what follows the cursor.
 */
export async function* followLive(options: LiveOptions): AsyncGenerator<StreamBatch, void> {
  const { server, runtime, compression, signal, onStatus } = options
  const wire = wires[server.version]
  const retries = new Retries(options.retry)
  const wants = compileFilter(options.filter)
  const recent = new RecentEvents()
  let cursor = options.cursor
  let hiddenRefusals = 0
  let yieldedAt = Date.now()
  /** Gaps for messages that came before anything had a seq. */
  let earlyGaps: StreamGap[] = []
  let movedAt = performance.now()

  while (!signal.aborted) {
    const asked = cursor
    recent.beginConnection()
    let openedAt: number | undefined
    let serverError: { error: string; message: string | undefined } | undefined
    onStatus({ type: 'connecting', cursor })
    const dictionaryId = await compression.dictionaryId(signal, onStatus)
    const from = asked === undefined ? options.sinceMicros : askedCursor(asked)
    const url = wire.subscribeUrl(server, options.filter, { cursor: from, dictionaryId })
    const session = readSession({
      open: (handlers) => runtime.openSocket(url, wire.subprotocol, handlers),
      idleLimitMs: runtime.idleLimitMs,
      silenceLimitMs: options.expectsMore === true ? options.retry.giveUpMs : Infinity,
      openLimitMs: Math.max(openLimitMsMin, options.retry.giveUpMs),
      readBinary: dictionaryId === undefined ? undefined : compression.read,
      onOpen: () => {
        openedAt = Date.now()
        onStatus({ type: 'live', cursor: asked })
      },
      signal,
    })

    let ended: SessionEnd | undefined
    try {
      for (;;) {
        const next = await session.next()
        if (next.done) {
          ended = next.value
          break
        }
        const read = readMessages(next.value, {
          asked,
          cursor,
          recent,
          wants,
          readMessage: wire.readMessage,
          onStatus,
        })
        const hasMoved = read.cursor !== cursor
        if (hasMoved) {
          retries.progressed()
          movedAt = performance.now()
        } else if (options.expectsMore === true && performance.now() - movedAt > options.retry.giveUpMs) {
          throw new StreamError('Stalled', `the stream does not go on from ${cursor ?? 'its start'}`)
        }
        cursor = read.cursor
        // What our own filter leaves out moves the cursor too.
        const isTold = hasMoved && Date.now() - yieldedAt >= silentMsMax
        const gaps = earlyGaps.length === 0 ? read.gaps : [...earlyGaps, ...read.gaps]
        const isWorth = read.events.length + gaps.length > 0 || read.hasProgress || isTold
        if (cursor === undefined) earlyGaps = boundedGaps(gaps)
        else if (isWorth) {
          yieldedAt = Date.now()
          earlyGaps = []
          yield { events: read.events, gaps, cursor, live: true }
        }
        serverError = read.serverError
        if (serverError) break
      }
    } finally {
      await session.return(undefined)
    }
    if (signal.aborted) return

    const wasUseful = openedAt !== undefined && Date.now() - openedAt > options.retry.maxMs
    if (wasUseful && ended?.cause !== 'silent') retries.progressed()
    if (dictionaryId !== undefined) {
      if (ended?.cause === 'undecodable') compression.giveUp(ended.detail, onStatus)
      if (isOpaque(ended) && !runtime.showsRefusals) compression.giveUp('no connection was opened', onStatus)
      if (isUnknownDictionary(ended)) await compression.refused(dictionaryId, signal, onStatus)
    }
    // A server of version 1 refuses no cursor. One that was asked for compression is asked without it first.
    const hasCursor = cursor !== undefined && server.version === 2 && dictionaryId === undefined
    const mayBeTooOld = hasCursor && isOpaque(ended) && !runtime.showsRefusals
    const refusal = mayBeTooOld ? await hiddenRefusal(server, url, signal) : undefined
    if (signal.aborted) return
    hiddenRefusals = mayBeTooOld && refusal === undefined ? hiddenRefusals + 1 : 0
    if (hiddenRefusals >= hiddenRefusalsMax) {
      throw new StreamError(
        'CursorTooOld',
        'no connection can be opened, perhaps because the cursor is too old',
      )
    }
    const { reason, error } = explain(ended, serverError, refusal)
    // A connection that we ended ourselves is no failure of the server.
    if (reason === 'consumer-busy') retries.progressed()
    const { attempt, delayMs } =
      reason === 'consumer-busy' ? { attempt: 0, delayMs: 0 } : retries.failed(error)
    onStatus({ type: 'reconnecting', reason, detail: error.message, delayMs, attempt, cursor: cursor ?? 0 })
    await delay(delayMs, signal)
  }
}

/** The first gaps of many, and how many more there were. */
function boundedGaps(gaps: readonly StreamGap[]): StreamGap[] {
  if (gaps.length <= earlyGapsMax) return [...gaps]
  const [last] = gaps.slice(-1)
  const kept = gaps.slice(0, earlyGapsMax - 1)
  return last ? [...kept, { ...last, detail: 'many more messages cannot be read' }] : kept
}

interface ReadState {
  asked: number | undefined
  cursor: number | undefined
  recent: RecentEvents
  wants: ReturnType<typeof compileFilter>
  readMessage: Wire['readMessage']
  onStatus: (status: StreamStatus) => void
}

interface ReadResult {
  events: StreamEvent[]
  gaps: StreamGap[]
  cursor: number | undefined
  /** The server said how far we have come. */
  hasProgress: boolean
  /** A terminal error message; what followed it was not read. */
  serverError?: { error: string; message: string | undefined }
}

/** Turns messages into events after the cursor, and moves it. Undecodable messages and notices move it too. */
function readMessages(
  texts: readonly string[],
  { asked, cursor, recent, wants, readMessage, onStatus }: ReadState,
): ReadResult {
  const events: StreamEvent[] = []
  const gaps: StreamGap[] = []
  let hasProgress = false
  /** The seq of a message that has one. Undefined when it came before. */
  const newSeq = (seq: number, name: () => string): number | undefined => {
    if (seq < firstTimeSeq) return cursor !== undefined && seq <= cursor ? undefined : seq
    return recent.hasCome(seq, name()) ? undefined : Math.max(seq, (cursor ?? 0) + 1)
  }
  const outOfOrder = (seq: number): void => {
    const detail = `seq ${seq} came after ${cursor}`
    onStatus({ type: 'malformed', source: 'live', seq, detail })
    gaps.push({ source: 'live', afterSeq: seq - 1, throughSeq: seq, detail })
  }
  for (const text of texts) {
    const message = readMessage(text)
    switch (message.type) {
      case 'event': {
        const { event } = message
        const isTime = event.seq >= firstTimeSeq
        if (asked !== undefined && event.seq < asked - (isTime ? timeSlackMicros : 0))
          throw futureCursor(asked, event.seq)
        const seq = newSeq(event.seq, () => nameOf(event))
        if (seq === undefined) {
          // The server sends the event at the cursor again after each reconnect.
          if (!isTime && event.seq !== asked) outOfOrder(event.seq)
          continue
        }
        cursor = seq
        if (wants(event)) events.push(seq === event.seq ? event : { ...event, seq })
        continue
      }
      case 'malformed': {
        const seq = message.seq === undefined ? undefined : newSeq(message.seq, () => message.detail)
        // A message at the cursor itself comes again after each reconnect.
        if (message.seq !== undefined && seq === undefined) continue
        onStatus({ ...message, source: 'live' })
        gaps.push({ source: 'live', afterSeq: cursor ?? 0, throughSeq: seq, detail: message.detail })
        cursor = seq ?? cursor
        continue
      }
      case 'progress':
        if (asked !== undefined && message.seq < asked) throw futureCursor(asked, message.seq)
        cursor = Math.max(cursor ?? 0, message.seq)
        hasProgress = true
        continue
      case 'unreadable': {
        const { firstSeq, lastSeq, detail } = message
        // A reader that stands at its end is told again after each reconnect.
        if (lastSeq <= (cursor ?? 0)) continue
        onStatus({ type: 'malformed', source: 'live', seq: lastSeq, detail })
        gaps.push({ source: 'live', afterSeq: firstSeq - 1, throughSeq: lastSeq, detail })
        cursor = Math.max(cursor ?? 0, lastSeq)
        continue
      }
      case 'info':
        if (message.name === 'FutureCursor' && asked) throw futureCursor(asked)
        onStatus(message)
        continue
      case 'error':
        return { events, gaps, cursor, hasProgress, serverError: message }
    }
  }
  return { events, gaps, cursor, hasProgress }
}

function futureCursor(asked: number, seq?: number): StreamError {
  const sent = seq === undefined ? '' : `, it sent seq ${seq}`
  const advice = 'it is another instance, or was reset. Start again without a cursor'
  return new StreamError('FutureCursor', `the server has not reached cursor ${asked}${sent}: ${advice}`)
}

function isOpaque(ended: SessionEnd | undefined): boolean {
  return ended?.cause === 'closed' && !ended.wasOpen && ended.end.refusal === undefined
}

function isUnknownDictionary(ended: SessionEnd | undefined): boolean {
  return ended?.cause === 'closed' && ended.end.refusal?.error === unknownDictionary
}

/** Why a connection ended, and the error that decides whether another one is worth opening. */
function explain(
  ended: SessionEnd | undefined,
  serverError: ReadResult['serverError'],
  hidden?: StreamError,
): { reason: ReconnectReason; error: StreamError } {
  if (hidden) return { reason: 'connect-failed', error: hidden }
  if (serverError) {
    const { error, message } = serverError
    const detail = message === undefined ? error : `${error}: ${message}`
    const code = error === 'CursorTooOld' || error === 'FutureCursor' ? error : 'ServiceUnavailable'
    return { reason: 'server-error', error: new StreamError(code, detail) }
  }
  if (ended === undefined || ended.cause !== 'closed') {
    if (ended?.cause === 'undecodable') {
      const detail = `a compressed message cannot be read: ${ended.detail}`
      return { reason: ended.cause, error: new StreamError('Unreachable', detail) }
    }
    if (ended?.cause === 'silent')
      return { reason: 'idle', error: new StreamError('Unreachable', 'the server sends nothing') }
    const detail = ended?.cause === 'idle' ? 'nothing was heard of the server' : 'the consumer is busy'
    return { reason: ended?.cause ?? 'closed', error: new StreamError('Unreachable', detail) }
  }
  const { refusal, code, reason, isOversized } = ended.end
  if (isOversized) {
    const detail = `the server sent a message of more than ${messageBytesMax} bytes`
    return { reason: 'closed', error: new StreamError('ProtocolError', detail) }
  }
  if (refusal) {
    const { status, retryAfterMs, ...body } = refusal
    if (body.error === unknownDictionary)
      return { reason: 'connect-failed', error: new StreamError('ServiceUnavailable', unknownDictionary) }
    const error = refusalError(status, body, retryAfterMs === undefined ? {} : { retryAfterMs })
    return { reason: 'connect-failed', error }
  }
  const { wasOpen } = ended
  const what = wasOpen ? `connection ended with ${code}` : 'no connection could be made'
  const error = new StreamError('Unreachable', `${what}${reason && `: ${reason}`}`)
  return { reason: wasOpen ? 'closed' : 'connect-failed', error }
}
