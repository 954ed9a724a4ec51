/** Rows for tests of reading: who follows and endorses whom, and entries by their times. */
import type { Did } from '@tributary/protocol'
import type { IndexReader, IndexWriter, Selection } from '../src/index.ts'
import { windowSteps } from '../src/select/window.ts'

export const viewer = did('viewer')
export const limits = { timeoutMs: 60_000 }
export const selection: Selection = { viewer, evaluators: [], labelers: [], limit: 3, now: 0n }

/** Selects each page by account, however many accounts are in scope. */
export const withoutWindow = { window: { ...windowSteps, accountsMin: 1_000_000, lookUpsPerAccount: 1 } }

export function did(name: string | number): Did {
  return `did:plc:${String(name).padStart(24, 'a')}` as Did // valid by construction
}

/** Follows and endorsements as table, from and subject; entries as author and time. */
export async function fill(
  writer: IndexWriter,
  rows: { follows?: string[][]; entries?: [Did, bigint, string?][] },
): Promise<void> {
  const relations = (rows.follows ?? []).map(([table = '', from = '', subject = ''], at) => ({
    table,
    uri: `at://${from}/${table}/${at}`,
    from: from as Did, // made by `did`
    subject: subject as Did, // made by `did`
  }))
  const of = (wanted: string) => relations.filter(({ table }) => table === wanted)
  await writer.write(async (batch) => {
    await batch.put(
      'follows',
      of('follows').map(({ uri, from, subject }) => ({ uri, viewer: from, subject })),
    )
    await batch.put(
      'endorsements',
      of('endorsements').map(({ uri, from, subject }) => ({ uri, issuer: from, subject })),
    )
    await batch.put(
      'entries',
      (rows.entries ?? []).map(([author, feedTime, rkey = String(feedTime)]) => ({
        uri: `at://${author}/a.b.c/${rkey}`,
        did: author,
        kind: 'cert.create',
        feedTime,
      })),
    )
  })
}

/** The times of the entries of a page. */
export const timesOf = (reader: IndexReader, more: Partial<Selection> = {}): Promise<number[]> =>
  reader.snapshot(limits, async (view) =>
    (await view.entries({ ...selection, ...more })).map(({ feedTime }) => Number(feedTime)),
  )
