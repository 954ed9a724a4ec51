/** Builds streams of events for the fold's tests: accounts by letter, records by key, contents by what they hold. */
import { hash } from 'node:crypto'
import {
  IndexStorageError,
  type IndexWriter,
  openIndexWriter,
  parseDatetime,
  type RowOf,
  type TableName,
} from '@tributary/index-store'
import type { AccountEvent, CommitEvent, Did, StreamEvent } from '@tributary/protocol'
import { createRecordViews } from '@tributary/record-view'
import { loadLexicons } from '@tributary/xrpc'
import type { FeedPolicy } from '../src/fold/feed-rows.ts'
import { Fold } from '../src/fold/fold.ts'
import { openTestIndex } from './open-test-index.ts'

/** What feeds show of records. */
export const views = createRecordViews(loadLexicons())

export const day = '2026-03-04'

/** The DID of an account that tests call by a word. */
export function did(name: string): Did {
  return `did:plc:${name.padEnd(24, 'a')}` as Did // valid by construction
}

/** The content address that this test's world gives to a content: a plausible text that differs with the content. */
export function cidOf(value: unknown): string {
  const digest = hash('sha256', JSON.stringify(value), 'hex').slice(0, 16)
  return `bafyrei${BigInt(`0x${digest}`).toString(36).padStart(13, 'a')}`
}

export class Scenario implements AsyncDisposable {
  readonly connection: IndexWriter
  fold: Fold
  readonly log: StreamEvent[] = []
  #seq = 0
  /** The time that the next events carry. */
  now = `${day}T12:00:00.000000Z`

  private constructor(connection: IndexWriter, policy: FeedPolicy) {
    this.connection = connection
    this.fold = new Fold(connection, policy, views)
  }

  static async start(
    policy: FeedPolicy = { updateContentTypes: [] },
    { path, turnMs }: { path?: string; turnMs?: number } = {},
  ): Promise<Scenario> {
    const writer =
      path === undefined
        ? await openTestIndex()
        : await openIndexWriter(path, turnMs === undefined ? {} : { turnMs })
    const world = new Scenario(writer, policy)
    await world.fold.adopt(new AbortController().signal)
    return world
  }

  /** The index starts again on the same database with these settings. */
  async reopen(policy: FeedPolicy): Promise<void> {
    this.fold = new Fold(this.connection, policy, views)
    await this.fold.adopt(new AbortController().signal)
  }

  async put(
    author: string,
    collection: string,
    rkey: string,
    record: Record<string, unknown>,
  ): Promise<{ uri: string; cid: string }> {
    const { uri, cid, event } = putEvent(this.nextSeq(), this.now, author, collection, rkey, record)
    await this.send(event)
    return { uri, cid }
  }

  async delete(author: string, collection: string, rkey: string): Promise<void> {
    await this.send(deleteEvent(this.nextSeq(), this.now, author, collection, rkey))
  }

  async account(name: string, active: boolean, status?: string): Promise<void> {
    await this.send(accountEvent(this.nextSeq(), this.now, name, active, status))
  }

  async identity(name: string): Promise<void> {
    const seq = this.nextSeq()
    await this.send({
      kind: 'identity',
      seq,
      did: did(name),
      time: this.now,
      identity: { did: did(name), seq, time: this.now },
    })
  }

  /** The stream is about to write the account's present records; with `upstream`, somebody else says that it should. */
  async sync(name: string, from: 'stream' | 'upstream' = 'stream'): Promise<void> {
    await this.send(syncEvent(this.nextSeq(), this.now, name, from))
  }

  async send(event: StreamEvent): Promise<void> {
    this.#seq = Math.max(this.#seq, event.seq)
    this.log.push(event)
    await this.fold.apply('stream:test', [event], event.seq)
  }

  nextSeq(): number {
    this.#seq += 1
    return this.#seq
  }

  /** Every row of a table, in no order. */
  rows<T extends TableName>(table: T): Promise<RowOf<T>[]> {
    return rowsOf(this.connection, table)
  }

  /** The entries of everyone in feed order: kind and the record key. */
  async entries(): Promise<string[]> {
    const rows = await this.rows('entries')
    const inOrder = rows.toSorted(
      (a, b) => Number(b.feedTime - a.feedTime) || (a.uri < b.uri ? 1 : -1), // tests have no times far apart
    )
    return inOrder.map(({ kind, uri }) => `${kind} ${uri.split('/').at(-1)}`)
  }

  /** Who endorses whom, by name. */
  async endorsements(): Promise<string[]> {
    const rows = await this.rows('endorsements')
    return [...new Set(rows.map(({ issuer, subject }) => `${nameOf(issuer)} ${nameOf(subject)}`))].toSorted()
  }

  async follows(): Promise<string[]> {
    const rows = await this.rows('follows')
    const inOrder = rows.toSorted((a, b) => (a.uri < b.uri ? -1 : 1))
    return inOrder.map(({ viewer, subject }) => `${nameOf(viewer)} ${nameOf(subject)}`)
  }

  async organizations(): Promise<string[]> {
    return (await this.rows('organizations')).map((row) => nameOf(row.did)).toSorted()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.connection[Symbol.asyncDispose]()
  }
}

/** Every row of a table, in no order. */
export function rowsOf<T extends TableName>(writer: IndexWriter, table: T): Promise<RowOf<T>[]> {
  return writer.write((batch) => batch.loadAll(table))
}

/** A writer whose database fails when it is told to, with a transaction under way. */
export function failing(writer: IndexWriter, fails: () => boolean): IndexWriter {
  return {
    write: (work) =>
      writer.write(async (batch) => {
        const result = await work(batch)
        if (fails()) throw new IndexStorageError('the disk is gone')
        return result
      }),
    makeDurable: () => writer.makeDurable(),
    [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
  }
}

/** Inverse of `did` for names without a trailing `a`. */
function nameOf(account: Did): string {
  return account.slice('did:plc:'.length).replace(/a+$/, '')
}

export function putEvent(
  seq: number,
  time: string,
  author: string,
  collection: string,
  rkey: string,
  record: Record<string, unknown>,
): { uri: string; cid: string; event: CommitEvent } {
  const value = { $type: collection, ...record }
  const cid = cidOf(value)
  const path = { collection, rkey } as Pick<CommitEvent, 'collection' | 'rkey'> // tests name valid paths
  return {
    uri: `at://${did(author)}/${collection}/${rkey}`,
    cid,
    event: {
      kind: 'commit',
      seq,
      did: did(author),
      time,
      rev: `3${seq}`,
      operation: 'create',
      ...path,
      cid,
      record: value,
    },
  }
}

export function deleteEvent(
  seq: number,
  time: string,
  author: string,
  collection: string,
  rkey: string,
): CommitEvent {
  const path = { collection, rkey } as Pick<CommitEvent, 'collection' | 'rkey'> // tests name valid paths
  return { kind: 'commit', seq, did: did(author), time, rev: `3${seq}`, operation: 'delete', ...path }
}

export function accountEvent(
  seq: number,
  time: string,
  name: string,
  active: boolean,
  status?: string,
): AccountEvent {
  const account = { active, did: did(name), seq, time, ...(status !== undefined && { status }) }
  return { kind: 'account', seq, did: did(name), time, account }
}

export function syncEvent(
  seq: number,
  time: string,
  name: string,
  from: 'stream' | 'upstream' = 'stream',
): StreamEvent {
  const upstream = from === 'stream' ? { seq: 0, time: '' } : { seq, time }
  const sync = { did: did(name), rev: `3${seq}`, ...upstream, blocks: { $bytes: '' } }
  return { kind: 'sync', seq, did: did(name), time, sync }
}

/** Microseconds of a time of the tests' day. */
export function micros(time: string): bigint {
  const moment = parseDatetime(`${day}T${time}Z`)
  if (moment === undefined) throw new Error(`${time} is not a time`)
  return moment
}
