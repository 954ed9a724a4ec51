/**
 * Kills an index again and again while it reads a backlog, follows the live stream, builds itself again and switches:
 * whatever it was doing, every table ends equal to that of a fresh fold, labels and handles stay, and a reader is
 * answered throughout. The seed is a new one each time unless it is given.
 *
 *     node apps/index/tests/kill-campaign.ts --rounds 100 --seed 1
 *     node apps/index/tests/kill-campaign.ts --rounds 100 --database postgres
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import {
  type Generations,
  type IndexWriter,
  openGenerations,
  openIndexReader,
  openIndexWriter,
  type TableName,
} from '@tributary/index-store'
import type { StreamEvent } from '@tributary/protocol'
import {
  Postgres,
  type Random,
  randomFrom,
  runOnPostgres,
  type ServiceProcess,
  SmallStream,
  startProcess,
} from '@tributary/testkit'
import { Fold } from '../src/fold/fold.ts'
import { sourceOf } from '../src/fold/followed-stream.ts'
import { keeper, randomEvent } from './random-event.ts'
import { did, rowsOf, views } from './scenario.ts'

const entry = new URL('../src/main.ts', import.meta.url).pathname
const policy = { updateContentTypes: [] }
/** Events before the first start, and at most so many more each round. */
const events = { backlog: 1000, perRound: 200 }
/** Kills come at most so long after a start: a rebuild takes about a second. */
const killMsMax = 2500
/** A switch comes at most about so long after the next generation has reached the present one. */
const switchMsMax = 1500
const checkEvery = 10
/** A transaction that takes longer than this hangs. */
const standstillMsMax = 120_000
/** PostgreSQL may hold the lock of an index that was killed until its last statement ends. */
const startsMax = 40

const tables = [
  'records',
  'views',
  'entries',
  'endorsements',
  'follows',
  'organizations',
  'accounts',
  'foldedEvents',
  'collectionItems',
  'awards',
  'responses',
  'superseded',
] as const satisfies readonly TableName[]

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '100' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 32) },
    database: { type: 'string', default: 'sqlite' },
  },
})
const rounds = Number(values.rounds)
const random = randomFrom(Number(values.seed))
console.log(`index kill campaign: ${values.database}, seed ${values.seed}`)

const directory = mkdtempSync(join(tmpdir(), 'index-kill-'))
const server = values.database === 'postgres' ? await Postgres.start() : undefined
if (server) await runOnPostgres(server.urlOf('postgres'), 'create database killed')
const place = server?.urlOf('killed') ?? join(directory, 'index.sqlite')
const stream = await SmallStream.start(backlog(random))
const done = { kills: 0, inBacklog: 0, inRebuild: 0, inLive: 0, rebuilds: 0, checks: 0, reads: 0 }
const startedMs = performance.now()
try {
  await prepare()
  await campaign()
} finally {
  await stream[Symbol.asyncDispose]()
  await server?.[Symbol.asyncDispose]()
}
rmSync(directory, { recursive: true })
const seconds = ((performance.now() - startedMs) / 1000).toFixed(1)
console.log(
  `index kill campaign: ${done.kills} kills (${done.inBacklog} in a backlog, ${done.inRebuild} in a rebuild, ${done.inLive} live), ${done.rebuilds} rebuilds, ${done.checks} comparisons of all tables, ${done.reads} reads, ${stream.events.length} events, ${seconds} s`,
)

function backlog(from: Random): StreamEvent[] {
  return Array.from({ length: events.backlog }, (_, index) => randomEvent(index + 1, from))
}

/** What the stream does not tell, and no kill or rebuild may lose. */
async function prepare(): Promise<void> {
  await using writer = await openIndexWriter(place)
  const fold = new Fold(writer, policy, views)
  // The first events, so that the account is known.
  const first = stream.events.slice(0, 200)
  await fold.apply(sourceOf(stream.url), first, first.at(-1)?.seq ?? 0)
  const label = { src: did('labeler'), did: did(keeper), uri: did(keeper), cid: null, val: 'draft' } as const
  await writer.write(async (batch) => {
    await batch.put('labels', [{ ...label, neg: 0n, cts: 1n, exp: null }])
    await batch.put('cursors', [{ source: `labels:${did('labeler')}`, cursor: 5n }])
    await batch.put('handles', [{ did: did(keeper), handle: 'keeper.test' }])
  })
}

async function campaign(): Promise<void> {
  await using generations = openGenerations(place)
  await using reader = openIndexReader(place)
  const over = new AbortController()
  const read = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const { handle } = await reader.snapshot({ timeoutMs: 60_000 }, (view) => view.account(did(keeper)))
      assert.equal(handle, 'keeper.test')
      done.reads++
      await pause(5)
    }
  }
  const play = async (): Promise<void> => {
    try {
      for (let round = 0; round < rounds; round++) {
        await killOnce(generations)
        if (round % checkEvery === checkEvery - 1 || round === rounds - 1) await check(generations)
      }
    } finally {
      over.abort()
    }
  }
  await Promise.all([play(), read()])
}

/** One round: events, perhaps a rebuild, and a kill at a time that nobody knows. */
async function killOnce(generations: Generations): Promise<void> {
  const count = random.below(events.perRound)
  const isRebuilding = random.below(3) > 0
  const killMs = random.below(killMsMax)
  const before = await generations.current()
  if (isRebuilding) await generations.askForRebuild()
  const index = await startIndex()
  const isAtSwitch = isRebuilding && random.below(2) === 0
  const kill = async (): Promise<void> => {
    await (isAtSwitch ? nearSwitch(generations, before) : pause(killMs))
    await index.kill('SIGKILL')
  }
  const killing = kill()
  for (let sent = 0; sent < count; sent++) {
    stream.send(randomEvent(stream.events.length + 1, random))
    if (sent % 20 === 0) await pause(1)
  }
  await killing
  done.kills++
  const after = await generations.current()
  done.rebuilds += after - before
  const present = (await generations.progress()).find(({ generation }) => generation === after)
  if (await generations.isRebuildAsked()) done.inRebuild++
  else if ((present?.cursor ?? 0) < stream.events.length) done.inBacklog++
  else done.inLive++
}

/** Waits until the next generation has reached the present one, and then a while that is now before the switch, now after it. */
async function nearSwitch(generations: Generations, present: number): Promise<void> {
  const afterMs = random.below(switchMsMax)
  const deadline = performance.now() + killMsMax * 2
  for (; performance.now() < deadline; await pause(10)) {
    const progress = await generations.progress()
    const cursorOf = (wanted: number): number =>
      progress.find(({ generation }) => generation === wanted)?.cursor ?? 0
    if ((await generations.current()) > present || cursorOf(present + 1) >= Math.max(1, cursorOf(present)))
      break
  }
  await pause(afterMs)
}

async function startIndex(): Promise<ServiceProcess> {
  const settings = {
    PORT: '0',
    [server ? 'DATABASE_URL' : 'DATABASE_PATH']: place,
    STREAM_URL: stream.url,
    PLC_URL: 'http://127.0.0.1:1',
    LOG_LEVEL: 'error',
  }
  const named = Object.entries(settings).map(([key, value]) => [`TRIBUTARY_INDEX_${key}`, value])
  const env = { NODE_COMPILE_CACHE: join(tmpdir(), 'index-kill-compiled'), ...Object.fromEntries(named) }
  for (let start = 1; ; start++) {
    try {
      return await startProcess(entry, { env })
    } catch (error) {
      if (start === startsMax || !server) throw error
      await pause(250)
    }
  }
}

/** An index that is left alone has, in every table, what a fresh fold has. */
async function check(generations: Generations): Promise<void> {
  const before = await generations.current()
  const index = await startIndex()
  const through = stream.events.at(-1)?.seq ?? 0
  const present = async (): Promise<number> => {
    const number = await generations.current()
    return (await generations.progress()).find(({ generation }) => generation === number)?.cursor ?? 0
  }
  let movedAt = performance.now()
  for (let last = ''; (await generations.isRebuildAsked()) || (await present()) < through; await pause(50)) {
    const now = JSON.stringify(await generations.progress())
    if (now !== last) movedAt = performance.now()
    last = now
    assert.ok(
      performance.now() - movedAt < standstillMsMax,
      `${now} does not reach ${through}: ${index.stderr}`,
    )
  }
  await index.stop()
  done.rebuilds += (await generations.current()) - before
  await using writer = await openIndexWriter(place)
  await using fresh = await openIndexWriter(':memory:')
  await new Fold(fresh, policy, views).apply(sourceOf(stream.url), stream.events, through)
  for (const table of tables) assert.deepEqual(await textOf(writer, table), await textOf(fresh, table), table)
  const own = await rowsOf(writer, 'labels')
  assert.deepEqual(
    own.map(({ val, cts }) => [val, cts]),
    [['draft', 1n]],
  )
  const cursors = await rowsOf(writer, 'cursors')
  assert.deepEqual(
    cursors.map(({ source, cursor }) => `${source} ${cursor}`).toSorted(),
    [`labels:${did('labeler')} 5`, `${sourceOf(stream.url)} ${through}`].toSorted(),
  )
  done.checks++
}

/** Rows in an order of their own. When a host was asked is nothing that a fold knows. */
async function textOf(writer: IndexWriter, table: TableName): Promise<string[]> {
  const rows: object[] = await rowsOf(writer, table)
  return rows
    .map((row) =>
      Object.entries(row)
        .filter(([column]) => column !== 'checkedAt')
        .map(([column, value]) => `${column}=${String(value)}`)
        .toSorted()
        .join(' '),
    )
    .toSorted()
}
