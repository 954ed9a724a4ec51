/**
 * Kills a relay at every named point, again and again, while hosts emit really signed commits and a consumer follows:
 * whatever the point, everything emitted is seen once, in order, and no sequence number is used twice. The seed is a new
 * one each time unless it is given.
 *
 *     node apps/relay/tests/crash-campaign.ts --rounds 200 --seed 1
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import {
  freePort,
  randomFrom,
  startPlc,
  startProcess,
  startScriptedHost,
  type Plc,
  type Random,
  type ScriptedHost,
} from '@tributary/testkit'
import { CheckedEmitter } from './checked-emitter.ts'
import { crashPoints, timesUntil, type CrashPoint } from './crash-points.ts'
import { ExactlyOnce } from './exactly-once.ts'

const entry = new URL('../src/main.ts', import.meta.url).pathname
/** Relays at a time. */
const lanes = 2
/** Much more than the emitter lets be on its way, so that the consumer is never outdated. */
const logBytes = 1_000_000
/** Many times what is on its way. */
const retainedEvents = 1000
/**
 * An account that goes and comes back twice in a round may wait for half a minute for its document, because a host has it read
 * again only that often. All others wait for it then: the emitter lets few events be on their way.
 */
const rounds = { checkEvery: 20, timeoutMs: 90_000 }

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '200' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 32) },
  },
})
console.log(`crash campaign: seed ${values.seed}`)
const total = Number(values.rounds)
const root = mkdtempSync(join(tmpdir(), 'crash-campaign-'))
const plc = await startPlc()
const startedMs = performance.now()
const results = await Promise.all(
  Array.from({ length: lanes }, (_, lane) =>
    runLane(plc, {
      lane,
      rounds: Math.ceil((total - lane) / lanes),
      random: randomFrom(Number(values.seed) * lanes + lane),
    }),
  ),
)
await plc.stop()
rmSync(root, { recursive: true })
const kills = results.reduce((sum, result) => sum + result.kills, 0)
const events = results.reduce((sum, result) => sum + result.events, 0)
console.log(
  `crash campaign: ${kills} kills at ${crashPoints.length} points (seed ${values.seed}), ${events} events seen once and in order, ${((performance.now() - startedMs) / 1000).toFixed(1)} s`,
)

async function runLane(
  plc: Plc,
  { lane, rounds: count, random }: { lane: number; rounds: number; random: Random },
): Promise<{ kills: number; events: number }> {
  const dataDirectory = join(root, `lane-${lane}`)
  const hosts = await Promise.all([0, 1].map(() => startScriptedHost({ plcUrl: plc.url, retainedEvents })))
  const names = hosts.map(({ host }) => host).join(',')
  const port = await freePort()
  const env = {
    // Starting is most of a round, and compiling most of starting.
    NODE_COMPILE_CACHE: join(root, 'compiled'),
    TRIBUTARY_RELAY_PORT: String(port),
    TRIBUTARY_RELAY_DATA_DIRECTORY: dataDirectory,
    TRIBUTARY_RELAY_PLC_URL: plc.url,
    TRIBUTARY_RELAY_SOURCES: names,
    TRIBUTARY_RELAY_ALLOWED_PRIVATE_HOSTS: names,
    TRIBUTARY_RELAY_LOG_RETENTION_BYTES: String(logBytes),
    TRIBUTARY_RELAY_SOURCE_EVENTS_PER_SECOND: '1000000',
    TRIBUTARY_RELAY_LOG_LEVEL: 'warn',
  }
  const consumer = new ExactlyOnce(`http://127.0.0.1:${port}`)
  const emitter = await CheckedEmitter.create(hosts, consumer, random)
  let kills = 0
  try {
    for (let round = 0; round < count; round++) {
      const point = crashPoints[(round * lanes + lane) % crashPoints.length] ?? 'append:half'
      const at = 1 + random.below(timesUntil(point))
      const visible = random.pick(['durable', 'written'])
      const what = `round ${round} of lane ${lane}: ${point}, time ${at}, visible ${visible}`
      try {
        await killAt(point, at, { ...env, TRIBUTARY_RELAY_LOG_VISIBLE: visible }, emitter)
        kills++
        if (round % rounds.checkEvery === rounds.checkEvery - 1 || round === count - 1)
          await checkWhole(env, consumer, hosts)
      } catch (error) {
        throw new Error(`${what}; the data directory is kept in ${dataDirectory}`, { cause: error })
      }
    }
  } finally {
    consumer.close()
    await Promise.all(hosts.map((host) => host.stop()))
  }
  return { kills, events: consumer.eventsSeen }
}

/** One round: a relay that will be killed, and events until it has been. */
async function killAt(
  point: CrashPoint,
  at: number,
  env: Record<string, string>,
  emitter: CheckedEmitter,
): Promise<void> {
  const preload = new URL(`./crash-point.ts?point=${point}&at=${at}`, import.meta.url).href
  const ended = new AbortController()
  const timer = setTimeout(() => ended.abort(), rounds.timeoutMs)
  const running = startProcess(entry, { env, nodeOptions: ['--import', preload], endsByItself: true }).then(
    async (relay) => ({ exit: await relay.exited, stderr: relay.stderr }),
    // Killed before it was ready.
    (error: unknown) => ({ exit: undefined, stderr: String((error as Error).cause) }),
  )
  const emitting = emitter.run(ended.signal)
  const { exit, stderr } = await Promise.race([
    running,
    emitting.then(() => assert.fail(`not killed at ${point}`)),
  ])
  ended.abort()
  clearTimeout(timer)
  await emitting
  assert.ok(exit ? exit.signal === 'SIGKILL' : stderr.includes('by SIGKILL'), `ended otherwise: ${stderr}`)
}

/**
 * A relay that is left alone: the consumer gets everything, what the relay holds is what the consumer saw, and what the
 * relay says of each account is what its host says.
 */
async function checkWhole(
  env: Record<string, string>,
  consumer: ExactlyOnce,
  hosts: readonly ScriptedHost[],
): Promise<void> {
  await using relay = await startProcess(entry, { env })
  const timeout = AbortSignal.timeout(rounds.timeoutMs)
  await consumer.untilOutstanding(0, timeout)
  assert.equal(consumer.outstanding, 0, `events were lost; the relay says ${relay.stderr}`)
  await consumer.compareReplay()
  for (const host of hosts) {
    for (const did of host.accounts.keys()) {
      const path = `/xrpc/com.atproto.sync.getLatestCommit?did=${did}`
      const [ours, theirs] = await Promise.all([relay, host].map(async ({ url }) => fetch(url + path)))
      assert.deepEqual(await ours?.json(), await theirs?.json(), `the latest commit of ${did}`)
    }
  }
}
