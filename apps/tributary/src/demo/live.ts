/** The demo without `--once`: writes go on until it is stopped, and one can watch them pass. */
import { relative } from 'node:path'
import { createStreamClient } from '@tributary/client/node'
import type { Network } from '@tributary/testkit'
import { sealArchive } from '../seal.ts'
import type { ServiceState } from '../up/supervisor.ts'
import { type Cast, createCast } from './cast.ts'
import { type FeedEntry, feedRequest, readFeedPage } from './feed-reader.ts'
import { LiveCounts } from './live-counts.ts'
import { LiveView } from './live-view.ts'
import type { LocalServices } from './local-services.ts'
import { pauseUnless } from './pause.ts'
import { followRelay } from './relay-reader.ts'
import { accountLines, networkLines, writeLines } from './network-lines.ts'
import type { DemoSettings } from './settings.ts'
import { writeStory } from './story.ts'
import type { Testkit } from './testkit.ts'
import { keepWriting } from './writer.ts'

const feedEveryMs = 500
const feedEntriesShown = 10
/** Only sealed segments can be backfilled, and this archive is far too small to be sealed by itself. */
const sealEveryMs = 20_000
const entriesRememberedMax = 10_000

/** Runs until `stop` aborts. Returns the exit code. */
export async function runLive(
  testkit: Testkit,
  network: Network,
  services: LocalServices,
  { stop, writesPerSecond }: Pick<DemoSettings, 'writesPerSecond'> & { stop: AbortSignal },
): Promise<number> {
  const { urls, supervisor } = services
  const counts = new LiveCounts()
  process.stdout.write('creating accounts and writing the first records\n')
  const relayFollower = followRelay({
    url: urls.relay,
    onEvent: (commit) => {
      if (commit) counts.commitAtRelay(commit)
    },
    signal: stop,
  })
  const streamFollower = followStream(urls.stream, counts, stop)
  const cast = await createCast(network)
  if (stop.aborted) return 0
  await writeStory(cast, testkit)
  counts.writes = Object.values(cast).reduce((sum, { journal }) => sum + journal.length, 0)

  process.stdout.write(introduction(network, services, cast, testkit))
  const feed = new FeedFollower(urls.feed, cast, counts)
  using _view = new LiveView({
    output: process.stdout,
    lines: () => [...stageLines(counts, supervisor.states), '', ...feed.lines()],
    summary: () => summaryOf(counts, feed.lines()[1] ?? ''),
  })
  await Promise.all([
    keepWriting(cast, testkit, { writesPerSecond, signal: stop, onWritten: () => counts.writes++ }),
    feed.follow(stop),
    followIndex(urls.index, counts, stop),
    keepSealing(services, stop),
    relayFollower,
    streamFollower,
  ])
  process.stdout.write('stopping\n')
  return 0
}

async function followStream(url: string, counts: LiveCounts, signal: AbortSignal): Promise<void> {
  for await (const { events, cursor } of createStreamClient({ url }).live({ cursor: 0, signal })) {
    counts.rowsAtStream(events.length, cursor)
    for (const event of events) if (event.kind === 'commit') counts.commitAtStream(event.did, event.rev)
  }
}

/** Asks the index how far it has come. */
async function followIndex(url: string, counts: LiveCounts, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      const response = await fetch(`${url}/_health`, { signal })
      const { stream } = (await response.json()) as { stream?: { cursor: number } } // what the index answers
      if (stream) counts.indexAt(stream.cursor)
    } catch {
      // It may be restarting, which its line in the view shows.
    }
    await pauseUnless(signal, feedEveryMs)
  }
}

async function keepSealing({ urls, operatorToken }: LocalServices, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await sealArchive(urls.stream, operatorToken)
    } catch {
      // The stream may be restarting, which its line in the view shows; the next round seals.
    }
    await pauseUnless(signal, sealEveryMs)
  }
}

/** Asks for the viewer's feed again and again. */
class FeedFollower {
  readonly #url: string
  readonly #cast: Cast
  readonly #counts: LiveCounts
  readonly #seen = new Set<string>()
  #entries: readonly FeedEntry[] = []
  #trouble: string | undefined

  constructor(url: string, cast: Cast, counts: LiveCounts) {
    this.#url = url
    this.#cast = cast
    this.#counts = counts
  }

  async follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const { feed } = await readFeedPage(this.#url, 'getFeed', feedRequest(this.#cast, 50))
        this.#trouble = undefined
        this.#entries = feed
        for (const { subject } of feed.toReversed()) this.#note(subject)
      } catch (error) {
        this.#trouble = error instanceof Error ? error.message : String(error)
      }
      await pauseUnless(signal, feedEveryMs)
    }
  }

  lines(): string[] {
    const head = `feed of ${this.#cast.viewer.handle}${this.#trouble === undefined ? '' : `  (${this.#trouble})`}`
    return [head, ...this.#entries.slice(0, feedEntriesShown).map((entry) => `  ${entryLine(entry)}`)]
  }

  #note(subject: string): void {
    if (this.#seen.has(subject)) return
    this.#seen.add(subject)
    this.#counts.entryInFeed(subject)
    const oldest = this.#seen.size > entriesRememberedMax ? this.#seen.values().next().value : undefined
    if (oldest !== undefined) this.#seen.delete(oldest)
  }
}

function entryLine({ view }: FeedEntry): string {
  const { kind = '', actor, content = {} } = view ?? {}
  const { title, summary, metric, subject } = content
  const about = isNamed(subject) ? subject.handle : undefined
  const text = [title, summary, metric, about].find((value) => typeof value === 'string') ?? ''
  return `${kind.padEnd(26)} ${inColumn(actor?.displayName ?? actor?.handle ?? '', 18)} ${text}`
}

function inColumn(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, width - 1)}…` : text.padEnd(width)
}

function isNamed(value: unknown): value is { handle: string } {
  return typeof value === 'object' && value !== null && 'handle' in value && typeof value.handle === 'string'
}

function stageLines(counts: LiveCounts, states: ReadonlyMap<string, ServiceState>): string[] {
  return stagesOf(counts).map(({ stage, count, unit, behind }) => {
    const state = states.get(stage)
    const shown = state === undefined ? '' : state.is === 'ready' ? `pid ${state.pid}` : state.is
    const behindWhom = behind && `${behind} behind the ${stage === 'index' ? 'stream' : 'PDS'}`
    return `${stage.padEnd(8)} ${String(count).padStart(8)} ${unit.padEnd(8)} ${behindWhom.padEnd(36)} ${shown}`
  })
}

function summaryOf(counts: LiveCounts, newestEntry: string): string {
  const stages = stagesOf(counts).map(
    ({ stage, count, unit, behind }) => `${stage} ${count} ${unit}${behind && ` (${behind})`}`,
  )
  return [...stages, `newest: ${newestEntry.trim().replaceAll(/\s+/g, ' ')}`].join('  ')
}

/** Each stage in its own unit, and how far it is behind: the index behind the stream, all others behind the PDSs. */
function stagesOf(counts: LiveCounts): { stage: string; count: number; unit: string; behind: string }[] {
  const { writes, relayWrites, rows, indexedRows, feedEntries, indexLagMs } = counts
  const seconds = (ms: number | undefined): string => (ms === undefined ? '' : `${(ms / 1000).toFixed(1)} s`)
  return [
    { stage: 'PDSs', count: writes, unit: 'writes', behind: '' },
    { stage: 'relay', count: relayWrites, unit: 'writes', behind: seconds(counts.relayDelays.medianMs) },
    { stage: 'stream', count: rows, unit: 'rows', behind: seconds(counts.streamDelays.medianMs) },
    {
      stage: 'index',
      count: indexedRows,
      unit: 'rows',
      behind: `${rows - indexedRows} rows, ${seconds(indexLagMs)}`,
    },
    { stage: 'feed', count: feedEntries, unit: 'entries', behind: seconds(counts.feedDelays.medianMs) },
  ]
}

/** Where everything is, and what to try. Stays above the view. */
function introduction(network: Network, services: LocalServices, cast: Cast, testkit: Testkit): string {
  const { urls, archiveKey, operatorTokenFile, logFile } = services
  const streamSocket = `${urls.stream.replace('http', 'ws')}/xrpc/network.social.stream.subscribeEvents`
  const node = relative('', process.execPath)
  const body = JSON.stringify(feedRequest(cast, 10))
  const curl = (method: string): string =>
    `curl -s ${urls.feed}/xrpc/org.impact.feed.${method} -H 'content-type: application/json' -d '${body}'`
  return `
${networkLines(network)}
relay     ${urls.relay}
stream    ${urls.stream}
index     ${urls.index}
feed      ${urls.feed}
log       ${logFile}
token     ${operatorTokenFile} (of the operator)

${accountLines(cast)}

To see in a browser:
  ${urls.stream}/tail        events as they happen
  ${urls.stream}/coverage    what the stream has of every PDS

To try, in another terminal:
  ${curl('getFeed')}
  ${curl('getFeedSkeleton')}
  npm run -s tributary -- tail --url ${urls.stream} --collections 'org.impact.*'
  ${node} -e "new WebSocket('${streamSocket}').onmessage = (m) => console.log(m.data)"
  npm run -s tributary -- backfill --url ${urls.stream} --api-key ${archiveKey}
  npm run -s tributary -- relay hosts list --url ${urls.relay} --operator-token-file ${operatorTokenFile}

${writeLines(cast, testkit)}

Ctrl-C ends everything.

`
}
