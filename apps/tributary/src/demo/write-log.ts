/** Writes in the order in which they happened to each account, from wherever they were seen, and how two logs differ. */

export interface SeenWrite {
  action: 'create' | 'update' | 'delete'
  collection: string
  rkey: string
  /** Absent for a delete. */
  cid?: string
}

export class WriteLog {
  readonly #byAccount = new Map<string, string[]>()
  /** `did/collection/rkey` of every record that is there now, with its CID. */
  readonly #records = new Map<string, string>()
  #count = 0

  add(did: string, { action, collection, rkey, cid }: SeenWrite): void {
    const writes = this.#byAccount.get(did) ?? []
    if (writes.length === 0) this.#byAccount.set(did, writes)
    writes.push(`${action} ${collection}/${rkey} ${cid ?? ''}`)
    const key = `${did}/${collection}/${rkey}`
    if (cid === undefined) this.#records.delete(key)
    else this.#records.set(key, cid)
    this.#count++
  }

  get count(): number {
    return this.#count
  }

  /** The records that are there after all writes. */
  get records(): ReadonlyMap<string, string> {
    return this.#records
  }

  /** The first difference to what should have been seen, account by account; undefined when there is none. */
  differenceTo(expected: WriteLog): string | undefined {
    for (const [did, writes] of expected.#byAccount) {
      const found = this.#byAccount.get(did) ?? []
      const at = writes.findIndex((write, i) => found[i] !== write)
      if (at >= 0) return `${did}, write ${at + 1}: expected ${writes[at]}, found ${found[at] ?? 'nothing'}`
      if (found.length > writes.length)
        return `${did}: ${found.length - writes.length} writes that were never made`
    }
    for (const [did, writes] of this.#byAccount)
      if (!expected.#byAccount.has(did)) return `${did}: ${writes.length} writes that were never made`
    return undefined
  }
}

/** What differs between two states of the network; undefined when nothing does. */
export function differenceOfRecords(
  expected: ReadonlyMap<string, string>,
  found: ReadonlyMap<string, string>,
): string | undefined {
  for (const [key, cid] of expected)
    if (found.get(key) !== cid) return `${key}: expected ${cid}, found ${found.get(key)}`
  for (const key of found.keys()) if (!expected.has(key)) return `${key} is there, but on no PDS`
  return undefined
}
