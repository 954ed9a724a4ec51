/** The tables as statements that fit every one of them need to know them: columns with their types, and the key. */
import type { IndexDatabase } from './schema.ts'

export type TableName = Exclude<keyof IndexDatabase, 'visibleRecords'>
export type RowOf<T extends TableName> = IndexDatabase[T]
export type ColumnType = 'text' | 'bigint'

export interface TableShape<Row> {
  /** Rows with an equal key are one row. Empty: rows that are there already stay as they are. */
  readonly key: readonly (keyof Row & string)[]
  readonly columns: { readonly [C in keyof Row & string]: ColumnType }
}

export const tables: { readonly [T in TableName]: TableShape<RowOf<T>> } = {
  records: {
    key: ['uri'],
    columns: {
      uri: 'text',
      did: 'text',
      collection: 'text',
      cid: 'text',
      json: 'text',
      indexedAt: 'bigint',
      createdAt: 'bigint',
      feedTime: 'bigint',
    },
  },
  entries: { key: ['uri'], columns: { uri: 'text', did: 'text', kind: 'text', feedTime: 'bigint' } },
  views: { key: ['uri'], columns: { uri: 'text', did: 'text', view: 'text' } },
  endorsements: { key: ['uri'], columns: { uri: 'text', issuer: 'text', subject: 'text' } },
  follows: { key: ['uri'], columns: { uri: 'text', viewer: 'text', subject: 'text' } },
  organizations: { key: ['did'], columns: { did: 'text' } },
  handles: { key: ['did'], columns: { did: 'text', handle: 'text' } },
  accounts: {
    key: ['did'],
    columns: {
      did: 'text',
      status: 'text',
      statusSeq: 'bigint',
      hostStatus: 'text',
      hidden: 'bigint',
      checkedAt: 'bigint',
      isAuthor: 'bigint',
    },
  },
  labels: {
    key: [],
    columns: {
      src: 'text',
      did: 'text',
      uri: 'text',
      cid: 'text',
      val: 'text',
      neg: 'bigint',
      cts: 'bigint',
      exp: 'bigint',
    },
  },
  cursors: { key: ['source'], columns: { source: 'text', cursor: 'bigint' } },
  foldedEvents: { key: ['seq'], columns: { seq: 'bigint', fingerprint: 'text' } },
  collectionItems: {
    key: ['collectionUri', 'activityUri', 'activityCid'],
    columns: { collectionUri: 'text', activityUri: 'text', activityCid: 'text', feedTime: 'bigint' },
  },
  awards: {
    key: ['uri'],
    columns: { uri: 'text', issuer: 'text', subject: 'text', badgeUri: 'text', badgeCid: 'text' },
  },
  responses: {
    key: ['uri'],
    columns: {
      uri: 'text',
      did: 'text',
      awardUri: 'text',
      awardCid: 'text',
      rejected: 'bigint',
      feedTime: 'bigint',
      indexedAt: 'bigint',
    },
  },
  superseded: {
    key: ['uri'],
    columns: {
      uri: 'text',
      did: 'text',
      cid: 'text',
      indexedAt: 'bigint',
      createdAt: 'bigint',
      supersededAt: 'bigint',
    },
  },
  handleRequests: {
    key: ['did'],
    columns: { did: 'text', seq: 'bigint', attempts: 'bigint', dueAt: 'bigint' },
  },
  policies: { key: ['name'], columns: { name: 'text', value: 'text' } },
  remakes: {
    key: ['did'],
    columns: {
      did: 'text',
      seq: 'bigint',
      place: 'bigint',
      version: 'bigint',
      accountVersion: 'bigint',
      isHiding: 'bigint',
      isDefiner: 'bigint',
      isLister: 'bigint',
      contents: 'text',
      failures: 'bigint',
    },
  },
}

export function columnsOf(table: TableName): [name: string, type: ColumnType][] {
  return Object.entries(tables[table].columns)
}
