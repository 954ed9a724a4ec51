/** An index database as the index service leaves it: accounts of very different activity, and viewers who follow some. */
import { type Batch, openIndexWriter, type IndexWriter, type RowOf } from '@tributary/index-store'
import { type Did, type EntryKind, entryKinds, recordUri } from '@tributary/protocol'
import { createRecordViews } from '@tributary/record-view'
import { loadLexicons } from '@tributary/xrpc'
import {
  freeTextFields,
  randomFrom,
  sampleRecord,
  tidAt,
  type JsonRecord,
  type Random,
} from '@tributary/testkit'

export interface FeedIndex {
  path: string
  entries: number
  accounts: number
  /** Each follows `followsPerViewer` accounts. */
  viewers: readonly string[]
  followsPerViewer: number
  /** Each endorses `endorsementsPerEvaluator` accounts. */
  evaluators: readonly string[]
  endorsementsPerEvaluator: number
}

const accountCount = 2000
const viewerCount = 20
const followsPerViewer = 500
const evaluatorCount = 3
const endorsementsPerEvaluator = 200
/** Every tenth account is an organization. */
const organizationShare = 0.1
const entriesPerTransaction = 10_000
export const startMicros = Date.UTC(2025, 0, 1) * 1000
export const stepMicros = 20_000_000
export const recordCid = 'bafyreieos3lwft276jbcwfcuwgdftxpsexbxydiebo2jpfsleivbrs7nli'
const profileCollection = 'app.attested.actor.profile'

export const views = createRecordViews(loadLexicons())

export const collectionOf: Readonly<Record<EntryKind, string>> = {
  'cert.create': 'org.impact.claim.activity',
  'collection.create': 'org.impact.collection',
  'project.created_with_cert': 'org.impact.collection',
  'evaluation.create': 'org.impact.context.evaluation',
  'measurement.create': 'org.impact.context.measurement',
  'update.create': 'org.impact.context.attachment',
  'endorsement.award': 'app.attested.badge.award',
  'hyperboard.create': 'org.hyperboards.board',
}

/** Writes the database with the index's own store. About 30 s for a million entries. */
export async function fillFeedIndex(path: string, entries: number): Promise<FeedIndex> {
  await using store = await openIndexWriter(path)
  const random = randomFrom(1)
  const accounts = Array.from({ length: accountCount }, (_, index) => didOf('author', index))
  const viewers = Array.from({ length: viewerCount }, (_, index) => didOf('viewer', index))
  const evaluators = Array.from({ length: evaluatorCount }, (_, index) => didOf('grader', index))
  const writer = new FeedIndexWriter(store, random)
  await writer.accounts(accounts)
  await writer.relations('follows', viewers, pick(random, accounts, followsPerViewer * viewerCount))
  await writer.relations(
    'endorsements',
    evaluators,
    pick(random, accounts, endorsementsPerEvaluator * evaluatorCount),
  )
  for (let from = 0; from < entries; from += entriesPerTransaction)
    await writer.entries(accounts, from, Math.min(entries, from + entriesPerTransaction))
  return {
    path,
    entries,
    accounts: accountCount,
    viewers,
    followsPerViewer,
    evaluators,
    endorsementsPerEvaluator,
  }
}

export class FeedIndexWriter {
  readonly #store: IndexWriter
  readonly #random: Random

  constructor(store: IndexWriter, random: Random) {
    this.#store = store
    this.#random = random
  }

  async accounts(accounts: readonly Did[]): Promise<void> {
    const made = {
      status: 'active',
      statusSeq: 0n,
      hostStatus: null,
      hidden: 0n,
      checkedAt: 0n,
      isAuthor: 1n,
    }
    const organizations = accounts.filter(() => this.#random.next() < organizationShare)
    await this.#store.write(async (batch) => {
      await batch.put(
        'accounts',
        accounts.map((did) => ({ did, ...made })),
      )
      await batch.put(
        'handles',
        accounts.map((did, index) => ({ did, handle: `author${index}.test` })),
      )
      await batch.put(
        'organizations',
        organizations.map((did) => ({ did })),
      )
      const profiles = accounts.map((did, index) =>
        rowsOf(
          did,
          profileCollection,
          'self',
          sampleRecord(profileCollection, { displayName: `Author ${index}` }),
          BigInt(startMicros),
        ),
      )
      await putRecords(batch, profiles)
    })
  }

  /** Gives each of `from` its share of `to`, in order. */
  async relations(
    table: 'follows' | 'endorsements',
    from: readonly Did[],
    to: readonly Did[],
  ): Promise<void> {
    const share = to.length / from.length
    const pairs = to.flatMap((subject, index) => {
      const did = from[Math.floor(index / share)]
      return did === undefined ? [] : [{ uri: `at://${did}/${table}/${index}`, did, subject }]
    })
    await this.#store.write((batch) =>
      table === 'follows'
        ? batch.put(
            table,
            pairs.map(({ uri, did, subject }) => ({ uri, viewer: did, subject })),
          )
        : batch.put(
            table,
            pairs.map(({ uri, did, subject }) => ({ uri, issuer: did, subject })),
          ),
    )
  }

  /** The entries of these numbers, in the order of their times, by authors of which some write far more than others. */
  async entries(accounts: readonly Did[], from: number, to: number): Promise<void> {
    const made: (RecordRows & { kind: EntryKind })[] = []
    for (let number = from; number < to; number++) {
      const did = accounts[Math.floor(accounts.length * this.#random.next() ** 2)]
      const kind = this.#random.pick<EntryKind>(entryKinds)
      if (did === undefined) continue
      const collection = collectionOf[kind]
      const time = startMicros + number * stepMicros
      const createdAt = new Date(time / 1000).toISOString()
      const free = freeTextFields[collection]
      const text = `${number} ${'what was planted and measured this season '.repeat(1 + this.#random.below(5))}`
      const fields = free === undefined ? {} : { [free.field]: text.slice(0, free.charsMax) }
      const record = sampleRecord(collection, { createdAt, ...fields })
      made.push({ ...rowsOf(did, collection, tidAt(time), record, BigInt(time)), kind })
    }
    await this.#store.write(async (batch) => {
      await putRecords(batch, made)
      await batch.put(
        'entries',
        made.map(({ record: { uri, did, feedTime }, kind }) => ({ uri, did, kind, feedTime })),
      )
    })
  }
}

interface RecordRows {
  record: RowOf<'records'>
  view: string | undefined
}

function rowsOf(did: Did, collection: string, rkey: string, value: JsonRecord, time: bigint): RecordRows {
  const record = {
    uri: recordUri(did, collection, rkey),
    did,
    collection,
    cid: recordCid,
    json: JSON.stringify(value),
    indexedAt: time,
    createdAt: time,
    feedTime: time,
  }
  return { record, view: views.of(collection, value) }
}

async function putRecords(batch: Batch, rows: readonly RecordRows[]): Promise<void> {
  await batch.put(
    'records',
    rows.map(({ record }) => record),
  )
  const shown = rows.flatMap(({ record: { uri, did }, view }) =>
    view === undefined ? [] : [{ uri, did, view }],
  )
  await batch.put('views', shown)
}

/** A DID in the form of the PLC method, whose alphabet has no 0 and no 1: the number in base 8, each digit 2 higher. */
export function didOf(name: string, index: number): Did {
  const digits = index.toString(8).replaceAll(/./g, (digit) => String(Number(digit) + 2))
  return `did:plc:${name}${digits.padStart(24 - name.length, '2')}` as Did // reason: made to fit.
}

function pick(random: Random, accounts: readonly Did[], count: number): Did[] {
  return Array.from({ length: count }, () => random.pick<Did>(accounts))
}
