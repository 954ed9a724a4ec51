import type { StateDatabase } from '../state-database.ts'

/** A record that live events brought: whatever its repository holds now, the archive has that, or will. */
export const broughtLive = ''

/** What was noted of one account since the last save. */
interface Changes {
  /** What was stored of it does not count any more. */
  isForgotten: boolean
  records: Map<string, string>
}

/**
 * Which records the archive has of repositories that are being made whole, so that none is written twice: those that live
 * events brought since their collection was added, and how far a backfill came that was stopped on its way. Changes are
 * held in memory until the save of the states. An account is forgotten when its repository is whole.
 */
export class ArchivedRecords {
  readonly #select
  readonly #selectAny
  readonly #selectPaths
  readonly #upsert
  readonly #forget
  #changes = new Map<string, Changes>()
  /** Changes that a save is writing. */
  #saving = new Map<string, Changes>()
  #count = 0

  constructor(database: StateDatabase) {
    this.#select = database
      .prepare<[string, string], Buffer>('SELECT cid FROM archived_records WHERE did = ? AND path = ?')
      .pluck()
    this.#selectAny = database
      .prepare<[string], 1>('SELECT 1 FROM archived_records WHERE did = ? LIMIT 1')
      .pluck()
    this.#selectPaths = database
      .prepare<[string, string, string], string>(
        'SELECT path FROM archived_records WHERE did = ? AND path > ? AND path < ?',
      )
      .pluck()
    this.#upsert = database.prepare('INSERT OR REPLACE INTO archived_records VALUES (?, ?, ?)')
    this.#forget = database.prepare('DELETE FROM archived_records WHERE did = ?')
  }

  /** Changes that no save has taken yet. */
  get changeCount(): number {
    return this.#count
  }

  /** @param path `<collection>/<rkey>`. @param cid of the record that a backfill wrote, or `broughtLive`. */
  note(did: string, path: string, cid: string): void {
    this.#changesOf(did).records.set(path, cid)
    this.#count++
  }

  /** The repository is whole. */
  forget(did: string): void {
    const changes = this.#changesOf(did)
    changes.isForgotten = true
    changes.records.clear()
    this.#count++
  }

  /** The note of a record. Undefined when there is none. */
  get(did: string, path: string): string | undefined {
    for (const layer of this.#layers(did)) {
      const cid = layer.records.get(path)
      if (cid !== undefined || layer.isForgotten) return cid
    }
    return this.#select.get(did, path)?.toString('latin1')
  }

  /** Whether anything is noted of an account. A repository may have a million records, so they are never read at once. */
  has(did: string): boolean {
    for (const { isForgotten, records } of this.#layers(did)) {
      if (records.size > 0) return true
      if (isForgotten) return false
    }
    return this.#selectAny.get(did) === 1
  }

  /** The records of an account by path, or those of one of its collections. */
  of(did: string, collection?: string): Map<string, string> {
    // The sign after `/` is `0`.
    const [from, to] = collection === undefined ? ['', '\u{10ffff}'] : [`${collection}/`, `${collection}0`]
    const noted = this.#layers(did).flatMap(({ records }) => [...records.keys()])
    const paths = new Set([...noted, ...this.#selectPaths.all(did, from, to)])
    const records = new Map<string, string>()
    for (const path of paths) {
      const cid = from < path && path < to ? this.get(did, path) : undefined
      if (cid !== undefined) records.set(path, cid)
    }
    return records
  }

  /** Takes the changes made so far for a save. One save at a time. */
  take(): void {
    this.#saving = this.#changes
    this.#changes = new Map()
    this.#count = 0
  }

  /** Stores what was taken, within the transaction of the save. */
  write(): void {
    for (const [did, { isForgotten, records }] of this.#saving) {
      if (isForgotten) this.#forget.run(did)
      for (const [path, cid] of records) this.#upsert.run(did, path, Buffer.from(cid, 'latin1'))
    }
  }

  /** What was taken is stored. */
  written(): void {
    this.#saving = new Map()
  }

  /** Changes of an account that are not stored, the newest first. */
  #layers(did: string): Changes[] {
    return [this.#changes.get(did), this.#saving.get(did)].flatMap((layer) => layer ?? [])
  }

  #changesOf(did: string): Changes {
    let changes = this.#changes.get(did)
    if (!changes) this.#changes.set(did, (changes = { isForgotten: false, records: new Map() }))
    return changes
  }
}
