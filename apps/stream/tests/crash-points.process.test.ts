/** A stream is killed at named points of what it stores, and goes on. What it acknowledged is there, once. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { toEnvironment } from '@tributary/settings'
import {
  eventually,
  freePort,
  inTime,
  startPlc,
  startProcess,
  startScriptedHost,
  type ScriptedAccount,
  type ServiceProcess,
} from '@tributary/testkit'
import { decodeWithSecondDecoder } from '@tributary/testkit/second-jss-decoder'
import { streamSettings } from '../src/index.ts'
import { crashPoints, type Work } from './crash-points.ts'
import { operate, operatorToken } from './operate-process.ts'
import { Resuming } from './resuming.ts'

const entry = new URL('../src/main.ts', import.meta.url).pathname
const first = 'org.impact.collection'

/** One stream after the other: a job of a backfill reads all repositories of its host. */
const lives: readonly (readonly Work[])[] = [
  ['ingest', 'seal', 'compact', 'take-down', 'create-key'],
  ['add-collection'],
]

test('each work is done in one life', () => {
  assert.deepEqual(lives.flat().toSorted(), Object.keys(crashPoints).toSorted())
})

for (const works of lives)
  test(`killed at any point of its work to ${works.join(', ')}, a stream loses, repeats and reorders nothing`, () =>
    killAtAll(works))

async function killAtAll(works: readonly Work[]): Promise<void> {
  const kills = works.flatMap((work) => crashPoints[work].map(([point, at], i) => ({ work, point, at, i })))
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  host.answers.set('com.atproto.sync.listHosts', (_, response) => {
    const hosts = [{ hostname: host.host }]
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ hosts }))
  })
  const account = await host.createAccount()
  // Written before anybody watched them: only backfills bring them.
  const added = kills.flatMap(({ work, i }) => (work === 'add-collection' ? [`org.example.added${i}`] : []))
  const rkeys = Array.from({ length: 10 }, (_, i) => `r${i}`)
  for (const collection of added) for (const rkey of rkeys) account.create(collection, {}, rkey)

  await using directory = await mkdtempDisposable(join(tmpdir(), 'crash-points-'))
  const [tokenFile, armed] = [join(directory.path, 'operator-token'), join(directory.path, 'armed')]
  writeFileSync(tokenFile, operatorToken)
  const env = {
    ...toEnvironment(streamSettings, {
      port: await freePort(),
      dataDirectory: join(directory.path, 'data'),
      logLevel: 'warn',
      relayUrl: host.url.replace('http', 'ws'),
      plcUrl: plc.url,
      allowedPrivateHosts: ['localhost'],
      collections: [first],
      // The job of a collection that goes on after a kill waits for events that come at the same time.
      backfillSettleSeconds: 5,
      backfillRequestsPerSecond: 1000,
      compactionHours: 0,
    }),
    TRIBUTARY_STREAM_OPERATOR_TOKEN: tokenFile,
  }
  const preload = new URL(`./crash-point.ts?armed=${encodeURIComponent(armed)}`, import.meta.url)
  const start = (): Promise<ServiceProcess> =>
    startProcess(entry, { env, nodeOptions: ['--import', preload.href], endsByItself: true })

  const consumer = new Resuming()
  const live: string[] = []
  const owners: string[] = []
  const down: string[] = []
  const commitsOf = (collection: string): string[] =>
    consumer
      .commitsOf(account.did)
      .flatMap((event) => (event['collection'] === collection ? [String(event['rkey'])] : []))
  const areAllThere = (): boolean => commitsOf(first).length >= live.length
  const create = (rkey: string): void => {
    account.create(first, {}, rkey)
    live.push(rkey)
  }

  await using processes = new AsyncDisposableStack()
  let stream = processes.use(await start())
  // So that no event of before comes again, and brings as new what was not watched when it came.
  create('first')
  await consumer.read(stream.url, areAllThere)
  assert.equal((await stream.stop()).code, 0)
  stream = processes.use(await start())
  const addCollection = (i: number): Promise<unknown> =>
    operate(stream, 'addCollection', { collection: added[i], idempotencyKey: added[i] })
  let other: ScriptedAccount | undefined
  /** Has the stream do its work, `i` times before. */
  const acts: Record<Work, (i: number) => Promise<void> | void> = {
    ingest: (i) => create(`taken-in-${i}`),
    seal: async () => void (await operate(stream, 'sealSegment', {})),
    compact: async () => void (await operate(stream, 'compact', {})),
    'take-down': () => void other?.setStatus('takendown'),
    'add-collection': async (i) => void (await addCollection(i)),
    'create-key': async (i) => {
      const answer = await operate(stream, 'createKey', { owner: `owner ${i}` })
      if (answer?.status === 200) owners.push(`owner ${i}`)
    },
  }
  for (const { work, point, at, i } of kills) {
    const what = `${work}, ${point} ${at}`
    const rkey = `${work}-${i}`
    // Something that a compaction can take out.
    create(rkey)
    account.delete(first, rkey)
    live.push(rkey)
    create(`${rkey}-stays`)
    await consumer.read(stream.url, areAllThere)
    if (work === 'compact') await operate(stream, 'sealSegment', {})
    if (work === 'take-down') {
      const { did } = (other = await host.createAccount())
      other.create(first, {}, 'taken-down')
      down.push(did)
      await consumer.read(stream.url, () => consumer.commitsOf(did).length > 0)
    }
    // From here on the stream may end: what it was at before the last kill goes on, too.
    writeFileSync(armed, `${point} ${at}`)
    await acts[work](i)
    assert.deepEqual(await inTime(stream.exited, () => what), { code: null, signal: 'SIGKILL' }, what)
    rmSync(armed)
    stream = processes.use(await start())
    await consumer.read(stream.url, areAllThere)
    assert.deepEqual(commitsOf(first), live, what)
    const listed = (await operate(stream, 'listKeys')) ?? assert.fail(what)
    const there = (listed.body['keys'] as { owner: string }[]).map((key) => key.owner) // by its lexicon
    for (const each of owners) assert.ok(there.includes(each), `${what}: the key of ${each} is gone`)
    if (work !== 'add-collection') continue
    await addCollection(i)
    await consumer.read(stream.url, () => commitsOf(added[i] ?? '').length >= rkeys.length)
  }
  create('last')
  // An `#account` may wait for a document longer than what another account wrote after it.
  const isTakenDown = (did: string): boolean =>
    consumer.events.values().some((event) => {
      const { active } = (event['account'] ?? {}) as { active?: boolean } // by its lexicon
      return event['did'] === did && active === false
    })
  await consumer.read(stream.url, () => areAllThere() && down.every(isTakenDown))
  for (const collection of added) assert.deepEqual(commitsOf(collection).toSorted(), rkeys, collection)
  // What was taken down leaves the files, whenever the stream was killed.
  await operate(stream, 'compact', {})
  await eventually(async () => {
    const { body } = (await operate(stream, 'getCompaction')) ?? assert.fail('the stream has ended')
    return body['isRunning'] === false && body['endedAt'] !== undefined && body['pendingTakedowns'] === 0
  })
  assert.equal((await stream.stop()).code, 0)
  const rows = await sealedRows(join(directory.path, 'data', 'segments'))
  for (const did of down)
    assert.deepEqual(
      rows.filter((row) => row.did === did && row.rkey !== ''),
      [],
    )
  assert.deepEqual(
    rows.flatMap((row) => (row.did === account.did && row.rkey.endsWith('-stays') ? row.rkey : [])),
    live.filter((rkey) => rkey.endsWith('-stays')),
  )
}

/** Every row of the sealed segments, by the second decoder. */
async function sealedRows(directory: string) {
  const rows = []
  for (const name of readdirSync(directory).toSorted()) {
    const bytes = readFileSync(join(directory, name))
    const isActive = bytes.readBigUInt64LE(4) === 0n
    if (isActive) continue
    const { blocks } = await decodeWithSecondDecoder(bytes)
    rows.push(...blocks.flatMap(({ events }) => events))
  }
  return rows
}
