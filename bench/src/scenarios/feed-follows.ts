import { join } from 'node:path'
import { entryKinds } from '@tributary/protocol'
import { percentile, Postgres, runOnPostgres, type ServiceProcess } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure, Reference } from '../lib/figure.ts'
import { fillFollowedIndex, followedAccounts, type FollowingViewer } from '../lib/followed-index.ts'
import { usageOf } from '../lib/measure.ts'
import { requestPages } from '../lib/page-requests.ts'
import { readTimeMs } from '../lib/read-time-page.ts'
import { startService } from '../lib/services.ts'

const pageEntries = 50
/** The page that is measured beside the first. */
const laterPage = 200
const parallelPages = 4
/** A page of many accounts takes long, and its percentiles settle sooner. */
const requestsOfManyShare = 0.2
const manyFollows = 50_000
const warmRequests = 20
const readTimeRequests = 3
/** For more follows the statement of the reference takes a minute. */
const readTimeFollowsMax = 5000

/** What a hydrated page may take at p99, in ms, by how many the viewer follows. */
const wantedMs: Readonly<Record<'SQLite' | 'PostgreSQL', Readonly<Record<number, number>>>> = {
  SQLite: { 500: 8, 5000: 25, 50_000: 200 },
  PostgreSQL: { 500: 15, 5000: 60, 50_000: 400 },
}
/** What a viewer's page may take at p99, in ms, while pages of 50,000 follows are read without pause. */
const wantedBesideMs = 25
const wantedPerCpuSecond = { getFeedSkeleton: 1000, getFeed: 600 }

type Method = keyof typeof wantedPerCpuSecond
type Params = Readonly<Record<string, unknown>>

interface Followed {
  readonly name: keyof typeof wantedMs
  readonly settings: Record<string, string>
  readonly viewers: readonly FollowingViewer[]
  /** Of a PostgreSQL database. */
  readonly url?: string
}

/** Pages of viewers who follow 50 to 50,000 of 200,000 accounts, in SQLite and in PostgreSQL. */
export async function feedFollows(bench: Bench): Promise<Figure[]> {
  const records = bench.effort.followedRecords
  bench.say(`SQLite index of ${records} records`)
  const path = join(bench.newDirectory('index'), 'index.sqlite')
  const viewers = await fillFollowedIndex(path, records)
  const figures = await measure(bench, { name: 'SQLite', settings: { DATABASE_PATH: path }, viewers })

  bench.say(`PostgreSQL index of ${records} records`)
  await using server = await Postgres.start()
  await runOnPostgres(server.urlOf('postgres'), 'create database followed')
  const url = server.urlOf('followed')
  await fillFollowedIndex(url, records)
  await runOnPostgres(url, 'vacuum analyze')
  const settings = {
    DATABASE_URL: url,
    USED_TOKENS_PATH: join(bench.newDirectory('tokens'), 'tokens.sqlite'),
  }
  return [...figures, ...(await measure(bench, { name: 'PostgreSQL', settings, viewers, url }))]
}

async function measure(bench: Bench, index: Followed): Promise<Figure[]> {
  const { followedRequests, followedRecords } = bench.effort
  const { name, viewers, url } = index
  await using feed = await startService(bench, 'feed', {
    ...index.settings,
    SERVICE_DID: 'did:web:feed.example',
    REQUESTS_PER_MINUTE: '0',
    QUERY_MS: '60000',
  })
  const figures: Figure[] = []
  for (const viewer of viewers) {
    const { follows, activity } = viewer
    const what = `${name}, ${follows} ${activity} follows`
    const count = Math.ceil(followedRequests * (follows === manyFollows ? requestsOfManyShare : 1))
    const first = await timesOf(feed, pageOf(viewer), count)
    const readTime: Reference[] = []
    if (url !== undefined && follows <= readTimeFollowsMax) {
      const value = percentile(await readTimeMs(url, viewer.did, readTimeRequests), 0.5)
      readTime.push({ name: 'one statement that evaluates the rules when asked, this run', value })
    }
    bench.say(
      `${what}: p50 ${percentile(first, 0.5).toFixed(1)} ms, p99 ${percentile(first, 0.99).toFixed(1)} ms`,
    )
    const wanted = wantedMs[name][follows]
    figures.push(
      milliseconds(`${what}: first page, p50`, percentile(first, 0.5), readTime),
      milliseconds(
        `${what}: first page, p99`,
        percentile(first, 0.99),
        wanted === undefined ? [] : [{ name: 'wanted', value: wanted }],
      ),
    )
    if (activity === 'silent') continue
    const besideFirst = [{ name: 'the first page, this run', value: percentile(first, 0.5) }]
    for (const [part, more] of await variants(feed, viewer)) {
      const times = await timesOf(feed, pageOf(viewer, more), count)
      figures.push(milliseconds(`${what}: ${part}, p50`, percentile(times, 0.5), besideFirst))
    }
  }
  figures.push(...(await cpuOf(bench, feed, index)), await besideMany(feed, index, followedRequests))
  const [one] = figures
  if (one)
    one.note = `${followedRecords} records of ${followedAccounts} accounts; pages of ${pageEntries} entries`
  return figures
}

/** Requests that differ from the first page of all kinds. */
async function variants(
  feed: ServiceProcess,
  viewer: FollowingViewer,
): Promise<[part: string, more: { params?: Params; cursor?: string }][]> {
  const cursor = await cursorBefore(feed, viewer, laterPage)
  return [
    ['one kind', { params: { kinds: entryKinds.slice(0, 1) } }],
    ['four kinds', { params: { kinds: entryKinds.slice(0, 4) } }],
    [
      'with a quality rule',
      { params: { organizationQuality: { allowed: ['standard'], includeUnrated: true } } },
    ],
    ...(cursor === undefined ? [] : [[`page ${laterPage}`, { cursor }] as [string, { cursor: string }]]),
  ]
}

/** Pages per CPU second at 500 follows. */
async function cpuOf(bench: Bench, feed: ServiceProcess, { name, viewers }: Followed): Promise<Figure[]> {
  const viewer = viewerOf(viewers, 500)
  const figures: Figure[] = []
  for (const method of ['getFeedSkeleton', 'getFeed'] as const) {
    const bodies = repeated(pageOf(viewer), bench.effort.feedRequests)
    await requestPages(urlOf(feed, method), bodies.slice(0, warmRequests), parallelPages)
    const { cpuSeconds } = await usageOf(feed, () => requestPages(urlOf(feed, method), bodies, parallelPages))
    figures.push({
      name: `${name}, 500 busy follows: ${method}, pages per CPU second of the feed`,
      value: bodies.length / cpuSeconds,
      unit: '/s',
      better: 'higher',
      references: [{ name: 'wanted', value: wantedPerCpuSecond[method] }],
    })
  }
  return figures
}

/** A page at 50 follows while pages of 50,000 silent follows, the longest there are, are read without pause. */
async function besideMany(feed: ServiceProcess, { name, viewers }: Followed, count: number): Promise<Figure> {
  const many = repeated(pageOf(viewerOf(viewers, manyFollows, 'silent')), parallelPages)
  const stopping = new AbortController()
  const reading = (async () => {
    while (!stopping.signal.aborted) await requestPages(urlOf(feed, 'getFeed'), many, parallelPages)
  })()
  const times = await timesOf(feed, pageOf(viewerOf(viewers, 50)), count).finally(() => stopping.abort())
  await reading
  return milliseconds(
    `${name}, 50 busy follows: first page beside ${parallelPages} of ${manyFollows} silent follows, p99`,
    percentile(times, 0.99),
    [{ name: 'wanted', value: wantedBesideMs }],
  )
}

/** Milliseconds of hydrated pages, one at a time, the shortest first. */
async function timesOf(feed: ServiceProcess, body: object, count: number): Promise<Float64Array> {
  const url = urlOf(feed, 'getFeed')
  await requestPages(url, repeated(body, Math.min(warmRequests, count)), 1)
  return (await requestPages(url, repeated(body, count), 1)).sortedMs
}

/** Where a page of 50 entries begins; undefined when the feed ends before it. */
async function cursorBefore(
  feed: ServiceProcess,
  viewer: FollowingViewer,
  page: number,
): Promise<string | undefined> {
  let cursor: string | undefined
  for (let read = 1; read < page; read++) {
    const body = pageOf(viewer, cursor === undefined ? {} : { cursor })
    const response = await fetch(urlOf(feed, 'getFeedSkeleton'), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`a page was answered with ${response.status}: ${text}`)
    const answer = JSON.parse(text) as { cursor?: string } // reason: as the lexicon says.
    if (answer.cursor === undefined) return undefined
    cursor = answer.cursor
  }
  return cursor
}

function pageOf(
  { did }: FollowingViewer,
  { params, ...more }: { params?: Params; cursor?: string } = {},
): object {
  return {
    feedId: 'org.impact.feed.defs#impactFeed',
    params: {
      $type: 'org.impact.feed.defs#impactFeedParams',
      viewerDid: did,
      trustedEvaluators: [],
      ...params,
    },
    limit: pageEntries,
    ...more,
  }
}

function viewerOf(
  viewers: readonly FollowingViewer[],
  follows: number,
  activity: FollowingViewer['activity'] = 'busy',
): FollowingViewer {
  const viewer = viewers.find((each) => each.follows === follows && each.activity === activity)
  if (viewer === undefined) throw new Error(`no viewer has ${follows} ${activity} follows`)
  return viewer
}

function urlOf(feed: ServiceProcess, method: Method): string {
  return `${feed.url}/xrpc/org.impact.feed.${method}`
}

function repeated(body: object, count: number): object[] {
  return Array.from({ length: count }, () => body)
}

function milliseconds(name: string, value: number, references: readonly Reference[]): Figure {
  return { name, value, unit: 'ms', better: 'lower', references }
}
