/** A stream is killed at named points of what it stores, and goes on. What it acknowledged is there, once. */
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { toEnvironment } from '@tributary/settings'
import { freePort, startPlc, startProcess, startScriptedHost, type ServiceProcess } from '@tributary/testkit'
import { streamSettings } from '../src/index.ts'
import type { CrashPoint } from './crash-point.ts'
import { operate, operatorToken } from './operate-process.ts'
import { Resuming } from './resuming.ts'

const entry = new URL('../src/main.ts', import.meta.url).pathname
const [first, second] = ['org.impact.collection', 'org.hyperboards.board']

/** What the stream is asked for, and the points at which it is killed meanwhile. */
const moments: Record<string, [point: CrashPoint, at: number][]> = {
  sealSegment: [
    ['block:written', 1],
    ['seal:written', 1],
    ['seal:synced', 1],
    ['seal:synced', 2],
    ['new-segment:before-rename', 1],
    ['new-segment:renamed', 1],
  ],
  compact: [
    ['compaction:written', 1],
    ['compaction:before-rename', 1],
    ['compaction:renamed', 1],
  ],
  createKey: [
    ['state:before-commit', 1],
    ['state:committed', 1],
  ],
  addCollection: [
    ['state:before-commit', 1],
    ['state:committed', 1],
  ],
}

test('a stream that is killed at any point of what it stores loses, repeats and reorders nothing', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  host.answers.set('com.atproto.sync.listHosts', (_, response) => {
    const hosts = [{ hostname: host.host }]
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ hosts }))
  })
  const account = await host.createAccount()
  // Written before anybody watched it: only a backfill brings it.
  const boards = Array.from({ length: 20 }, (_, i) => `board-${i}`)
  for (const rkey of boards) account.create(second, {}, rkey)

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
      backfillSettleSeconds: 0,
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
  const commitsOf = (collection: string): string[] =>
    consumer
      .commitsOf(account.did)
      .flatMap((event) => (event['collection'] === collection ? [String(event['rkey'])] : []))
  const areAllThere = (): boolean => commitsOf(first).length >= live.length

  await using processes = new AsyncDisposableStack()
  let stream = processes.use(await start())
  for (const [method, points] of Object.entries(moments))
    for (const [point, at] of points) {
      const what = `${method}, ${point} ${at}`
      const rkey = `r${live.length}`
      account.create(first, {}, rkey)
      account.delete(first, rkey)
      account.create(first, {}, `${rkey}-stays`)
      live.push(rkey, rkey, `${rkey}-stays`)
      await consumer.read(stream.url, areAllThere)
      if (method === 'compact') await operate(stream, 'sealSegment', {})
      writeFileSync(armed, `${point} ${at}`)
      const owner = what
      const answer = await operate(stream, method, {
        ...(method === 'createKey' && { owner }),
        ...(method === 'addCollection' && { collection: second, idempotencyKey: 'second' }),
      })
      if (method === 'createKey' && answer?.status === 200) owners.push(owner)
      // The states are saved within a second of an event.
      if (stream.isRunning && !point.startsWith('compaction')) {
        account.create(first, {}, `${rkey}-late`)
        live.push(`${rkey}-late`)
      }
      assert.deepEqual(await stream.exited, { code: null, signal: 'SIGKILL' }, what)
      rmSync(armed)
      stream = processes.use(await start())
      await consumer.read(stream.url, areAllThere)
      assert.deepEqual(commitsOf(first), live, what)
      const listed = (await operate(stream, 'listKeys')) ?? assert.fail(what)
      const there = (listed.body['keys'] as { owner: string }[]).map((key) => key.owner) // by its lexicon
      for (const each of owners) assert.ok(there.includes(each), `${what}: the key of ${each} is gone`)
    }
  await operate(stream, 'addCollection', { collection: second, idempotencyKey: 'second' })
  await consumer.read(stream.url, () => commitsOf(second).length >= boards.length)
  assert.deepEqual(commitsOf(second).toSorted(), boards.toSorted())
  assert.equal((await stream.stop()).code, 0)
})
