/**
 * Random histories over HTTP: events go in at a stream, a real index folds them, a real feed is asked, and each page is
 * compared with a plain evaluation of the rules. A seed is a history of four accounts of its own, and 50 of them are
 * played at a time, mixed, into one database. In each such round the index builds itself again, or not, at a time that
 * nobody knows; then a history of an earlier round is looked at again. Two real labelers label the accounts, and their
 * labels end before, while and after pages are read. Walks go to the end, with any limit, kinds, evaluators and a rule of
 * quality. Half of them ask a feed whose windows are so small that all ways of selecting are taken.
 *
 *     node apps/index/tests/histories-campaign.ts --seeds 500 --seed 1
 *     node apps/index/tests/histories-campaign.ts --seeds 500 --database postgres
 *
 * Hydration and states of hosts are not played.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { openGenerations } from '@tributary/index-store'
import { type Did, entryKinds, qualityLabels, type StreamEvent } from '@tributary/protocol'
import {
  eventually,
  Postgres,
  type Random,
  randomFrom,
  runOnPostgres,
  SmallStream,
  startLabeler,
  startPlc,
  startProcess,
} from '@tributary/testkit'
import { expectedPage, type SaidLabel } from './expected-page.ts'
import { familyOf, organizationEvent, randomEvent } from './random-event.ts'
import { randomLabel } from './random-label.ts'
import { reference, type Shown } from './reference.ts'

const eventsPerSeed = 150
/** Events for which there is one label. */
const eventsPerLabel = 16
/** Events of which one says that its account is an organization. */
const eventsPerOrganization = 30
const seedsPerRound = 50
/** A rebuild reads all histories so far. */
const rebuildEvery = 5
/** An index that is no further after this time stands still. */
const standstillMsMax = 60_000
const lookMs = 20

/** A history of accounts that no other history has. */
interface History {
  readonly family: readonly Did[]
  readonly number: number
  readonly events: StreamEvent[]
  readonly labels: SaidLabel[]
}

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '500' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 32) },
    database: { type: 'string', default: 'sqlite' },
  },
})
const seeds = Number(values.seeds)
const random = randomFrom(Number(values.seed))
console.log(`histories campaign: ${values.database}, seed ${values.seed}`)
const startedMs = performance.now()
const done = { walks: 0, pages: 0, entries: 0, rebuilds: 0, labels: 0 }

await using resources = new AsyncDisposableStack()
const directory = mkdtempSync(join(tmpdir(), 'histories-'))
resources.defer(() => rmSync(directory, { recursive: true }))
const server = values.database === 'postgres' ? resources.use(await Postgres.start()) : undefined
if (server) await runOnPostgres(server.urlOf('postgres'), 'create database histories')
const place = server?.urlOf('histories') ?? join(directory, 'index.sqlite')
const database = { [server ? 'DATABASE_URL' : 'DATABASE_PATH']: place, PORT: '0', LOG_LEVEL: 'error' }
const stream = resources.use(await SmallStream.start([]))
const generations = resources.use(openGenerations(place))
const plc = resources.use(await startPlc())
const inDirectory = { plcUrl: plc.url, directory }
const labelers = [
  resources.use(await startLabeler(inDirectory)),
  resources.use(await startLabeler(inDirectory)),
]
const labelerDids = labelers.map(({ did }) => did as Did) // of the directory
const trusted = { LABELERS: labelerDids.join(), ALLOWED_PRIVATE_HOSTS: 'localhost' }
const index = resources.use(await start('index', { ...database, ...trusted, STREAM_URL: stream.url }))
const feeds = [await startFeed('src/main.ts'), await startFeed('tests/small-window-feed.ts')]

const histories: History[] = []
for (let round = 0; histories.length < seeds; round++) {
  const earlier = [...histories]
  const present: History[] = []
  for (let more = Math.min(seedsPerRound, seeds - histories.length); more > 0; more--) {
    const history: History = {
      number: histories.length,
      family: familyOf(histories.length),
      events: [],
      labels: [],
    }
    histories.push(history)
    present.push(history)
  }
  const before = await generations.current()
  const count = present.length * eventsPerSeed
  const rebuildAt = round % rebuildEvery === 0 ? random.below(count) : undefined
  for (let sent = 0; sent < count; sent++) {
    if (sent === rebuildAt) await generations.askForRebuild()
    const { number, family, events, labels } = random.pick(present)
    if (random.below(eventsPerLabel) === 0) {
      const label = randomLabel(labelerDids, family, random, Date.now())
      labels.push(label)
      await say(label)
    }
    const next = random.below(eventsPerOrganization) === 0 ? organizationEvent : randomEvent
    const event = next(stream.events.length + 1, random, number)
    events.push(event)
    stream.send(event)
    if (random.below(200) === 0) await nextTurn()
  }
  await settled()
  await labelsAreStored()
  done.rebuilds += (await generations.current()) - before
  if (earlier.length > 0) present.push(random.pick(earlier))
  // Each draws from chances of its own, because they are looked at together.
  await Promise.all(present.map((history) => check(history, randomFrom(random.below(2 ** 31)))))
}
console.log(
  `histories campaign: ${values.seeds} seeds, ${stream.events.length} events, ${done.labels} labels, ${done.rebuilds} rebuilds, ${done.walks} walks of ${done.pages} pages and ${done.entries} entries as the rules say, ${((performance.now() - startedMs) / 1000).toFixed(1)} s`,
)

/** Has its labeler say a label. */
async function say({ labeler, did, val, neg, cts, exp }: SaidLabel): Promise<void> {
  await labelers[labelerDids.indexOf(labeler)]?.label(did, val, { neg, cts, exp })
  done.labels++
}

async function startFeed(entry: string) {
  const settings = {
    ...database,
    ...trusted,
    SERVICE_DID: 'did:web:feed.example',
    USED_TOKENS_PATH: join(directory, `${basename(entry)}.sqlite`),
    REQUESTS_PER_MINUTE: '0',
  }
  return resources.use(await start('feed', settings, entry))
}

function start(name: 'index' | 'feed', settings: Record<string, string>, main = 'src/main.ts') {
  const given = Object.entries({ ...settings, PLC_URL: plc.url })
  const env = given.map(([key, value]) => [`TRIBUTARY_${name.toUpperCase()}_${key}`, value])
  const entry = join(import.meta.dirname, '..', '..', name, main)
  return startProcess(entry, { env: Object.fromEntries(env) as Record<string, string> }) // pairs of text
}

/** Waits until the index has folded everything, and no rebuild is to come. */
async function settled(): Promise<void> {
  const through = stream.events.length
  let [last, movedMs] = ['', performance.now()]
  for (;;) {
    const ready = (await (await fetch(`${index.url}/ready`)).json()) as { cursor?: number } // of status-server.ts
    if (ready.cursor === through && !(await generations.isRebuildAsked())) return
    const now = JSON.stringify([ready, await generations.progress()])
    if (now !== last) movedMs = performance.now()
    last = now
    assert.ok(
      performance.now() - movedMs < standstillMsMax,
      `${now} does not reach ${through}: ${index.stderr}`,
    )
    await pause(lookMs)
  }
}

/** Waits until the index has stored each label that was said. */
async function labelsAreStored(): Promise<void> {
  const stored = async (): Promise<number> => {
    const text = await (await fetch(`${index.url}/metrics`)).text()
    const counts = text.matchAll(/^index_labels_total\{[^}]*result="stored"[^}]*\} (\d+)$/gm)
    return counts.reduce((sum, [, count]) => sum + Number(count), 0)
  }
  await eventually(async () => (await stored()) === done.labels, stored)
}

/** Reads the feed of each account of a history. */
async function check(history: History, chances: Random): Promise<void> {
  const shown = reference(history.events)
  for (const viewer of history.family) await walk(shown, viewer, history, chances)
}

/** Reads a feed to its end, and holds it against the rules. */
async function walk(shown: Shown, viewer: Did, history: History, chances: Random): Promise<void> {
  const { family, number, labels } = history
  const trustedEvaluators = family.filter(() => chances.below(3) === 0)
  const kinds = chances.below(2) === 0 ? [] : entryKinds.filter(() => chances.below(2) === 0)
  const allowed = chances.pick([undefined, { includeUnrated: true }, { includeUnrated: false }])
  const quality = allowed && { allowed: qualityLabels.filter(() => chances.below(2) === 0), ...allowed }
  const limit = 1 + chances.below(chances.pick([3, 50]))
  const params = {
    $type: 'org.impact.feed.defs#impactFeedParams',
    viewerDid: viewer,
    trustedEvaluators,
    kinds,
    ...(quality && { organizationQuality: quality }),
  }
  const feed = chances.pick(feeds)
  const asked = { viewer, evaluators: trustedEvaluators, kinds, quality, labels }
  for (;;) {
    const fromMs = Date.now()
    const read = await readToEnd(feed.url, params, limit)
    const nowMs = Date.now()
    // A label that ends in the middle of a walk counts for the first pages only.
    if (quality && labels.some(({ exp = '' }) => Date.parse(exp) >= fromMs && Date.parse(exp) <= nowMs))
      continue
    const expected = expectedPage(shown, { ...asked, nowMs })
    const what = { params, labels, history: number, events: stream.events.length, nowMs }
    assert.deepEqual(read, expected, JSON.stringify(what))
    done.walks++
    done.entries += read.length
    return
  }
}

/** The addresses of all pages, one after the other. */
async function readToEnd(url: string, params: object, limit: number): Promise<string[]> {
  const read: string[] = []
  for (let cursor: string | undefined = ''; cursor !== undefined;) {
    const body: string = JSON.stringify({ feedId: 'org.impact.feed.defs#impactFeed', params, limit, cursor })
    const response = await fetch(`${url}/xrpc/org.impact.feed.getFeedSkeleton`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
    const page = (await response.json()) as { feed: { subject: string }[]; cursor?: string } // as the lexicon says
    assert.equal(response.status, 200, JSON.stringify(page))
    read.push(...page.feed.map(({ subject }) => subject))
    cursor = page.cursor
    done.pages++
  }
  return read
}
