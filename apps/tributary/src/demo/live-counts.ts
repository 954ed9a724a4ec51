/** Counts and delays of every stage, from the PDSs to the feed. Each counts in its own unit. */

const samplesMax = 50
/** Commits whose time is kept until the later stages show them. */
const pendingMax = 10_000

/** The delays seen last. */
class Delays {
  readonly #samples: number[] = []

  add(delayMs: number): void {
    this.#samples.push(Math.max(0, delayMs))
    if (this.#samples.length > samplesMax) this.#samples.shift()
  }

  get medianMs(): number | undefined {
    return this.#samples.toSorted((a, b) => a - b)[Math.floor(this.#samples.length / 2)]
  }
}

export class LiveCounts {
  writes = 0
  relayWrites = 0
  rows = 0
  indexedRows = 0
  feedEntries = 0
  readonly relayDelays = new Delays()
  readonly streamDelays = new Delays()
  readonly feedDelays = new Delays()
  /** When the PDS made a commit, by its rev, and a record, by its address. */
  readonly #commitTimes = new Map<string, number>()
  readonly #recordTimes = new Map<string, number>()

  /** Rows that the index has not applied, up to a seq of the stream, and when they came out of the stream. */
  readonly #unindexed: { rows: number; seq: number; atMs: number }[] = []

  rowsAtStream(rows: number, seq: number): void {
    this.rows += rows
    const newest = this.#unindexed.at(-1)
    if (newest && this.#unindexed.length >= pendingMax)
      Object.assign(newest, { rows: newest.rows + rows, seq })
    else this.#unindexed.push({ rows, seq, atMs: Date.now() })
  }

  /** The index has applied the rows up to a seq of the stream. */
  indexAt(seq: number): void {
    const open = this.#unindexed.findIndex((batch) => batch.seq > seq)
    const applied = this.#unindexed.splice(0, open < 0 ? Infinity : open)
    for (const { rows } of applied) this.indexedRows += rows
  }

  /** Milliseconds since the oldest row that the index has not applied came out of the stream. */
  get indexLagMs(): number {
    const [oldest] = this.#unindexed
    return oldest ? Date.now() - oldest.atMs : 0
  }

  commitAtRelay(commit: {
    did: string
    rev: string
    timeMs: number
    writes: { collection: string; rkey: string; action: string }[]
  }): void {
    this.relayWrites += commit.writes.length
    this.relayDelays.add(Date.now() - commit.timeMs)
    keep(this.#commitTimes, `${commit.did} ${commit.rev}`, commit.timeMs)
    for (const { action, collection, rkey } of commit.writes) {
      if (action === 'create')
        keep(this.#recordTimes, `at://${commit.did}/${collection}/${rkey}`, commit.timeMs)
    }
  }

  commitAtStream(did: string, rev: string): void {
    const madeAt = this.#commitTimes.get(`${did} ${rev}`)
    if (madeAt !== undefined) this.streamDelays.add(Date.now() - madeAt)
  }

  /** An entry that the feed shows for the first time. */
  entryInFeed(subject: string): void {
    this.feedEntries++
    const madeAt = this.#recordTimes.get(subject)
    if (madeAt !== undefined) this.feedDelays.add(Date.now() - madeAt)
  }
}

function keep(times: Map<string, number>, key: string, timeMs: number): void {
  times.set(key, timeMs)
  const oldest = times.size > pendingMax ? times.keys().next().value : undefined
  if (oldest !== undefined) times.delete(oldest)
}
