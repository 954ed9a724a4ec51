/**
 * Hosts that may wait at a time: all that a relay names, and the places that accounts of others share. Where the relay names
 * none, accounts may name as many as they like.
 */
const hostsMax = 10_100
/** Marked accounts of a host that wait at a time. There may be millions: they are looked for again when these had their turn. */
const marksPerHostMax = 8

interface Waiting {
  /** Marked accounts, those that wait longest first. */
  readonly marks: Set<string>
  /** Whether the next turn of the host is that of a mark, and not of a job. */
  isForMark: boolean
}

/** The work that may be begun in the turn of a host. Each call tells whether it was. */
export interface TurnWork {
  mark: (did: string) => boolean
  ofJob: () => boolean
}

/**
 * The hosts of which something is to be read, each in its turn. A host comes last once it has had one: so it takes one turn
 * of each round like all others, however much of it is to be read, and however long it lets us wait.
 */
export class HostTurns {
  /** In the order of their turns. */
  readonly #waiting = new Map<string, Waiting>()

  has(host: string): boolean {
    return this.#waiting.has(host)
  }

  /** The hosts in the order of their turns. One may have its turn meanwhile, or leave. */
  hosts(): IterableIterator<string> {
    return this.#waiting.keys()
  }

  /** Something of a host is to be read. Its turn comes after those of all others that wait. */
  add(host: string): void {
    if (!this.has(host) && this.#waiting.size < hostsMax)
      this.#waiting.set(host, { marks: new Set(), isForMark: true })
  }

  /** A marked account is to be read in a turn of a host. */
  addMark(host: string, did: string): void {
    this.add(host)
    const marks = this.#waiting.get(host)?.marks
    if (marks && marks.size < marksPerHostMax) marks.add(did)
  }

  /** Gives a host its turn: marks and jobs have it alternately. Without anything to begin, the host leaves, and false is returned. */
  take(host: string, { mark, ofJob }: TurnWork): boolean {
    const waiting = this.#waiting.get(host)
    this.#waiting.delete(host)
    if (!waiting) return false
    const { marks, isForMark } = waiting
    const ofMarks = (): boolean => marks.values().some((did) => marks.delete(did) && mark(did))
    const isBegun = isForMark ? ofMarks() || ofJob() : ofJob() || ofMarks()
    if (isBegun) this.#waiting.set(host, { marks, isForMark: !isForMark })
    return isBegun
  }
}
