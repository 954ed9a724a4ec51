/**
 * Which stream the index has followed, and how far. A stream is known by its events and not by its address: one that was
 * set up anew answers at the same address, and one that moved answers at another.
 */
import type { Batch, IndexWriter } from '@tributary/index-store'
import type { StreamEvent } from '@tributary/protocol'

/** Events that are remembered. The stream's compaction may remove some, and hardly all. */
export const eventsRemembered = 64

/** An event as it is remembered: as a text that differs between events. */
export interface FoldedEvent {
  readonly seq: number
  readonly fingerprint: string
}

/** Events by seq, each as a text that differs between events. */
export type FoldedEvents = ReadonlyMap<number, string>

export class FollowedStream {
  readonly #writer: IndexWriter

  constructor(writer: IndexWriter) {
    this.#writer = writer
  }

  /** The last seq of that source whose event is in the index; 0 before the first. */
  cursor(source: string): Promise<number> {
    return this.#writer.write((batch) => this.cursorIn(batch, source))
  }

  /** The same as part of a transaction. */
  async cursorIn(batch: Batch, source: string): Promise<number> {
    const [row] = await batch.load('cursors', [source])
    return Number(row?.cursor ?? 0n)
  }

  /** The newest events that are in the index. */
  foldedEvents(): Promise<FoldedEvents> {
    return this.#writer.write(foldedEventsIn)
  }

  /** The time of the newest event that is in the index, as its stream gave it; undefined when none is known. */
  async newestTime(): Promise<string | undefined> {
    const folded = await this.foldedEvents()
    const newest = folded.get(Math.max(...folded.keys()))
    // As `fingerprintOf` wrote it.
    return newest?.split(' ')[2]
  }

  /**
   * Makes `source` the name of the stream that the index has followed so far. False when that stream had another address
   * and nothing is remembered by which it could be known: then nothing is done.
   */
  rename(source: string): Promise<boolean> {
    return this.#writer.write(async (batch) => {
      const cursors = await batch.loadAll('cursors')
      const known = cursors
        .filter((each) => each.source.startsWith('stream:'))
        .toSorted((a, b) => Number(b.cursor - a.cursor))
      const found = known.find(
        (each) => each.source === source || sourceOf(each.source.slice('stream:'.length)) === source,
      )
      const present = found ?? known[0]
      if (present === undefined || (known.length === 1 && present.source === source)) return true
      if (found === undefined && (await foldedEventsIn(batch)).size === 0) return false
      const others = known.filter((each) => each.source !== source)
      await batch.remove(
        'cursors',
        others.map((each) => each.source),
      )
      await batch.put('cursors', [{ source, cursor: present.cursor }])
      return true
    })
  }

  /** Part of a transaction: the events up to `cursor` are in the index. */
  async advance(batch: Batch, source: string, cursor: number, events: readonly FoldedEvent[]): Promise<void> {
    await batch.put('cursors', [{ source, cursor: BigInt(cursor) }])
    const newest = events.slice(-eventsRemembered)
    await batch.put(
      'foldedEvents',
      newest.map(({ seq, fingerprint }) => ({ seq: BigInt(seq), fingerprint })),
    )
    if (newest.length > 0) await batch.keepNewestEvents(eventsRemembered)
  }
}

async function foldedEventsIn(batch: Batch): Promise<FoldedEvents> {
  const events = await batch.loadAll('foldedEvents')
  return new Map(events.map(({ seq, fingerprint }) => [Number(seq), fingerprint]))
}

/** The name of a stream in the table of cursors, the same for every spelling of its address. */
export function sourceOf(streamUrl: string): string {
  return `stream:${new URL(streamUrl.replace(/^ws/, 'http')).origin}`
}

/** The newest of these events, as they are remembered. */
export function newestOf(events: readonly StreamEvent[]): FoldedEvent[] {
  return events
    .slice(-eventsRemembered)
    .map((event) => ({ seq: event.seq, fingerprint: fingerprintOf(event) }))
}

/** Characters of a time and of a revision that tell them apart. Another stream may send megabytes. */
const toldApartBy = 64

/** The stream's own time differs between events of two streams, also where they tell of the same change. */
export function fingerprintOf(event: StreamEvent): string {
  const begin = (text: string): string => text.slice(0, toldApartBy)
  const path = event.kind === 'commit' ? ` ${event.collection}/${event.rkey} ${begin(event.rev)}` : ''
  // Another stream may send text that a database does not take.
  return `${event.kind} ${event.did} ${begin(event.time)}${path}`.replace(
    /[^ -~]/g,
    (char) => `%${char.charCodeAt(0).toString(16)}`,
  )
}
