import { createWriteStream, existsSync, rmSync, writeFileSync } from 'node:fs'
import type { WriteStream } from 'node:fs'
import { once } from 'node:events'
import { finished } from 'node:stream/promises'
import { watchedCollections } from '@tributary/protocol'
import { commitBody, encodeEvent } from './commit-event.ts'
import { binaryHeader, loadPaths, loadVersion, readLoadInfo, revAt } from './load-file.ts'
import type { LoadAccount, LoadInfo, LoadParameters } from './load-file.ts'
import { genesisOperation, pdsService } from './plc-identity.ts'
import { randomFrom } from './random.ts'
import type { Random } from './random.ts'
import { freeTextFields, sampleRecord, sampleRkey } from './sample-record.ts'
import type { JsonRecord } from './sample-record.ts'
import { SignedRepo } from './signed-repo.ts'
import type { RepoWrite } from './signed-repo.ts'
import { Signer } from './signer.ts'

/** The size of load that the published measurements of other systems were made with. */
export const measuredLoad: LoadParameters = { accounts: 2000, commits: 150_000, seed: 1 }

/** Revisions must not lie in the future of any reader. */
const startMicros = Date.UTC(2025, 0, 1) * 1000
const stepMicros = 1000
/** Shares of the actions; what is left are creates of paths that were deleted before. */
const shares = { create: 0.82, update: 0.06, delete: 0.06 }
const watchedShare = 0.92
const unwatchedCollections = ['app.social.feed.post', 'app.social.feed.like', 'app.social.graph.follow']
/** Text per record, in characters, where its collection has room for some. */
const textCharsMax = 1000
const indexBufferBytes = 1 << 20

const words =
  'orchard river planted season after rain the new group of neighbours measured forty young oaks and '
const text = words.repeat(20)

type Kind = keyof LoadInfo['kinds']

/** One account while its load is made. */
interface Author {
  repo: SignedRepo
  /** Paths of its records, in no order. */
  paths: string[]
  /** Paths of records that it deleted. */
  deleted: string[]
}

/** The key that may change the PLC entry of an account of a load. */
export function loadRotationKey(seed: number, account: number): Signer {
  return Signer.fromSeed(`load ${seed} rotation ${account}`)
}

/**
 * Makes a load: commits of one operation each over a growing set of records, mostly of the watched
 * collections, the accounts taking turns at random. Does nothing when `file` holds the same load
 * already. Takes about 30 s and 350 MB on disk for `measuredLoad`.
 */
export async function createLoad(options: { file: string } & Partial<LoadParameters>): Promise<LoadInfo> {
  const { file, ...chosen } = options
  const parameters = { ...measuredLoad, ...chosen }
  const known = existsSync(loadPaths(file).info) ? readLoadInfo(file) : undefined
  if (known !== undefined && isSameLoad(known, parameters)) return known

  rmSync(loadPaths(file).info, { force: true })
  const random = randomFrom(parameters.seed)
  const accounts = await createAccounts(parameters)
  const authors = accounts.map(({ did }, index): Author => {
    const repo = new SignedRepo(did, signingKey(parameters.seed, index))
    return { repo, paths: [], deleted: [] }
  })
  const kinds = { create: 0, update: 0, delete: 0, recreate: 0 }
  const frameBytes = await writeFrames(file, parameters.commits, (event) => {
    const account = random.below(accounts.length)
    const author = authors[account]
    if (author === undefined) throw new Error('a load needs at least one account')
    const { kind, write } = nextWrite(author, event, random)
    kinds[kind] += 1
    const time = new Date((startMicros + event * stepMicros) / 1000).toISOString()
    const signed = author.repo.commit([write], revAt({ startMicros, stepMicros }, event))
    return { account, message: encodeEvent('#commit', { seq: event + 1, time, ...commitBody(signed) }) }
  })
  const sizes = authors.map(({ paths }) => paths.length).toSorted((left, right) => left - right)
  const recordsMedian = sizes[sizes.length >> 1] ?? 0
  const info = {
    version: loadVersion,
    parameters,
    startMicros,
    stepMicros,
    frameBytes,
    kinds,
    recordsMedian,
    accounts,
  }
  writeFileSync(loadPaths(file).info, JSON.stringify(info))
  return info
}

function isSameLoad(info: LoadInfo, parameters: LoadParameters): boolean {
  const { accounts, commits, seed } = info.parameters
  const { version } = info
  return (
    version === loadVersion &&
    accounts === parameters.accounts &&
    commits === parameters.commits &&
    seed === parameters.seed
  )
}

function signingKey(seed: number, account: number): Signer {
  return Signer.fromSeed(`load ${seed} signing ${account}`)
}

async function createAccounts({ accounts, seed }: LoadParameters): Promise<LoadAccount[]> {
  return Promise.all(
    Array.from({ length: accounts }, async (_, index) => {
      const key = signingKey(seed, index).did()
      const handle = `load${seed}-${index}.test`
      const { did, operation } = await genesisOperation(loadRotationKey(seed, index), {
        alsoKnownAs: [`at://${handle}`],
        verificationMethods: { atproto: key },
        services: pdsService('https://load.invalid'),
      })
      return { did, handle, signingKey: key, genesis: operation }
    }),
  )
}

interface LoadEvent {
  account: number
  message: Uint8Array
}

/** Writes the frames and their index. Returns the bytes of the frames. */
async function writeFrames(file: string, count: number, make: (event: number) => LoadEvent): Promise<number> {
  const frames = createWriteStream(loadPaths(file).frames, { highWaterMark: indexBufferBytes })
  const index = createWriteStream(loadPaths(file).index)
  const entry = Buffer.alloc(8)
  let total = 0
  for (let event = 0; event < count; event++) {
    const { account, message } = make(event)
    const header = binaryHeader(message.length)
    const length = header.length + message.length
    entry.writeUInt32LE(length, 0)
    entry.writeUInt32LE(account, 4)
    index.write(Buffer.from(entry))
    frames.write(header)
    if (!frames.write(message)) await once(frames, 'drain')
    total += length
  }
  await Promise.all([end(frames), end(index)])
  return total
}

async function end(stream: WriteStream): Promise<void> {
  stream.end()
  await finished(stream)
}

/** Decides what an account does next and keeps its lists of paths up to date. */
function nextWrite(author: Author, event: number, random: Random): { kind: Kind; write: RepoWrite } {
  const { paths, deleted } = author
  const share = random.next()
  if (share >= shares.create && paths.length > 0) {
    if (share < shares.create + shares.update) {
      return { kind: 'update', write: putAt('update', random.pick(paths), event, random) }
    }
    if (share < shares.create + shares.update + shares.delete) {
      const path = take(paths, random)
      deleted.push(path)
      const [collection = '', rkey = ''] = path.split('/')
      return { kind: 'delete', write: { action: 'delete', collection, rkey } }
    }
    if (deleted.length > 0) {
      const path = take(deleted, random)
      paths.push(path)
      return { kind: 'recreate', write: putAt('create', path, event, random) }
    }
  }
  const path = newPath(author, event, random)
  paths.push(path)
  return { kind: 'create', write: putAt('create', path, event, random) }
}

/** Removes one of `items` and returns it. */
function take(items: string[], random: Random): string {
  const index = random.below(items.length)
  const [taken = ''] = items.splice(index, 1)
  return taken
}

function newPath({ paths, deleted }: Author, event: number, random: Random): string {
  const isWatched = random.next() < watchedShare
  const collection = random.pick<string>(isWatched ? watchedCollections : unwatchedCollections)
  const only = sampleRkey(collection)
  if (only === undefined) return `${collection}/${revAt({ startMicros, stepMicros }, event)}`
  const path = `${collection}/${only}`
  const isTaken = paths.includes(path) || deleted.includes(path)
  return isTaken ? `app.attested.graph.follow/${revAt({ startMicros, stepMicros }, event)}` : path
}

function putAt(action: 'create' | 'update', path: string, event: number, random: Random): RepoWrite {
  const [collection = '', rkey = ''] = path.split('/')
  return { action, collection, rkey, record: recordOf(collection, event, random) }
}

function recordOf(collection: string, event: number, random: Random): JsonRecord {
  const createdAt = new Date((startMicros + event * stepMicros) / 1000).toISOString()
  const start = random.below(words.length)
  const some = (charsMax: number): string => {
    return `${event} ${text.slice(start, start + random.below(Math.min(charsMax, textCharsMax) - 10))}`
  }
  if (unwatchedCollections.includes(collection)) return { text: some(textCharsMax), createdAt }
  const free = freeTextFields[collection]
  // Where there is no text, the time alone makes the record differ from the one before.
  return sampleRecord(
    collection,
    free === undefined ? { createdAt } : { createdAt, [free.field]: some(free.charsMax) },
  )
}
