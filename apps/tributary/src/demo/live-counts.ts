/** Counts and delays of every stage, from the PDSs to the feed. */

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
  written = 0
  relayEvents = 0
  streamEvents = 0
  /** The newest seq of the stream, and the seq that the index has applied. */
  streamSeq = 0
  indexSeq = 0
  feedEntries = 0
  readonly relayDelays = new Delays()
  readonly streamDelays = new Delays()
  readonly feedDelays = new Delays()
  /** When the PDS made a commit, by its rev, and a record, by its address. */
  readonly #commitTimes = new Map<string, number>()
  readonly #recordTimes = new Map<string, number>()

  commitAtRelay(commit: {
    did: string
    rev: string
    timeMs: number
    writes: { collection: string; rkey: string; action: string }[]
  }): void {
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
