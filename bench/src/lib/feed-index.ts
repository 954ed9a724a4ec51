/** An index database as the index service leaves it: accounts of very different activity, and viewers who follow some. */
import { entryKinds, openIndexWriter, type EntryKind, type IndexConnection } from '@tributary/index-store'
import { recordUri, type Did } from '@tributary/protocol'
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
const startMicros = Date.UTC(2025, 0, 1) * 1000
const stepMicros = 20_000_000
const recordCid = 'bafyreieos3lwft276jbcwfcuwgdftxpsexbxydiebo2jpfsleivbrs7nli'
const profileCollection = 'app.attested.actor.profile'

const views = createRecordViews(loadLexicons())

const collectionOf: Readonly<Record<EntryKind, string>> = {
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
  await using connection = await openIndexWriter(path)
  const random = randomFrom(1)
  const accounts = Array.from({ length: accountCount }, (_, index) => didOf('author', index))
  const viewers = Array.from({ length: viewerCount }, (_, index) => didOf('viewer', index))
  const evaluators = Array.from({ length: evaluatorCount }, (_, index) => didOf('grader', index))
  const writer = new FeedIndexWriter(connection, random)
  writer.accounts(accounts)
  writer.relations('follows', viewers, pick(random, accounts, followsPerViewer * viewerCount))
  writer.relations(
    'endorsements',
    evaluators,
    pick(random, accounts, endorsementsPerEvaluator * evaluatorCount),
  )
  for (let from = 0; from < entries; from += entriesPerTransaction)
    writer.entries(accounts, from, Math.min(entries, from + entriesPerTransaction))
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

class FeedIndexWriter {
  readonly #sqlite: IndexConnection['sqlite']
  readonly #random: Random
  readonly #putRecord
  readonly #putEntry
  readonly #putView

  constructor({ sqlite }: IndexConnection, random: Random) {
    this.#sqlite = sqlite
    this.#random = random
    this.#putRecord = sqlite.prepare<(string | bigint)[]>(
      `insert into records (uri, did, collection, rkey, cid, rev, json, indexedAt, createdAt, feedTime)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    this.#putView = sqlite.prepare<string[]>('insert into views (uri, did, view) values (?, ?, ?)')
    this.#putEntry = sqlite.prepare<(string | bigint)[]>(
      'insert into entries (uri, did, kind, feedTime) values (?, ?, ?, ?)',
    )
  }

  accounts(accounts: readonly Did[]): void {
    const putAccount = this.#sqlite.prepare<string[]>(
      "insert into accounts (did, status, statusSeq, hidden, checkedAt) values (?, 'active', 0, 0, 0)",
    )
    const putHandle = this.#sqlite.prepare<string[]>('insert into handles (did, handle) values (?, ?)')
    const putOrganization = this.#sqlite.prepare<string[]>('insert into organizations (did) values (?)')
    this.#transaction(() => {
      for (const [index, did] of accounts.entries()) {
        putAccount.run(did)
        putHandle.run(did, `author${index}.test`)
        const profile = sampleRecord(profileCollection, { displayName: `Author ${index}` })
        this.#record(did, profileCollection, 'self', profile, BigInt(startMicros))
        if (this.#random.next() < organizationShare) putOrganization.run(did)
      }
    })
  }

  /** Gives each of `from` its share of `to`, in order. */
  relations(table: 'follows' | 'endorsements', from: readonly Did[], to: readonly Did[]): void {
    const put = this.#sqlite.prepare<string[]>(`insert into ${table} values (?, ?, ?)`)
    const share = to.length / from.length
    this.#transaction(() => {
      for (const [index, subject] of to.entries()) {
        const did = from[Math.floor(index / share)] ?? ''
        put.run(`at://${did}/${table}/${index}`, did, subject)
      }
    })
  }

  /** The entries of these numbers, in the order of their times, by authors of which some write far more than others. */
  entries(accounts: readonly Did[], from: number, to: number): void {
    this.#transaction(() => {
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
        const uri = this.#record(did, collection, tidAt(time), record, BigInt(time))
        this.#putEntry.run(uri, did, kind, BigInt(time))
      }
    })
  }

  #record(did: Did, collection: string, rkey: string, record: JsonRecord, time: bigint): string {
    const uri = recordUri(did, collection, rkey)
    const json = JSON.stringify(record)
    const view = views.of(collection, record)
    if (view !== undefined) this.#putView.run(uri, did, view)
    this.#putRecord.run(uri, did, collection, rkey, recordCid, rkey, json, time, time, time)
    return uri
  }

  #transaction(work: () => void): void {
    this.#sqlite.transaction(work).immediate()
  }
}

/** A DID in the form of the PLC method, whose alphabet has no 0 and no 1: the number in base 8, each digit 2 higher. */
function didOf(name: string, index: number): Did {
  const digits = index.toString(8).replaceAll(/./g, (digit) => String(Number(digit) + 2))
  return `did:plc:${name}${digits.padStart(24 - name.length, '2')}` as Did // reason: made to fit.
}

function pick(random: Random, accounts: readonly Did[], count: number): Did[] {
  return Array.from({ length: count }, () => random.pick<Did>(accounts))
}
