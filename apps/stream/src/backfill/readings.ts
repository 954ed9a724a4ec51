/**
 * Repositories that are read at a time: in all, and of one host. A host may let us wait for minutes, and several may do
 * so together. Readings that take long leave their place to others, up to `slowReposMax` of them, so that it takes a
 * dozen hosts to hold up the rest. Large ones are counted apart, because they wait for their turn: `LargeTurns` says for
 * how long hosts may hold up each other there.
 */
export const reposMax = 8
const reposPerHostMax = 2
const largePerHostMax = 2
const slowReposMax = 16
const slowMs = 5000

/** The place of all accounts together whose documents are not known yet. They leave it as soon as their host is known. */
export const unknownHost = ''
/** The place of all hosts together that the relay does not read. No host has this name. */
export const unapprovedHost = '*'

export interface Reading {
  /** For whom the repository is read: the name of a host, `unknownHost` or `unapprovedHost`. */
  host: string
  readonly sinceMs: number
  /** It has its turn among the large ones, or waits for it, and so leaves its place to others. */
  isLarge: boolean
}

/** Repositories that are read now, and the places of their hosts. */
export class Readings {
  readonly #all = new Map<string, Reading>()

  get size(): number {
    return this.#all.size
  }

  has(did: string): boolean {
    return this.#all.has(did)
  }

  begin(did: string, host: string): Reading {
    const reading = { host, sinceMs: performance.now(), isLarge: false }
    this.#all.set(did, reading)
    return reading
  }

  end(did: string): void {
    this.#all.delete(did)
  }

  /** Gives a reading that is not large a place of its host, which was not known before. False when the host has none left. */
  move(reading: Reading, host: string): boolean {
    if (reading.host === host) return true
    if (this.#countOf(host, false) >= reposPerHostMax) return false
    reading.host = host
    return true
  }

  /**
   * The repository is a large one, and leaves its place to others while it waits for its turn and is read.
   * @returns for whom it waits. Undefined when too many large ones of its host do so: then it keeps its place.
   */
  enlarge(reading: Reading): string | undefined {
    const { host } = reading
    if (this.#countOf(host, true) >= largePerHostMax) return undefined
    reading.isLarge = true
    return host
  }

  /** How many repositories may be begun now. None when it is not above 0. */
  get free(): number {
    const nowMs = performance.now()
    const usual = this.#all
      .values()
      .filter(({ isLarge }) => !isLarge)
      .toArray()
    const slow = usual.filter(({ sinceMs }) => nowMs - sinceMs >= slowMs).length
    return reposMax + Math.min(slow, slowReposMax) - usual.length
  }

  /** The same of one host. */
  roomFor(host: string): number {
    return Math.min(this.free, reposPerHostMax - this.#countOf(host, false))
  }

  #countOf(host: string, isLarge: boolean): number {
    return this.#all
      .values()
      .filter((each) => each.host === host && each.isLarge === isLarge)
      .toArray().length
  }
}
