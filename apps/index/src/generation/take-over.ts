/**
 * What a generation that was built from the stream gets from the one that it takes the place of, because the stream does
 * not tell it: labels, handles, what hosts said of accounts, and places of records that may come back. If both have followed
 * one stream, both are at the same event of it.
 */
import type { Batch, IndexWriter, PagedTable, RowOf } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import type { Fold } from '../fold/fold.ts'

type Account = RowOf<'accounts'>

export interface TakeOver {
  readonly from: IndexWriter
  readonly to: IndexWriter
  /** The fold of `to`. */
  readonly fold: Fold
  /** `from` has followed another stream, so its numbers mean nothing in `to`. */
  readonly isAnother: boolean
}

/** A host's word that hides or shows an account. */
type HostWord = Pick<Account, 'did' | 'statusSeq'> & { readonly hostStatus: string }

/**
 * A page at a time, each in transactions of its own, because there may be millions of labels and accounts. Doing it again,
 * after a kill, puts everything as it is by then. Nothing else may be written to either of them meanwhile.
 */
export async function takeOver(parts: TakeOver): Promise<void> {
  const { fold } = parts
  await eachPage(parts, 'labels', (batch, _, page) => batch.put('labels', page))
  // After the labels that were read through them.
  await eachPage(parts, 'cursors', (batch, _, page) =>
    batch.put(
      'cursors',
      page.filter(({ source }) => source.startsWith('labels:')),
    ),
  )
  await eachPage(parts, 'superseded', (batch, _, page) => takePlaces(batch, page))
  await eachPage(
    parts,
    'accounts',
    (batch, earlier, page) => takeAccounts(batch, earlier, page, parts),
    async (words) => {
      // These change what feeds show of all records of an account.
      for (const { did, statusSeq, hostStatus } of words) await fold.setHostStatus(did, statusSeq, hostStatus)
    },
  )
}

/** Takes each page of a table in a transaction, and does what is left to do after it. */
async function eachPage<T extends PagedTable, Left>(
  { from, to }: TakeOver,
  table: T,
  take: (batch: Batch, earlier: Batch, page: RowOf<T>[]) => Promise<Left>,
  after: (left: Left) => Promise<void> = async () => undefined,
): Promise<void> {
  for (let last: RowOf<T> | undefined; ;) {
    const { page, left } = await from.write(async (earlier) => {
      const rows = await earlier.page(table, last)
      return { page: rows, left: await to.write((batch) => take(batch, earlier, rows)) }
    })
    await after(left)
    last = page.at(-1)
    if (last === undefined) return
  }
}

/** Returns the words that make an account hidden or shown, which are not taken yet. */
async function takeAccounts(
  batch: Batch,
  earlier: Batch,
  page: readonly Account[],
  { isAnother }: TakeOver,
): Promise<HostWord[]> {
  const dids = page.map(({ did }) => did)
  const own = new Map((await batch.load('accounts', dids)).map((account) => [account.did, account]))
  const taken: Account[] = []
  const words: HostWord[] = []
  for (const { did, status, hostStatus, hidden, checkedAt } of page) {
    const account = own.get(did)
    // Another stream may say something else.
    if (account?.status !== status) continue
    if (hidden === account.hidden) taken.push({ ...account, hostStatus, checkedAt })
    else if (hostStatus !== null) words.push({ did, statusSeq: account.statusSeq, hostStatus })
  }
  await batch.put('accounts', taken)
  const authors = page.filter(({ did, isAuthor }) => isAuthor === 1n && own.get(did)?.isAuthor === 1n)
  await takeHandles(
    batch,
    earlier,
    authors.map(({ did }) => did),
    isAnother,
  )
  return words
}

/** The handles of accounts, and which of them are to be looked up. */
async function takeHandles(
  batch: Batch,
  earlier: Batch,
  authors: readonly Did[],
  isAnother: boolean,
): Promise<void> {
  await batch.remove('handles', authors)
  await batch.put('handles', await earlier.load('handles', authors))
  await batch.remove('handleRequests', authors)
  const waiting = await earlier.load('handleRequests', authors)
  await batch.put(
    'handleRequests',
    waiting.map((request) => ({ ...request, seq: isAnother ? 0n : request.seq })),
  )
}

/** The places of records that a marker took away and that have not come back. The archive may no longer have those records. */
async function takePlaces(batch: Batch, page: readonly RowOf<'superseded'>[]): Promise<void> {
  const uris = page.map(({ uri }) => uri)
  const present = await batch.load('records', uris, ['uri'])
  const away = await batch.load('superseded', uris, ['uri'])
  const known = new Set([...present, ...away].map(({ uri }) => uri))
  await batch.put(
    'superseded',
    page.filter(({ uri }) => !known.has(uri)),
  )
}
