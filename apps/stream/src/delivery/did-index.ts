/** Power of two. With five million DIDs a map has some 20,000 of them. */
const shardCount = 256

interface Shard<T> {
  /** The entry that named a DID first. Most DIDs are named by one entry. */
  readonly first: Map<string, T>
  /** All others that name it. */
  readonly further: Map<string, T[]>
}

/**
 * Which entries name a DID. Made for millions of DIDs: a DID that one entry names takes one place in a map and nothing
 * more. There are many maps, because a map that grows is copied in one turn of the event loop.
 */
export class DidIndex<T extends object> {
  readonly #shards: readonly Shard<T>[] = Array.from({ length: shardCount }, () => ({
    first: new Map<string, T>(),
    further: new Map<string, T[]>(),
  }))

  /** Does nothing for an entry that names the DID already and was the last to do so. */
  add(did: string, entry: T): void {
    const { first, further } = this.#shardOf(did)
    const known = first.get(did)
    const more = further.get(did)
    if (known === undefined) first.set(did, entry)
    else if (more === undefined) {
      if (known !== entry) further.set(did, [entry])
    } else if (more.at(-1) !== entry) more.push(entry)
  }

  /** Does nothing for an entry that does not name the DID. */
  remove(did: string, entry: T): void {
    const { first, further } = this.#shardOf(did)
    const more = further.get(did)
    if (first.get(did) === entry) {
      const next = more?.pop()
      if (next === undefined) first.delete(did)
      else first.set(did, next)
    } else if (more) {
      const at = more.indexOf(entry)
      const last = at === -1 ? undefined : more.pop()
      if (last !== undefined && last !== entry) more[at] = last
    }
    if (more?.length === 0) further.delete(did)
  }

  /** Whether the entry names the DID. */
  names(did: string, entry: T): boolean {
    const { first, further } = this.#shardOf(did)
    return first.get(did) === entry || further.get(did)?.includes(entry) === true
  }

  /** Calls `visit` once for each entry that names the DID. */
  forEach(did: string, visit: (entry: T) => void): void {
    const { first, further } = this.#shardOf(did)
    const entry = first.get(did)
    if (entry === undefined) return
    visit(entry)
    further.get(did)?.forEach(visit)
  }

  #shardOf(did: string): Shard<T> {
    let hash = 0
    // The end of a did:plc is random.
    for (let i = Math.max(0, did.length - 4); i < did.length; i++)
      hash = (hash * 37 + did.charCodeAt(i)) % shardCount
    return this.#shards[hash] as Shard<T> // the hash is below the count
  }
}
