import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Sqlite from 'better-sqlite3'
import { percentile, startProcess, type ServiceProcess } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import { fillFeedIndex, type FeedIndex } from '../lib/feed-index.ts'
import type { Figure, Reference } from '../lib/figure.ts'
import { usageOf } from '../lib/measure.ts'
import { requestPages } from '../lib/page-requests.ts'
import { peers } from '../lib/peers.ts'
import { profileOptions, startService } from '../lib/services.ts'
import type { StockFeedSettings } from '../stock-feed.ts'

const methods = ['getFeedSkeleton', 'getFeed'] as const
type Method = (typeof methods)[number]

const pageEntries = 50
const parallelRequests = 8
/** Requests that compile the code before anything is measured. */
const warmRequests = 100
/** The reference sorts all that the authors ever wrote: it needs no more to be known. */
const stockRequestsMax = 300

interface Measured {
  p50: number
  p99: number
  perCpuSecond: number
  byClock: number
}

/** First pages of 50 entries for viewers who follow 500 accounts, from a large index. */
export async function feedPages(bench: Bench): Promise<Figure[]> {
  const { feedEntries, feedRequests } = bench.effort
  bench.say(`index of ${feedEntries} entries`)
  const index = await fillFeedIndex(join(bench.newDirectory('index'), 'index.sqlite'), feedEntries)
  const statement = statementMs(index, feedRequests)
  await using feed = await startService(bench, 'feed', {
    DATABASE_PATH: index.path,
    SERVICE_DID: 'did:web:feed.example',
    REQUESTS_PER_MINUTE: '0',
  })
  await using stock = await startStockFeed(bench, { databasePath: index.path })
  const figures: Figure[] = []
  for (const method of methods) {
    bench.say(`feed: ${method}`)
    const ours = await measure(feed, method, index, feedRequests)
    const withEvaluators = await measure(feed, method, index, feedRequests, index.evaluators)
    bench.say(`stock feed: ${method}`)
    const theirs = await measure(stock, method, index, Math.min(stockRequestsMax, feedRequests))
    const references = (key: keyof Measured): Reference[] => [
      { name: 'plain join and queries on @atproto/xrpc-server, this run', value: theirs[key] },
    ]
    const time = (key: 'p50' | 'p99'): Figure => ({
      name: `${method}, ${pageEntries} entries, ${key}`,
      value: ours[key],
      unit: 'ms',
      better: 'lower',
      references: [
        ...references(key),
        { name: 'the bare statement in SQLite, this run', value: statement[key] },
        ...peers.feedStatement,
      ],
    })
    figures.push(
      time('p50'),
      time('p99'),
      {
        name: `${method}, pages per CPU second`,
        value: ours.perCpuSecond,
        unit: '/s',
        better: 'higher',
        references: references('perCpuSecond'),
      },
      {
        name: `${method}, pages by the clock, ${parallelRequests} at a time`,
        value: ours.byClock,
        unit: '/s',
        better: 'higher',
        references: references('byClock'),
        note: `${index.entries} entries of ${index.accounts} accounts; each viewer follows ${index.followsPerViewer} of them`,
      },
      {
        name: `${method}, with ${index.evaluators.length} evaluators of ${index.endorsementsPerEvaluator} endorsements, p50`,
        value: withEvaluators.p50,
        unit: 'ms',
        better: 'lower',
        references: [{ name: 'without, this run', value: ours.p50 }],
      },
    )
  }
  return figures
}

async function measure(
  process: ServiceProcess,
  method: Method,
  { viewers }: FeedIndex,
  count: number,
  trustedEvaluators: readonly string[] = [],
): Promise<Measured> {
  const url = `${process.url}/xrpc/org.impact.feed.${method}`
  const bodies = Array.from({ length: count }, (_, number) => {
    const viewerDid = viewers[number % viewers.length]
    const params = { $type: 'org.impact.feed.defs#impactFeedParams', viewerDid, trustedEvaluators }
    return { feedId: 'org.impact.feed.defs#impactFeed', params, limit: pageEntries }
  })
  await requestPages(url, bodies.slice(0, warmRequests), parallelRequests)
  const { sortedMs, entries } = await requestPages(url, bodies, 1)
  if (entries !== count * pageEntries)
    throw new Error(`${method} gave ${entries} entries, not ${count * pageEntries}`)
  let byClock = 0
  const { cpuSeconds } = await usageOf(process, async () => {
    const { seconds } = await requestPages(url, bodies, parallelRequests)
    byClock = count / seconds
  })
  return {
    p50: percentile(sortedMs, 0.5),
    p99: percentile(sortedMs, 0.99),
    perCpuSecond: count / cpuSeconds,
    byClock,
  }
}

/** Milliseconds of the statement of a page alone, in this process: no HTTP, no JSON, no hydration. */
function statementMs(index: FeedIndex, count: number): Pick<Measured, 'p50' | 'p99'> {
  const sqlite = new Sqlite(index.path, { readonly: true })
  try {
    const statement = sqlite.prepare<[string, bigint, number]>(
      `select uri, did, kind, feedTime from entries where did in (select subject from follows where viewer = ?)
       and (feedTime, uri) < (?, '') order by feedTime desc, uri desc limit ?`,
    )
    const times = Array.from({ length: count }, (_, number) => {
      const viewer = index.viewers[number % index.viewers.length] ?? ''
      const startMs = performance.now()
      statement.all(viewer, 2n ** 63n - 1n, pageEntries + 1)
      return performance.now() - startMs
    })
    const sorted = Float64Array.from(times).toSorted()
    return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) }
  } finally {
    sqlite.close()
  }
}

async function startStockFeed(bench: Bench, settings: StockFeedSettings): Promise<ServiceProcess> {
  const entry = fileURLToPath(new URL('../stock-feed.ts', import.meta.url))
  return startProcess(entry, { args: [JSON.stringify(settings)], nodeOptions: profileOptions(bench) })
}
