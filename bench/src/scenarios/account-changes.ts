import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Did, Nsid, RecordKey, StreamEvent } from '@tributary/protocol'
import { blockOf, cidText, percentile, SmallStream, type ServiceProcess } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import { badgeCollection, type CrowdedIndex, fillCrowdedIndex } from '../lib/crowded-index.ts'
import type { Figure } from '../lib/figure.ts'
import { requestPages } from '../lib/page-requests.ts'
import { startService } from '../lib/services.ts'

const pageEntries = 50
/** Between two looks at whether the index answers. */
const lookMs = 2
/** Nothing takes longer. */
const changeMsMax = 1_800_000

interface Measured {
  seconds: number
  /** The longest time that the index took to answer anything: its longest turn, and the way there and back. */
  longestMs: number
  /** Milliseconds of a page of somebody who follows none of the accounts, of a feed on the same database. */
  pageMs: { p50: number; p99: number }
}

/** What happens, in order: each a word for the figures, and what it is done to. */
const changes = ['edited', 'restored', 'hidden', 'shown', 'read again', 'deleted'] as const
type Change = (typeof changes)[number]

/**
 * A badge that very many awards name is edited and put back, which is one event each. Accounts with very many records are
 * hidden, shown, read again and deleted, all at once.
 */
export async function accountChanges(bench: Bench): Promise<Figure[]> {
  const { changedAccounts, recordsEach } = bench.effort
  bench.say(`index of ${changedAccounts} accounts with ${recordsEach} records each`)
  const path = join(bench.newDirectory('crowded'), 'index.sqlite')
  const crowded = await fillCrowdedIndex(path, { accounts: changedAccounts, recordsEach })
  await using stream = await SmallStream.start([])
  await using index = await startService(bench, 'index', {
    DATABASE_PATH: path,
    STREAM_URL: stream.url,
    PLC_URL: 'http://127.0.0.1:1',
  })
  await using feed = await startService(bench, 'feed', {
    DATABASE_PATH: path,
    SERVICE_DID: 'did:web:feed.example',
    REQUESTS_PER_MINUTE: '0',
  })
  const figures: Figure[] = []
  const note = `${changedAccounts} accounts with ${recordsEach} records each, at once`
  for (const change of changes) {
    const what = change === 'edited' || change === 'restored' ? 'the badge is' : 'accounts are'
    bench.say(`${what} ${change}`)
    const events = eventsOf(change, crowded, stream.events.length + 1)
    const { seconds, longestMs, pageMs } = await during(index, feed, crowded.viewer, async () => {
      for (const event of events) stream.send(event)
      await folded(index, stream.events.length)
    })
    const figure = (name: string, value: number, unit: string): Figure => ({
      name: `${what} ${change}: ${name}`,
      value,
      unit,
      better: 'lower',
      references: [],
      note,
    })
    figures.push(
      figure('all of it', seconds, 's'),
      figure('longest answer of the index', longestMs, 'ms'),
      figure('page of another viewer, p50', pageMs.p50, 'ms'),
      figure('page of another viewer, p99', pageMs.p99, 'ms'),
    )
  }
  return figures
}

async function during(
  index: ServiceProcess,
  feed: ServiceProcess,
  viewerDid: Did,
  work: () => Promise<void>,
): Promise<Measured> {
  const params = { $type: 'org.impact.feed.defs#impactFeedParams', viewerDid }
  const body = { feedId: 'org.impact.feed.defs#impactFeed', params, limit: pageEntries }
  const over = new AbortController()
  let longestMs = 0
  const pages: number[] = []
  const look = async (): Promise<void> => {
    for (; !over.signal.aborted; await pause(lookMs)) {
      const startMs = performance.now()
      await (await fetch(`${index.url}/_health`)).text()
      longestMs = Math.max(longestMs, performance.now() - startMs)
    }
  }
  const read = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const { sortedMs, entries } = await requestPages(
        `${feed.url}/xrpc/org.impact.feed.getFeedSkeleton`,
        Array.from({ length: 20 }, () => body),
        1,
      )
      if (entries !== 20 * pageEntries) throw new Error(`20 pages have ${entries} entries`)
      pages.push(...sortedMs)
      await pause(lookMs)
    }
  }
  const startMs = performance.now()
  const looking = Promise.all([look(), read()])
  await work()
  const seconds = (performance.now() - startMs) / 1000
  over.abort()
  await looking
  const sorted = Float64Array.from(pages).toSorted()
  return { seconds, longestMs, pageMs: { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) } }
}

async function folded(index: ServiceProcess, through: number): Promise<void> {
  const endMs = performance.now() + changeMsMax
  for (; performance.now() < endMs; await pause(lookMs)) {
    const { cursor } = (await (await fetch(`${index.url}/ready`)).json()) as { cursor?: number } // as status-server.ts has it
    if (cursor === through) return
  }
  throw new Error(`the index did not reach ${through}: ${index.stderr}`)
}

function eventsOf(change: Change, crowded: CrowdedIndex, from: number): StreamEvent[] {
  if (change === 'edited' || change === 'restored') return [edit(change, crowded, from)]
  return crowded.accounts.map((did, at) => eventOf(change, did, from + at))
}

/** The badge is of another type, so that no award of it counts; or it is as it was. */
function edit(
  change: 'edited' | 'restored',
  { badgeOwner: did, definition, definitionCid }: CrowdedIndex,
  seq: number,
): StreamEvent {
  const other = { ...definition, badgeType: 'recognition' }
  const [record, cid] =
    change === 'edited' ? [other, cidText(blockOf(other).cid)] : [definition, definitionCid]
  return {
    kind: 'commit',
    seq,
    did,
    time: timeOf(seq),
    rev: `3${seq}`,
    operation: 'update',
    collection: badgeCollection as Nsid, // a constant
    rkey: 'self' as RecordKey, // a constant
    cid,
    record: { $type: badgeCollection, ...record },
  }
}

function timeOf(seq: number): string {
  return new Date(Date.UTC(2026, 2, 4) + seq * 1000).toISOString().replace('Z', '000Z')
}

function eventOf(change: Exclude<Change, 'edited' | 'restored'>, did: Did, seq: number): StreamEvent {
  const time = timeOf(seq)
  const head = { seq, did, time }
  if (change === 'read again')
    return { kind: 'sync', ...head, sync: { did, rev: `3${seq}`, seq: 0, time: '', blocks: { $bytes: '' } } }
  const status = { hidden: 'deactivated', shown: undefined, deleted: 'deleted' }[change]
  const account = { did, seq, time, active: status === undefined, ...(status !== undefined && { status }) }
  return { kind: 'account', ...head, account }
}
