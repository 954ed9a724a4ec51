/**
 * Random histories over HTTP: events go in at a stream, a real index folds them, a real feed is asked, and each page is
 * compared with a plain evaluation of the rules. A seed adds sixty events to the history so far; every tenth has the index
 * build itself again meanwhile. Walks go to the end, with any limit, kinds, evaluators and a rule of quality.
 *
 *     node apps/index/tests/histories-campaign.ts --seeds 500 --seed 1
 *     node apps/index/tests/histories-campaign.ts --seeds 500 --database postgres
 *
 * Labels, hydration and states of hosts are not played.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { entryKinds, openGenerations } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import {
  eventually,
  Postgres,
  randomFrom,
  runOnPostgres,
  SmallStream,
  startProcess,
} from '@tributary/testkit'
import { expectedPage } from './expected-page.ts'
import { randomEvent } from './random-event.ts'
import { reference, type Shown } from './reference.ts'
import { did } from './scenario.ts'

const eventsPerSeed = 60
const rebuildEvery = 10
const viewers = ['x', 'y', 'z', 'keeper'].map(did)

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '500' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 32) },
    database: { type: 'string', default: 'sqlite' },
  },
})
const random = randomFrom(Number(values.seed))
console.log(`histories campaign: ${values.database}, seed ${values.seed}`)
const startedMs = performance.now()
const done = { walks: 0, pages: 0, entries: 0, rebuilds: 0 }

await using resources = new AsyncDisposableStack()
const directory = mkdtempSync(join(tmpdir(), 'histories-'))
resources.defer(() => rmSync(directory, { recursive: true }))
const server = values.database === 'postgres' ? resources.use(await Postgres.start()) : undefined
if (server) await runOnPostgres(server.urlOf('postgres'), 'create database histories')
const place = server?.urlOf('histories') ?? join(directory, 'index.sqlite')
const database = { [server ? 'DATABASE_URL' : 'DATABASE_PATH']: place, PORT: '0', LOG_LEVEL: 'error' }
const stream = resources.use(await SmallStream.start([]))
const generations = resources.use(openGenerations(place))
const index = resources.use(await start('index', { ...database, STREAM_URL: stream.url }))
const feed = resources.use(
  await start('feed', {
    ...database,
    SERVICE_DID: 'did:web:feed.example',
    USED_TOKENS_PATH: join(directory, 'tokens.sqlite'),
    REQUESTS_PER_MINUTE: '0',
  }),
)

for (let seed = 0; seed < Number(values.seeds); seed++) {
  const before = await generations.current()
  if (seed % rebuildEvery === rebuildEvery - 1) await generations.askForRebuild()
  for (let sent = 0; sent < eventsPerSeed; sent++) stream.send(randomEvent(stream.events.length + 1, random))
  await settled()
  done.rebuilds += (await generations.current()) - before
  const shown = reference(stream.events)
  for (const viewer of viewers) await walk(shown, viewer)
}
console.log(
  `histories campaign: ${values.seeds} seeds, ${stream.events.length} events, ${done.rebuilds} rebuilds, ${done.walks} walks of ${done.pages} pages and ${done.entries} entries as the rules say, ${((performance.now() - startedMs) / 1000).toFixed(1)} s`,
)

function start(name: 'index' | 'feed', settings: Record<string, string>) {
  const given = Object.entries({ ...settings, PLC_URL: 'http://127.0.0.1:1' })
  const env = given.map(([key, value]) => [`TRIBUTARY_${name.toUpperCase()}_${key}`, value])
  const entry = join(import.meta.dirname, '..', '..', name, 'src', 'main.ts')
  return startProcess(entry, { env: Object.fromEntries(env) as Record<string, string> }) // pairs of text
}

/** Waits until the index has folded everything, and no rebuild is to come. */
async function settled(): Promise<void> {
  const through = stream.events.length
  await eventually(
    async () => {
      const ready = (await (await fetch(`${index.url}/ready`)).json()) as { cursor?: number } // of status-server.ts
      return ready.cursor === through && !(await generations.isRebuildAsked())
    },
    async () => ({ through, progress: await generations.progress(), stderr: index.stderr }),
  )
}

/** Reads a feed to its end, and holds it against the rules. */
async function walk(shown: Shown, viewer: Did): Promise<void> {
  const trustedEvaluators = viewers.filter(() => random.below(3) === 0)
  const kinds = random.below(2) === 0 ? [] : entryKinds.filter(() => random.below(2) === 0)
  const allowed = random.pick([undefined, { includeUnrated: true }, { includeUnrated: false }])
  const quality = allowed && { allowed: ['standard'], ...allowed }
  const limit = 1 + random.below(random.pick([3, 50]))
  const params = {
    $type: 'org.impact.feed.defs#impactFeedParams',
    viewerDid: viewer,
    trustedEvaluators,
    kinds,
    ...(quality && { organizationQuality: quality }),
  }
  const read: string[] = []
  for (let cursor: string | undefined = ''; cursor !== undefined;) {
    const body: string = JSON.stringify({ feedId: 'org.impact.feed.defs#impactFeed', params, limit, cursor })
    const response = await fetch(`${feed.url}/xrpc/org.impact.feed.getFeedSkeleton`, {
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
  const expected = expectedPage(shown, { viewer, evaluators: trustedEvaluators, kinds, quality })
  assert.deepEqual(read, expected, JSON.stringify({ params, events: stream.events.length }))
  done.walks++
  done.entries += read.length
}
