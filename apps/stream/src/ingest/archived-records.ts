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
 * events brought since their collection was added, and those that a backfill wrote which was stopped on its way. Changes
 * are held in memory until the save of the states. An account is forgotten when its repository is whole.
 */
export class ArchivedRecords {
  readonly #select
  readonly #upsert
  readonly #forget
  #changes = new Map<string, Changes>()
  /** Changes that a save is writing. */
  #saving = new Map<string, Changes>()
  #count = 0

  constructor(database: StateDatabase) {
    this.#select = database.prepare<[string], { path: string; cid: Buffer }>(
      'SELECT path, cid FROM archived_records WHERE did = ?',
    )
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

  /** The records of an account, by path. */
  of(did: string): Map<string, string> {
    const layers = [this.#saving.get(did), this.#changes.get(did)]
    const isStoredForgotten = layers.some((layer) => layer?.isForgotten)
    const records = new Map<string, string>()
    if (!isStoredForgotten)
      for (const { path, cid } of this.#select.iterate(did)) records.set(path, cid.toString('latin1'))
    for (const layer of layers) {
      if (layer?.isForgotten) records.clear()
      for (const [path, cid] of layer?.records ?? []) records.set(path, cid)
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

  #changesOf(did: string): Changes {
    let changes = this.#changes.get(did)
    if (!changes) this.#changes.set(did, (changes = { isForgotten: false, records: new Map() }))
    return changes
  }
}
