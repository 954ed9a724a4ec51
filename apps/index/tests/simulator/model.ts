/**
 * What must hold of a database of the index: its rows are a function of the events up to its cursor, and of what hosts said
 * of accounts since. It is read with a connection of its own, and compared with the plainest form of the rules.
 */
import Database from 'better-sqlite3'
import type { StreamEvent } from '@tributary/protocol'
import { reference, type Shown } from '../reference.ts'
import { source } from './index-process.ts'

type Words = ReadonlyMap<string, string>

export class DatabaseReader implements Disposable {
  readonly path: string
  readonly #db: Database.Database
  #version: unknown

  constructor(path: string) {
    this.path = path
    this.#db = new Database(path, { readonly: true })
    this.#db.defaultSafeIntegers(true)
  }

  /** Whether something was written since the last call. */
  hasChanged(): boolean {
    const version = this.#db.pragma('data_version', { simple: true })
    const isOther = version !== this.#version
    this.#version = version
    return isOther
  }

  /** Whether rows that follow from the records are still to be made again. */
  isBehind(): boolean {
    return this.#rows('select 1 from remakes').length > 0
  }

  get cursor(): number {
    const [row] = this.#rows<{ cursor: bigint }>('select cursor from cursors where source = ?', source)
    return Number(row?.cursor ?? 0n)
  }

  /** What hosts said of accounts that counts. */
  words(): Words {
    const rows = this.#rows<{ did: string; hostStatus: string }>(
      'select did, hostStatus from accounts where hostStatus is not null',
    )
    return new Map(rows.map(({ did, hostStatus }) => [did, hostStatus]))
  }

  /** Accounts of which the stream has told anything, as far as it still has any of their events. */
  accounts(): ReadonlySet<string> {
    return new Set(this.#rows<{ did: string }>('select did from accounts').map(({ did }) => did))
  }

  /** Accounts whose records the stream has told of, as far as it still has any of their events. */
  authors(): ReadonlySet<string> {
    const rows = this.#rows<{ did: string }>('select did from accounts where isAuthor = 1')
    return new Set(rows.map(({ did }) => did))
  }

  handles(): Words {
    const rows = this.#rows<{ did: string; handle: string }>('select did, handle from handles')
    return new Map(rows.map(({ did, handle }) => [did, handle]))
  }

  /** In what its rows differ from what the rules say. Undefined when they do not. */
  difference(events: readonly StreamEvent[], words: Words): string | undefined {
    const { cursor } = this
    const wanted = sorted(reference(upTo(events, cursor), words))
    const found = sorted(this.#shown())
    const isBehind = this.isBehind()
    for (const [table, rows] of Object.entries(wanted)) {
      if (isBehind && table !== 'records') continue
      if (found[table]?.join('\n') !== rows.join('\n')) {
        const has = (found[table] ?? []).filter((row) => !rows.includes(row))
        const lacks = rows.filter((row) => !found[table]?.includes(row))
        return `at ${cursor}, ${table} has ${has.join('; ')}, and lacks ${lacks.join('; ')}`
      }
    }
    return this.#leftOfDeleted(upTo(events, cursor))
  }

  /** Rows that are kept of an account that was deleted, and did not write since. */
  #leftOfDeleted(events: readonly StreamEvent[]): string | undefined {
    const deleted = deletedOf(events)
    if (deleted.size === 0) return undefined
    for (const did of deleted.difference(authorsOf(events))) {
      const places = this.#rows(
        'select 1 from superseded where uri > ? and uri < ?',
        `at://${did}/`,
        `at://${did}0`,
      )
      const handles = this.#rows('select 1 from handles where did = ?', did)
      if (places.length > 0 || handles.length > 0)
        return `${did} was deleted, and ${places.length} places and ${handles.length} handles of it are left`
    }
    return undefined
  }

  [Symbol.dispose](): void {
    this.#db.close()
  }

  #shown(): Shown {
    const values = <T>(sql: string): T[] => this.#db.prepare(sql).raw().all() as T[] // the columns that are named
    return {
      records: values('select uri, cid, indexedAt, createdAt from records'),
      entries: values('select uri, kind, feedTime from entries'),
      endorsements: values('select issuer, subject from endorsements'),
      follows: values('select viewer, subject from follows'),
      organizations: values<[Shown['organizations'][number]]>('select did from organizations').map(
        ([did]) => did,
      ),
    }
  }

  #rows<T>(sql: string, ...parameters: string[]): T[] {
    return this.#db.prepare(sql).all(...parameters) as T[] // the columns that are named
  }
}

/** The events that are in an index at a cursor. */
export function upTo(events: readonly StreamEvent[], cursor: number): readonly StreamEvent[] {
  const end = events.findIndex(({ seq }) => seq > cursor)
  return end < 0 ? events : events.slice(0, end)
}

/** Row order has no meaning here. */
function sorted(what: Shown): Record<string, string[]> {
  return Object.fromEntries(
    Object.entries(what).map(([name, rows]) => [name, rows.map((row: unknown) => String(row)).toSorted()]),
  )
}

/** The accounts that wrote records since they were last deleted. */
export function authorsOf(events: readonly StreamEvent[]): Set<string> {
  const authors = new Set<string>()
  for (const event of events)
    if (event.kind === 'commit' && event.operation !== 'delete') authors.add(event.did)
    else if (event.kind === 'account' && !event.account.active && event.account.status === 'deleted')
      authors.delete(event.did)
  return authors
}

/** The accounts that the stream calls deleted. */
function deletedOf(events: readonly StreamEvent[]): Set<string> {
  const deleted = new Set<string>()
  for (const event of events) {
    if (event.kind !== 'account') continue
    if (!event.account.active && event.account.status === 'deleted') deleted.add(event.did)
    else deleted.delete(event.did)
  }
  return deleted
}
