/**
 * Which stream the index has followed, and how far. A stream is known by its events and not by its address: one that was
 * set up anew answers at the same address, and one that moved answers at another.
 */
import type { IndexWriter } from '@tributary/index-store'
import type { StreamEvent } from '@tributary/protocol'

/** Events that are remembered. The stream's compaction may remove some, and hardly all. */
const eventsMax = 64

/** Events by seq, each as a text that differs between events. */
export type FoldedEvents = ReadonlyMap<number, string>

export class FollowedStream {
  readonly #connection: IndexWriter
  readonly #sql

  constructor(connection: IndexWriter) {
    const { sqlite } = connection
    this.#connection = connection
    this.#sql = {
      cursor: sqlite.prepare<[string], bigint>('select cursor from cursors where source = ?').pluck(),
      all: sqlite.prepare<[], { source: string; cursor: bigint }>(
        "select source, cursor from cursors where source like 'stream:%' order by cursor desc",
      ),
      move: sqlite.prepare<[string, bigint]>(
        'insert into cursors (source, cursor) values (?, ?) on conflict (source) do update set cursor = excluded.cursor',
      ),
      forgetOthers: sqlite.prepare<[string]>(
        "delete from cursors where source like 'stream:%' and source <> ?",
      ),
      folded: sqlite.prepare<[], { seq: bigint; fingerprint: string }>('select * from foldedEvents'),
      remember: sqlite.prepare<[bigint, string]>(
        'insert or replace into foldedEvents (seq, fingerprint) values (?, ?)',
      ),
      forgetOld: sqlite.prepare<[]>(
        `delete from foldedEvents where seq <=
           (select seq from foldedEvents order by seq desc limit 1 offset ${eventsMax})`,
      ),
    }
  }

  /** The last seq of that source whose event is in the index; 0 before the first. */
  cursor(source: string): number {
    return Number(this.#sql.cursor.get(source) ?? 0n)
  }

  /** The newest events that are in the index. */
  foldedEvents(): FoldedEvents {
    return new Map(this.#sql.folded.all().map(({ seq, fingerprint }) => [Number(seq), fingerprint]))
  }

  /**
   * Makes `source` the name of the stream that the index has followed so far. False when that stream had another address
   * and nothing is remembered by which it could be known: then nothing is done.
   */
  async rename(source: string): Promise<boolean> {
    const known = this.#sql.all.all()
    const found = known.find(
      (each) => each.source === source || sourceOf(each.source.slice('stream:'.length)) === source,
    )
    const present = found ?? known[0]
    if (present === undefined || (known.length === 1 && present.source === source)) return true
    if (found === undefined && this.foldedEvents().size === 0) return false
    await this.#connection.writeAtOnce(() => {
      this.#sql.move.run(source, present.cursor)
      this.#sql.forgetOthers.run(source)
    })
    return true
  }

  /** Part of a transaction: the events up to `cursor` are in the index. */
  advance(source: string, cursor: number, events: readonly StreamEvent[]): void {
    this.#sql.move.run(source, BigInt(cursor))
    for (const event of events.slice(-eventsMax))
      this.#sql.remember.run(BigInt(event.seq), fingerprintOf(event))
    this.#sql.forgetOld.run()
  }
}

/** The name of a stream in the table of cursors, the same for every spelling of its address. */
export function sourceOf(streamUrl: string): string {
  return `stream:${new URL(streamUrl.replace(/^ws/, 'http')).origin}`
}

/** The stream's own time differs between events of two streams, also where they tell of the same change. */
export function fingerprintOf(event: StreamEvent): string {
  const path = event.kind === 'commit' ? ` ${event.collection}/${event.rkey} ${event.rev}` : ''
  return `${event.kind} ${event.did} ${event.time}${path}`
}
