/**
 * The disk of a stream is filled, again and again, while it takes rows in, seals, compacts, backfills, and stores changes
 * of operators. It needs a file system of its own, and so the right to mount one.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  mkdtempSync,
  openSync,
  rmSync,
  rmdirSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { toEnvironment } from '@tributary/settings'
import {
  freePort,
  startPlc,
  startProcess,
  startScriptedHost,
  type ScriptedAccount,
  type ServiceProcess,
} from '@tributary/testkit'
import { streamSettings } from '../src/index.ts'
import { operate, operatorToken } from './operate-process.ts'
import { Resuming } from './resuming.ts'

const entry = new URL('../src/main.ts', import.meta.url).pathname
const [first, second] = ['org.impact.collection', 'org.hyperboards.board']
const page = 4096
const megabyte = 1024 * 1024

/** A small file system in memory, or why there cannot be one. */
function mountSmall(): (Disposable & { path: string }) | string {
  const path = mkdtempSync(join(tmpdir(), 'disk-full-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=12m', 'tmpfs', path], { stdio: 'pipe' })
  } catch (error) {
    rmdirSync(path)
    return `a file system cannot be mounted here: ${error instanceof Error ? error.message.trim() : String(error)}`
  }
  return {
    path,
    [Symbol.dispose]() {
      execFileSync('umount', [path])
      rmdirSync(path)
    },
  }
}

/** Takes all room of a disk but so many bytes. */
function fill(disk: string, freeBytes: number): Disposable {
  const path = join(disk, 'filler')
  const file = openSync(path, 'w')
  let size = 0
  const write = (bytes: number): boolean => {
    try {
      size += writeSync(file, Buffer.alloc(bytes), 0, bytes, size)
      return true
    } catch {
      return false
    }
  }
  while (write(megabyte));
  while (write(page));
  closeSync(file)
  truncateSync(path, Math.max(0, size - freeBytes))
  return { [Symbol.dispose]: () => rmSync(path) }
}

interface Tried {
  stream: ServiceProcess
  account: ScriptedAccount
  /** Owners of keys that were made. */
  keys: string[]
}

let written = 0
const bigRecord = () => ({ text: 'x'.repeat(15_000), n: written++ })

/** What is done while the disk is full. */
const moments: Record<string, (tried: Tried) => Promise<unknown>> = {
  'rows come': async ({ account }) => {
    for (let i = 0; i < 5; i++) account.create(first, bigRecord())
  },
  'a segment is sealed': async ({ stream, account }) => {
    account.create(first, { n: written++ })
    await operate(stream, 'sealSegment', {})
  },
  'rows are taken out of segments': async ({ stream }) => {
    await operate(stream, 'compact', {})
  },
  'a collection is added, and a backfill begins': async ({ stream }) => {
    await operate(stream, 'addCollection', { collection: second, idempotencyKey: 'second' })
  },
  'keys are made': async ({ stream, keys }) => {
    for (let i = 0; i < 20; i++) {
      const owner = `owner ${keys.length} ${'x'.repeat(50)}`
      const answer = await operate(stream, 'createKey', { owner })
      if (answer?.status !== 200) return
      keys.push(owner)
    }
  },
}

test('a stream whose disk is full ends, says what to do, and goes on when there is room', async (t) => {
  const disk = mountSmall()
  if (typeof disk === 'string') return t.skip(disk)
  using _mounted = disk
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  host.answers.set('com.atproto.sync.listHosts', (_, response) => {
    const hosts = [{ hostname: host.host }]
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ hosts }))
  })
  const account = await host.createAccount()
  // Written before anybody watched it: only a backfill brings it.
  const boards = Array.from({ length: 20 }, (_, i) => `board-${i}`)
  for (const rkey of boards) account.create(second, { text: 'x'.repeat(5000) }, rkey)

  const tokenFile = join(disk.path, 'operator-token')
  writeFileSync(tokenFile, operatorToken)
  const env = {
    ...toEnvironment(streamSettings, {
      port: await freePort(),
      dataDirectory: join(disk.path, 'data'),
      logLevel: 'warn',
      relayUrl: host.url.replace('http', 'ws'),
      plcUrl: plc.url,
      allowedPrivateHosts: ['localhost'],
      collections: [first],
      backfillSettleSeconds: 0,
      backfillRequestsPerSecond: 1000,
      compactionHours: 0,
      diskFreeMegabytesMin: 0,
    }),
    TRIBUTARY_STREAM_OPERATOR_TOKEN: tokenFile,
  }
  const start = () => startProcess(entry, { env, endsByItself: true })
  const consumer = new Resuming()
  const keys: string[] = []
  const live: string[] = []
  const commitsOf = (collection: string): string[] =>
    consumer
      .commitsOf(account.did)
      .flatMap((event) => (event['collection'] === collection ? [String(event['rkey'])] : []))
  const areAllThere = (): boolean => commitsOf(first).length >= live.length
  // Everything that is written is expected.
  const create = account.create.bind(account)
  t.mock.method(
    account,
    'create',
    (collection: string, record: Record<string, string | number>, rkey: string = `r${live.length}`) => {
      live.push(rkey)
      return create(collection, record, rkey)
    },
  )

  await using processes = new AsyncDisposableStack()
  let stream = processes.use(await start())
  for (const [moment, act] of Object.entries(moments))
    for (const freeBytes of [0, 20 * page]) {
      const what = `${moment}, with ${freeBytes} bytes left`
      // Something that a compaction can take out.
      account.create(first, { n: written++ }, 'again')
      account.delete(first, 'again')
      live.push('again')
      await consumer.read(stream.url, areAllThere)
      await operate(stream, 'sealSegment', {})
      {
        using _filler = fill(disk.path, freeBytes)
        await act({ stream, account, keys })
        // What fits into what was left is stored. In the end something does not fit.
        while (stream.isRunning) {
          account.create(first, bigRecord())
          await consumer.read(stream.url, areAllThere).catch(async (error: unknown) => {
            if (error instanceof assert.AssertionError) throw error
            // The stream ended while the consumer connected.
            await stream.exited
          })
        }
      }
      assert.deepEqual(await stream.exited, { code: 1, signal: null }, what)
      assert.match(stream.stderr, /the disk is full/, what)
      stream = processes.use(await start())
      await consumer.read(stream.url, areAllThere)
      assert.deepEqual(commitsOf(first), live, what)
      const listed = (await operate(stream, 'listKeys')) ?? assert.fail(what)
      const owners = (listed.body['keys'] as { owner: string }[]).map(({ owner }) => owner) // by its lexicon
      for (const owner of keys) assert.ok(owners.includes(owner), `${what}: the key of ${owner} is gone`)
    }

  await operate(stream, 'addCollection', { collection: second, idempotencyKey: 'second' })
  await consumer.read(stream.url, () => commitsOf(second).length >= boards.length)
  assert.deepEqual(commitsOf(second).toSorted(), boards.toSorted())
  assert.equal((await stream.stop()).code, 0)
})
