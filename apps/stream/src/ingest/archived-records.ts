import type { StateDatabase } from '../state-database.ts'

/** In place of a CID: live events brought the record, so they bring every later content of it, too. */
export const broughtLive = ''

/** What was noted of one account since the last save. */
interface Changes {
  /** What was stored of it does not count any more. */
  isForgotten: boolean
  records: Map<string, string>
}

/** With so many notes of one account, its repository is read again instead. Notes of the same record count each time. */
export const notesMax = 5000
/** How many notes of forgotten accounts a save deletes, beside as many as it writes: a few milliseconds. */
const sweptAtOnce = 1000

/**
 * Which records the archive has of repositories that are being made whole, so that none is written twice: those that live
 * events brought since their collection was added, and how far a backfill came that was stopped on its way. Changes are
 * held in memory until the save of the states. An account is forgotten when its repository is whole.
 */
export class ArchivedRecords {
  readonly #select
  readonly #selectPaths
  readonly #notes
  readonly #addNotes
  readonly #upsert
  readonly #forget
  readonly #forgotten
  readonly #deleteSome
  readonly #deleteAccount
  #changes = new Map<string, Changes>()
  /** Changes that a save is writing. */
  #saving = new Map<string, Changes>()
  #count = 0

  constructor(database: StateDatabase) {
    const account = 'account = (SELECT id FROM noted_accounts WHERE did = ?)'
    this.#select = database
      .prepare<[string, string], Buffer>(`SELECT cid FROM archived_records WHERE ${account} AND path = ?`)
      .pluck()
    this.#selectPaths = database
      .prepare<[string, string, string], string>(
        `SELECT path FROM archived_records WHERE ${account} AND path > ? AND path < ?`,
      )
      .pluck()
    this.#notes = database.prepare<[string], number>('SELECT notes FROM noted_accounts WHERE did = ?').pluck()
    this.#addNotes = database
      .prepare<[string, number], number>(
        `INSERT INTO noted_accounts (did, notes) VALUES (?, ?)
         ON CONFLICT (did) DO UPDATE SET notes = notes + excluded.notes RETURNING id`,
      )
      .pluck()
    this.#upsert = database.prepare('INSERT OR REPLACE INTO archived_records VALUES (?, ?, ?)')
    this.#forget = database.prepare('UPDATE noted_accounts SET did = NULL WHERE did = ?')
    this.#forgotten = database
      .prepare<[], number>('SELECT id FROM noted_accounts WHERE did IS NULL LIMIT 1')
      .pluck()
    this.#deleteSome = database.prepare<[{ id: number; limit: number }]>(
      `DELETE FROM archived_records
       WHERE account = @id AND path IN (SELECT path FROM archived_records WHERE account = @id LIMIT @limit)`,
    )
    this.#deleteAccount = database.prepare('DELETE FROM noted_accounts WHERE id = ?')
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
    return this.#notesOf(did) > 0
  }

  /** Whether as many notes were made of an account as may be. */
  isFull(did: string): boolean {
    return this.#notesOf(did) >= notesMax
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
    let written = 0
    for (const [did, { isForgotten, records }] of this.#saving) {
      if (isForgotten) this.#forget.run(did)
      if (records.size === 0) continue
      const id = this.#addNotes.get(did, records.size)
      for (const [path, cid] of records) this.#upsert.run(id, path, Buffer.from(cid, 'latin1'))
      written += records.size
    }
    this.#sweep(sweptAtOnce + written)
  }

  /** What was taken is stored. */
  written(): void {
    this.#saving = new Map()
  }

  /** Deletes some notes of forgotten accounts. A host may have thousands of accounts forgotten at once. */
  #sweep(notes: number): void {
    for (let left = notes; left > 0;) {
      const id = this.#forgotten.get()
      if (id === undefined) return
      const { changes } = this.#deleteSome.run({ id, limit: left })
      if (changes < left) this.#deleteAccount.run(id)
      left -= changes + 1
    }
  }

  /** How many notes were made of an account. */
  #notesOf(did: string): number {
    let notes = 0
    for (const { isForgotten, records } of this.#layers(did)) {
      notes += records.size
      if (isForgotten) return notes
    }
    return notes + (this.#notes.get(did) ?? 0)
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
