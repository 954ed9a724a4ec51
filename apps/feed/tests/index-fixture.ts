/**
 * A real index database for the tests, filled row by row as the index service leaves it: records, and what it derives
 * from them for the feed.
 */
import {
  openIndexWriter,
  parseDatetime,
  type IndexWriter,
  type RowOf,
  type TableName,
} from '@tributary/index-store'
import { type Did, type EntryKind, type QualityLabel, recordUri } from '@tributary/protocol'
import { createRecordViews } from '@tributary/record-view'
import { loadLexicons } from '@tributary/xrpc'
import { collectionOf, did, noon, recordCid, recordOf } from './sample.ts'

export interface LabelRow {
  readonly src?: Did
  readonly did: Did
  readonly val: QualityLabel
  readonly neg?: boolean
  readonly cts?: string
  readonly exp?: string
  readonly uri?: string
  readonly cid?: string
}

export interface EntryRow {
  readonly did: Did
  readonly kind?: EntryKind
  /** Feed time; noon unless given. */
  readonly at?: string
  readonly rkey?: string
  /** A valid record of the kind unless given. */
  readonly record?: object
}

const views = createRecordViews(loadLexicons())

/** What the index derives from records, by the record's address. */
const derived = ['entries', 'follows', 'endorsements'] as const
const readTables = [...derived, 'views', 'records', 'organizations', 'labels', 'handles', 'accounts'] as const

export class IndexFixture implements AsyncDisposable {
  readonly #writer: IndexWriter
  #count = 0

  private constructor(writer: IndexWriter) {
    this.#writer = writer
  }

  static async open(path: string): Promise<IndexFixture> {
    return new IndexFixture(await openIndexWriter(path))
  }

  /** Adds rows as they are. */
  async put<T extends TableName>(table: T, ...rows: RowOf<T>[]): Promise<void> {
    await this.#writer.write((batch) => batch.put(table, rows))
  }

  /** Stores an entry with its record and returns its address. */
  async entry({
    did,
    kind = 'cert.create',
    at = noon,
    rkey = this.nextKey(),
    record = recordOf(kind),
  }: EntryRow): Promise<string> {
    const uri = await this.record(did, collectionOf[kind], record, { at, rkey })
    await this.put('entries', { uri, did, kind, feedTime: micros(at) })
    return uri
  }

  /** Stores several entries of one account a second apart, and returns their addresses, newest first. */
  async entries(account: Did, count: number): Promise<string[]> {
    const uris: string[] = []
    for (let i = 0; i < count; i++) {
      const at = new Date(Date.parse(noon) + i * 1000).toISOString()
      uris.unshift(await this.entry({ did: account, at }))
    }
    return uris
  }

  /** Stores a record with its view, and returns its address. */
  async record(
    did: Did,
    collection: string,
    record: object,
    { at = noon, rkey = 'self' }: { at?: string; rkey?: string } = {},
  ): Promise<string> {
    const uri = recordUri(did, collection, rkey)
    const time = micros(at)
    await this.put('records', {
      uri,
      did,
      collection,
      cid: recordCid,
      json: JSON.stringify(record),
      indexedAt: time,
      createdAt: time,
      feedTime: time,
    })
    const view = views.of(collection, record)
    if (view !== undefined) await this.put('views', { uri, did, view })
    return uri
  }

  async remove(uri: string): Promise<void> {
    await this.#writer.write(async (batch) => {
      for (const table of [...derived, 'views', 'records'] as const) await batch.remove(table, [uri])
    })
  }

  async follow(viewer: Did, subject: Did): Promise<string> {
    const uri = recordUri(viewer, 'app.attested.graph.follow', this.nextKey())
    await this.put('follows', { uri, viewer, subject })
    return uri
  }

  async followMany(viewer: Did, subjects: readonly Did[]): Promise<void> {
    const rows = subjects.map((subject) => ({
      uri: recordUri(viewer, 'app.attested.graph.follow', this.nextKey()),
      viewer,
      subject,
    }))
    await this.put('follows', ...rows)
  }

  /** A valid endorsement: an entry of its issuer, and a reason for its subject to be in the scope. */
  async endorsement(issuer: Did, subject: Did): Promise<string> {
    const record = recordOf('endorsement.award', {
      subject: { $type: 'app.attested.defs#did', did: subject },
    })
    const uri = await this.entry({ did: issuer, kind: 'endorsement.award', record })
    await this.put('endorsements', { uri, issuer, subject })
    return uri
  }

  async organization(account: Did): Promise<void> {
    await this.put('organizations', { did: account })
  }

  async label(row: LabelRow): Promise<void> {
    const {
      src = did('labeler'),
      val,
      neg = false,
      cts = '2026-01-01T00:00:00Z',
      exp,
      uri = row.did,
      cid,
    } = row
    await this.put('labels', {
      src,
      did: row.did,
      uri,
      cid: cid ?? null,
      val,
      neg: neg ? 1n : 0n,
      cts: micros(cts),
      exp: exp === undefined ? null : micros(exp),
    })
  }

  /** Marks an account as hidden, as far as profiles go; the index takes out its rows of the other tables. */
  async hide(account: Did): Promise<void> {
    await this.put('accounts', {
      did: account,
      status: 'takendown',
      hostStatus: null,
      hidden: 1n,
      isAuthor: 1n,
      statusSeq: 1n,
      checkedAt: 0n,
    })
  }

  /** Empties every table that the feed reads. */
  async clear(): Promise<void> {
    await this.#writer.write(async (batch) => {
      for (const table of readTables) await batch.clear(table)
    })
  }

  async clearRecords(): Promise<void> {
    await this.#writer.write((batch) => batch.clear('records'))
  }

  async handle(account: Did, handle: string): Promise<void> {
    await this.put('handles', { did: account, handle })
  }

  nextKey(): string {
    return `3key${String(this.#count++).padStart(6, '0')}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer[Symbol.asyncDispose]()
  }
}

function micros(text: string): bigint {
  const moment = parseDatetime(text)
  if (moment === undefined) throw new Error(`not a moment: ${text}`)
  return moment
}
