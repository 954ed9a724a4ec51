/**
 * `tributary demo --once`: writes the story, waits until all of it has come out everywhere, and compares what came out
 * with what the PDSs acknowledged and list. Waiting ends by condition or by the deadline, never by a pause that is long
 * enough.
 */
import { type ClientEvent, createStreamClient } from '@tributary/client/node'
import type { Account, Network } from '@tributary/testkit'
import { sealArchive } from '../seal.ts'
import { upCollections } from '../up/service-plan.ts'
import { type Cast, createCast } from './cast.ts'
import { type FeedEntry, readFeed } from './feed-reader.ts'
import type { LocalServices } from './local-services.ts'
import { pauseUnless } from './pause.ts'
import { followRelay } from './relay-reader.ts'
import { type ExpectedEntry, writeStory } from './story.ts'
import type { Testkit } from './testkit.ts'
import { differenceOfRecords, WriteLog } from './write-log.ts'

export interface Check {
  what: string
  expected: number
  found: number
  /** What is wrong; undefined when nothing is. */
  difference: string | undefined
}

const pollMs = 100

/** Runs everything and returns the checks, all of which had their chance until `deadline` aborts. */
export async function runStory(
  testkit: Testkit,
  network: Network,
  services: LocalServices,
  deadline: AbortSignal,
): Promise<Check[]> {
  const { urls } = services
  const fromRelay = new WriteLog()
  const fromStream = new WriteLog()
  const ended = new AbortController()
  const signal = AbortSignal.any([deadline, ended.signal])
  const following = Promise.all([
    followRelay({
      url: urls.relay,
      onEvent: (commit) => commit?.writes.forEach((write) => fromRelay.add(commit.did, write)),
      signal,
    }),
    followStream(urls.stream, fromStream, signal),
  ])

  const cast = await createCast(network)
  const expectedFeed = await writeStory(cast, testkit)

  const everything = journalOf(cast, () => true)
  const watched = journalOf(cast, (collection) => upCollections.includes(collection))
  await until(() => fromRelay.count >= everything.count && fromStream.count >= watched.count, deadline)
  const skeleton = await feedWhen(urls.feed, 'getFeedSkeleton', cast, expectedFeed, deadline)
  const feed = await feedWhen(urls.feed, 'getFeed', cast, expectedFeed, deadline)
  const fromArchive = await readArchive(services, watched.count, deadline)
  ended.abort()
  await following

  const listed = await listRecords(cast)
  const listedWatched = new Map(
    [...listed].filter(([key]) => upCollections.includes(key.split('/')[1] ?? '')),
  )
  return [
    checkWrites('relay: every write, in order', everything, fromRelay),
    checkRecords('relay: records that remain', listed, fromRelay),
    checkWrites('stream, live: every write, in order', watched, fromStream),
    checkRecords('stream, live: records that remain', listedWatched, fromStream),
    checkWrites('archive: every write, in order', watched, fromArchive),
    checkRecords('archive: records that remain', listedWatched, fromArchive),
    checkOrder('feed, skeleton: entries, in order', expectedFeed, skeleton),
    ...checkFeed(expectedFeed, feed),
  ]
}

async function followStream(url: string, log: WriteLog, signal: AbortSignal): Promise<void> {
  for await (const { events } of createStreamClient({ url }).live({ cursor: 0, signal }))
    addCommits(log, events)
}

function addCommits(log: WriteLog, events: readonly ClientEvent[]): void {
  for (const event of events) {
    if (event.kind !== 'commit') continue
    const { did, operation: action, collection, rkey, cid } = event
    log.add(did, { action, collection, rkey, ...(cid !== undefined && { cid }) })
  }
}

/** Seals and downloads until everything is there: the last rows may be on their way into the archive still. */
async function readArchive(services: LocalServices, count: number, deadline: AbortSignal): Promise<WriteLog> {
  const client = createStreamClient({ url: services.urls.stream, apiKey: services.archiveKey })
  for (;;) {
    await sealArchive(services.urls.stream, services.operatorToken)
    const log = new WriteLog()
    for await (const { events } of client.snapshot({ signal: deadline })) addCommits(log, events)
    if (log.count >= count || deadline.aborted) return log
    await pauseUnless(deadline, pollMs)
  }
}

async function until(condition: () => boolean, deadline: AbortSignal): Promise<void> {
  while (!condition() && !deadline.aborted) await pauseUnless(deadline, pollMs)
}

/** The feed as soon as it is what it should be, or at the deadline as it is then. */
async function feedWhen(
  url: string,
  method: 'getFeed' | 'getFeedSkeleton',
  cast: Cast,
  expected: readonly ExpectedEntry[],
  deadline: AbortSignal,
): Promise<FeedEntry[]> {
  for (;;) {
    // Small pages, so that paging is part of it.
    const entries = await readFeed(url, method, cast, 4)
    const isRight = checkOrder('', expected, entries).difference === undefined
    const isHydrated =
      method === 'getFeedSkeleton' || checkFeed(expected, entries).every((check) => !check.difference)
    if ((isRight && isHydrated) || deadline.aborted) return entries
    await pauseUnless(deadline, pollMs)
  }
}

function journalOf(cast: Cast, isWanted: (collection: string) => boolean): WriteLog {
  const log = new WriteLog()
  for (const account of accountsOf(cast)) {
    for (const write of account.journal) if (isWanted(write.collection)) log.add(account.did, write)
  }
  return log
}

/** Every record that the PDSs list, with its CID. */
async function listRecords(cast: Cast): Promise<Map<string, string>> {
  const records = new Map<string, string>()
  for (const account of accountsOf(cast)) {
    for (const collection of await account.pds.listCollections(account.did)) {
      for (const { uri, cid } of await account.listRecords(collection))
        records.set(uri.slice('at://'.length), cid)
    }
  }
  return records
}

function accountsOf(cast: Cast): Account[] {
  return Object.values(cast)
}

function checkWrites(what: string, expected: WriteLog, found: WriteLog): Check {
  return { what, expected: expected.count, found: found.count, difference: found.differenceTo(expected) }
}

function checkRecords(what: string, expected: ReadonlyMap<string, string>, found: WriteLog): Check {
  const difference = differenceOfRecords(expected, found.records)
  return { what, expected: expected.size, found: found.records.size, difference }
}

function checkOrder(what: string, expected: readonly ExpectedEntry[], found: readonly FeedEntry[]): Check {
  const at = expected.findIndex(({ subject }, i) => found[i]?.subject !== subject)
  const difference =
    at >= 0
      ? `entry ${at + 1}: expected ${expected[at]?.kind} ${expected[at]?.subject}, found ${found[at]?.subject}`
      : found[expected.length] && `${found[expected.length]?.subject} should not be there`
  return { what, expected: expected.length, found: found.length, difference }
}

/** One check for each kind: order, kind, author and content of its entries. */
function checkFeed(expected: readonly ExpectedEntry[], found: readonly FeedEntry[]): Check[] {
  const order = checkOrder('feed, hydrated: entries, in order', expected, found)
  const kinds = [...new Set(expected.map(({ kind }) => kind))]
  const ofKinds = kinds.map((kind): Check => {
    const wanted = expected.filter((entry) => entry.kind === kind)
    const matching = found.filter(({ view }) => view?.kind === kind)
    const difference = wanted
      .map((entry) => differenceOfEntry(entry, found))
      .find((text) => text !== undefined)
    return { what: `feed, hydrated: ${kind}`, expected: wanted.length, found: matching.length, difference }
  })
  return [order, ...ofKinds]
}

function differenceOfEntry(expected: ExpectedEntry, found: readonly FeedEntry[]): string | undefined {
  const view = found.find(({ subject }) => subject === expected.subject)?.view
  if (view === undefined) return `${expected.subject} is missing`
  if (view.kind !== expected.kind) return `${expected.subject} is a ${view.kind}`
  const author = view.actor.displayName ?? view.actor.handle
  if (author !== expected.author) return `${expected.subject} is by ${author}, not ${expected.author}`
  for (const [field, value] of Object.entries(expected.content)) {
    const shown = JSON.stringify(view.content[field])
    if (shown !== JSON.stringify(value))
      return `${expected.subject} has ${field} ${shown}, not ${JSON.stringify(value)}`
  }
  return undefined
}

/** The summary that `--once` prints. */
export function renderChecks(checks: readonly Check[], seconds: number): string {
  const width = Math.max(...checks.map(({ what }) => what.length))
  const lines = checks.map(({ what, expected, found, difference }) => {
    const verdict = difference === undefined ? 'ok' : `WRONG  ${difference}`
    return `${what.padEnd(width)}  ${String(expected).padStart(8)}  ${String(found).padStart(5)}  ${verdict}`
  })
  const failed = checks.filter(({ difference }) => difference !== undefined).length
  const verdict =
    failed === 0 ? 'everything arrived as the PDSs hold it' : `${failed} of ${checks.length} checks failed`
  return [
    `${''.padEnd(width)}  expected  found`,
    ...lines,
    '',
    `${verdict}, after ${seconds.toFixed(1)} s`,
  ].join('\n')
}
