import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { runInNewContext } from 'node:vm'
import {
  type Account,
  eventually,
  freePort,
  type ServiceProcess,
  startNetwork,
  startProcess,
} from '@tributary/testkit'
import { readmeBrowserProgram, readmeCommands, readmeFeedRequest } from './readme-commands.ts'
import { Commands } from './commands.ts'
import { mainFile, runCli } from './run-cli.ts'

const activity = 'org.impact.claim.activity'
const commands = new Commands()
after(() => commands[Symbol.asyncDispose]())

/** `tributary up` on a folder of its own, with its ports. */
async function prepareUp(flags: readonly string[]) {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-up-'))
  const data = join(directory, 'data')
  const [relay, stream, index, feed] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ]
  const args = ['up', '--data-directory', data, ...flags]
  args.push(
    `--relay-port=${relay}`,
    `--stream-port=${stream}`,
    `--index-port=${index}`,
    `--feed-port=${feed}`,
  )
  return {
    directory,
    data,
    args,
    relayUrl: `http://127.0.0.1:${relay}`,
    streamUrl: `http://127.0.0.1:${stream}`,
    feedUrl: `http://127.0.0.1:${feed}`,
    start: (more: readonly string[] = []) =>
      startProcess(mainFile, {
        args: [...args, ...more],
        directory,
        readyTimeoutMs: 60_000,
        stopTimeoutMs: 20_000,
      }),
    [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
  }
}

async function printed(up: ServiceProcess, text: string): Promise<void> {
  await eventually(
    () => up.stdout.includes(text),
    () => `${up.stdout}\n${up.stderr}`.slice(-2000),
  )
}

/** The process of a service, the last one that got ready. */
function pidOf(up: ServiceProcess, name: string): number {
  const found = [...up.stdout.matchAll(new RegExp(`^${name} +ready .*\\(pid (\\d+)\\)`, 'gm'))].at(-1)
  return Number(found?.[1])
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function titlesOf(ndjson: string): string[] {
  const lines = ndjson.trimEnd().split('\n')
  return lines.map((line) => (JSON.parse(line) as { record: { title: string } }).record.title) // commits of activities
}

test('up carries records from a PDS to every reader, over a killed service and a restart', async () => {
  await using network = await startNetwork({ pds: 1, labeler: true })
  const privateHosts = [network.plcUrl, network.labeler.url, ...network.pds.map(({ url }) => url)]
  using prepared = await prepareUp([
    `--plc-url=${network.plcUrl}`,
    `--labelers=${network.labeler.did}`,
    `--allowed-private-hosts=${privateHosts.map((url) => new URL(url).host).join(',')}`,
    // The feed is asked again and again until it shows what was written: with a limit, that would use it up.
    '--feed-requests-per-minute=0',
  ])
  const { data, args, relayUrl, streamUrl, directory } = prepared
  const tail = (count: number, ...more: string[]) =>
    commands.run([
      'tail',
      '--url',
      streamUrl,
      '--cursor',
      '0',
      '--kinds',
      'commit',
      '--collections',
      activity,
      '--limit',
      String(count),
      ...more,
    ])
  const account = await network.createAccount()
  const write = (title: string) =>
    account.create(activity, { title, shortDescription: 'In short.', createdAt: new Date().toISOString() })
  const pids: number[] = []
  {
    await using up = await prepared.start(['--sources', network.pds[0]?.host ?? ''])
    await printed(up, 'sources    localhost:')
    assert.match(up.stdout, /^labelers {3}did:/m)
    assert.match(up.stdout, /the stream watches app\.social\.actor\.profile and org\.hyperboards\.board/)
    await write('one')
    assert.deepEqual(titlesOf((await tail(1)).stdout), ['one'])

    const status = await commands.run(['status', '--data-directory', data])
    assert.equal(status.code, 0, status.stdout)
    assert.equal(status.stdout.match(/ ready /g)?.length, 4)
    assert.ok(status.stdout.split('\n').every((line) => line.length <= 100))
    assert.match(status.stdout, /^relay +ready +http\S+ +\d+ s +1 of 1 PDS +\d+ s +\d+ +\d/m)
    assert.match(
      status.stdout,
      /^stream +ready +http\S+ +\d+ events, \d+ s +relay connected +\d+ s +\d+ +\d/m,
    )
    const { stdout } = await commands.run(['status', '--data-directory', data, '--json'])
    const { services } = JSON.parse(stdout) as {
      services: { name: string; pid: number; since: string; lagSeconds?: number; upstream?: string }[]
    } // as it is documented
    assert.deepEqual(
      services.map(({ name, pid }) => [name, pid]),
      ['relay', 'stream', 'index', 'feed'].map((name) => [name, pidOf(up, name)]),
    )
    assert.ok(services.every(({ since }) => Date.parse(since) <= Date.now()))
    const [relayUpstream, streamUpstream] = services.map(({ upstream }) => upstream)
    assert.deepEqual([relayUpstream, streamUpstream], [undefined, relayUrl])
    // That of the feed is not known.
    assert.equal(services.filter(({ lagSeconds = NaN }) => lagSeconds >= 0 && lagSeconds < 60).length, 3)
    const host = network.pds[0]?.host ?? ''
    const operate = async (command: string) => {
      const options = ['--url', relayUrl, '--operator-token-file', join(data, 'operator-token')]
      assert.equal((await commands.run(['relay', 'hosts', command, host, ...options])).code, 0)
    }
    await operate('pause')
    const paused = await commands.run(['status', '--data-directory', data])
    assert.equal(paused.code, 1, paused.stdout)
    assert.match(paused.stdout, /^source localhost:\d+: disabled \(paused\), \d+ s behind/m)
    await operate('resume')

    const second = await runCli(args)
    assert.equal(second.code, 1)
    assert.match(
      second.stderr,
      /in use by another tributary: stop that one, or give another --data-directory\n/,
    )

    const killed = pidOf(up, 'stream')
    process.kill(killed, 'SIGKILL')
    await write('two')
    assert.deepEqual(titlesOf((await tail(2)).stdout), ['one', 'two'])
    await eventually(
      () => pidOf(up, 'stream') !== killed,
      () => up.stdout.slice(-2000),
    )
    assert.match(up.stdout, /^stream +waiting +starts again in \d+ ms: signal SIGKILL/m)

    await backfillTwice({ data, directory, streamUrl, write: () => write('three') })
    await showFeed(await network.createAccount(), account, prepared.feedUrl)
    await checkArchive(data, streamUrl)
    await runReadme(prepared, account.did)
    pids.push(...['relay', 'stream', 'index', 'feed'].map((name) => pidOf(up, name)))
    assert.ok(pids.every(isAlive))
    assert.deepEqual(await up.stop(), { code: 0, signal: null })
  }
  assert.ok(!pids.some(isAlive), 'a service is left behind')

  await write('four')
  await using again = await prepared.start()
  await printed(again, 'sources    localhost:')
  assert.doesNotMatch(again.stdout, /^note/m, 'what is watched is told of a new stream only')
  assert.deepEqual(titlesOf((await tail(4)).stdout), ['one', 'two', 'three', 'four'])
  const compressed = await tail(4, '--compress')
  assert.deepEqual(titlesOf(compressed.stdout), ['one', 'two', 'three', 'four'])
  assert.doesNotMatch(compressed.stderr, /uncompressed/)
  const ofVersion1 = await tail(4, '--jetstream-version', '1')
  assert.deepEqual(titlesOf(ofVersion1.stdout), ['one', 'two', 'three', 'four'])

  // The first three are in the archive, the last is not: each run goes on where the one before ended.
  const key = (await readFile(join(data, 'archive-key'), 'utf8')).trim()
  const kept = [
    '--replay',
    '--api-key',
    key,
    '--cursor-file',
    join(directory, 'cursor'),
    '--url',
    streamUrl,
    '--quiet',
  ]
  const next = () =>
    commands.run(['tail', ...kept, '--kinds', 'commit', '--collections', activity, '--limit', '2'])
  assert.deepEqual(titlesOf((await next()).stdout), ['one', 'two'])
  assert.deepEqual(titlesOf((await next()).stdout), ['three', 'four'])
})

/** What somebody whom the viewer follows did is in the feed of the viewer. */
async function showFeed(viewer: Account, followed: Account, feedUrl: string): Promise<void> {
  const createdAt = new Date().toISOString()
  const nobody = await commands.run(['feed', 'show', viewer.did, '--url', feedUrl])
  assert.deepEqual([nobody.code, /did anything/.test(nobody.stderr)], [0, true])
  await viewer.create('app.attested.graph.follow', { subject: followed.did, createdAt })
  const show = (...args: string[]) => commands.run(['feed', 'show', viewer.did, '--url', feedUrl, ...args])
  const titles = async (): Promise<unknown[]> => {
    const entries = JSON.parse((await show('--json')).stdout) as { view: { content: { title: string } } }[] // as the feed answers
    return entries.map(({ view }) => view.content.title)
  }
  await eventually(async () => (await titles()).length === 3, titles)
  assert.deepEqual(await titles(), ['three', 'two', 'one'])
  const { code, stdout } = await show('--limit', '1')
  assert.equal(code, 0)
  assert.match(stdout, /^TITLE +KIND +ACTOR +TIME.*\nthree +cert\.create +\S+ +20[^\n]*\n$/)
  const unknown = await show('--kinds', 'nonsense')
  assert.deepEqual([unknown.code, unknown.stdout, unknown.stderr.includes('\n    at ')], [64, '', false])
}

/** Runs what the README shows as it stands there, but for the ports, where streams are read from, and an end of `tail`. */
async function runReadme(
  {
    directory,
    relayUrl,
    streamUrl,
    feedUrl,
  }: { directory: string; relayUrl: string; streamUrl: string; feedUrl: string },
  viewerDid: string,
): Promise<void> {
  const urls: Record<string, string> = {
    relay: relayUrl,
    seal: streamUrl,
    backfill: streamUrl,
  }
  const shownCommands = readmeCommands()
  assert.ok(shownCommands.length >= 6, `${shownCommands.length} commands`)
  for (const [name = '', ...rest] of shownCommands) {
    const url = name === 'tail' ? [streamUrl, '--cursor', '0', '--limit', '1'] : urls[name] && [urls[name]]
    const { code, stderr } = await runCli([name, ...rest, ...(url ? ['--url', ...url] : [])], { directory })
    // It names a PDS that is not there.
    const isAsTold = rest[1] === 'add' ? /Host(Unreachable|NotApproved)/.test(stderr) : code === 0
    assert.ok(isAsTold, `${name} ${rest.join(' ')}: ${code} ${stderr}`)
  }
  const answer = await fetch(`${feedUrl}/xrpc/org.impact.feed.getFeed`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: readmeFeedRequest(viewerDid),
  })
  assert.deepEqual([answer.status, Object.keys((await answer.json()) as object)], [200, ['feed']])

  const shown: unknown[] = []
  const program = readmeBrowserProgram().replace('127.0.0.1:2480', new URL(streamUrl).host)
  class SocketFromStart extends WebSocket {
    constructor(url: string) {
      super(`${url}&cursor=0`)
    }
  }
  const browser = { WebSocket: SocketFromStart, console: { log: (event: unknown) => shown.push(event) } }
  const socket = runInNewContext(`${program}\nsocket`, browser) as WebSocket // so the README names it
  await eventually(() => shown.some((event) => JSON.stringify(event).includes('#commit')))
  socket.close()
}

/** An archive is whole, can be looked into, and a byte that its disk changed is found. */
async function checkArchive(data: string, streamUrl: string): Promise<void> {
  const keyFile = join(data, 'archive-key')
  const verify = (...args: string[]) => commands.run(['verify', '--archive', streamUrl, ...args])
  const whole = await verify('--api-key-file', keyFile)
  assert.deepEqual([whole.code, whole.stderr], [0, ''])
  assert.match(whole.stdout, /^seg_0000000000\.jss {2}seq 1 to \d+ {2}\d+ rows/)
  assert.match(whole.stdout, /^\d+ segments?, \d+ rows?, up to seq \d+: no damage$/m)
  const keyless = await verify()
  assert.equal(keyless.code, 77, 'it needs a key')
  assert.match(keyless.stderr, /; give an archive key with --api-key-file\n$/)
  assert.equal((await verify('--live', 'http://127.0.0.1:1')).code, 64)

  const file = join(data, 'stream', 'segments', 'seg_0000000000.jss')
  const segment = JSON.parse((await commands.run(['inspect', 'segment', file, '--json'])).stdout) as {
    rows: number
    blocks: { rows: number }[]
    collections: { collection: string; rows: number }[]
  } // as it is documented
  assert.equal(
    segment.rows,
    segment.blocks.reduce((sum, { rows }) => sum + rows, 0),
  )
  assert.equal(segment.collections.find(({ collection }) => collection === activity)?.rows, 2)
  const shown = await commands.run(['inspect', 'segment', file])
  assert.match(shown.stdout, /^checksum +[0-9a-f]{16}$/m)
  assert.match(shown.stdout, /^\$identity *$/m, 'the format does not count these rows')
  const titles: string[] = []
  for (const at of segment.blocks.keys()) {
    const { stdout } = await commands.run(['inspect', 'block', file, String(at), '--json'])
    const rows = JSON.parse(stdout) as { payload?: { title?: string } }[] // likewise
    titles.push(...rows.flatMap(({ payload }) => payload?.title ?? []))
  }
  assert.deepEqual(titles, ['one', 'two'])
  assert.match((await commands.run(['inspect', 'block', file, '0'])).stdout, /^SEQ +TIME +KIND +DID/)
  const missing = await commands.run(['inspect', 'block', file, '999'])
  assert.deepEqual([missing.code, /has \d+ blocks?, from 0 on/.test(missing.stderr)], [64, true])

  const bytes = await readFile(file)
  const spoilt = Buffer.from(bytes)
  spoilt.writeUInt8(spoilt.readUInt8(400) ^ 1, 400)
  // In place, so that the stream reads it too.
  await writeFile(file, spoilt)
  const damaged = await verify('--api-key-file', keyFile, '--json')
  await writeFile(file, bytes)
  assert.equal(damaged.code, 1)
  const { damage } = JSON.parse(damaged.stdout) as { damage: string[] } // as it is documented
  assert.match(damage.join('\n'), /block 0|checksum/)
}

/** A backfill needs a key, writes what is sealed, and is continued by the next one. */
async function backfillTwice(options: {
  data: string
  directory: string
  streamUrl: string
  write: () => Promise<unknown>
}): Promise<void> {
  const { data, directory, streamUrl, write } = options
  const output = join(directory, 'out.ndjson')
  const seal = () =>
    commands.run(['seal', '--url', streamUrl, '--operator-token-file', join(data, 'operator-token')])
  const backfill = (key: string) =>
    runCli(
      ['backfill', '--url', streamUrl, '--collections', activity, '--kinds', 'commit', '--output', output],
      {
        env: { TRIBUTARY_CLIENT_API_KEY: key },
      },
    )
  assert.match((await seal()).stdout, /sealed through seq \d+/)
  const refused = await backfill('not-the-right-key')
  assert.equal(refused.code, 77)
  assert.match(refused.stderr, /401 AuthenticationRequired.*--api-key/s)

  const key = (await readFile(join(data, 'archive-key'), 'utf8')).trim()
  const first = await backfill(key)
  assert.equal(first.code, 0, first.stderr)
  assert.match(
    first.stderr,
    /done: 2 events after seq 0 through seq \d+, the head of the stream when it began/,
  )
  await write()
  const shown = await commands.run([
    'tail',
    '--url',
    streamUrl,
    '--cursor',
    '0',
    '--collections',
    activity,
    '--kinds',
    'commit',
    '--limit',
    '3',
  ])
  assert.equal(shown.code, 0)
  assert.match((await backfill(key)).stderr, /done: 1 event /)
  assert.deepEqual(titlesOf(await readFile(output, 'utf8')), ['one', 'two', 'three'])
}

test('without a source up says how to add one, and goes on when its note cannot be written or a port is taken', async (t) => {
  using prepared = await prepareUp(['--plc-url', 'http://127.0.0.1:1'])
  await using up = await prepared.start()
  const status = () => commands.run(['status', '--data-directory', prepared.data])
  await printed(up, 'sources    none yet')
  assert.match(up.stdout, /--sources pds\.example\.com/)

  // As a disk without room does, it lets no note be written.
  const inTheWay = join(prepared.data, 'running.json.new')
  mkdirSync(inTheWay)
  const feed = pidOf(up, 'feed')
  process.kill(feed, 'SIGKILL')
  await printed(up, 'note       tributary status may be out of date: EISDIR')
  await eventually(
    () => pidOf(up, 'feed') !== feed,
    () => up.stdout.slice(-2000),
  )
  rmdirSync(inTheWay)
  process.kill(pidOf(up, 'feed'), 'SIGKILL')
  await eventually(
    async () => {
      const { code, stdout } = await commands.run(['status', '--data-directory', prepared.data, '--json'])
      return code === 0 && stdout.includes(String(pidOf(up, 'feed')))
    },
    () => up.stdout.slice(-2000),
  )

  const killed = pidOf(up, 'stream')
  process.kill(killed, 'SIGKILL')
  const taken = createServer()
  const port = Number(new URL(prepared.streamUrl).port)
  t.after(() => taken.close())
  await eventually(async () => {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    taken.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    return await promise
  })
  await printed(up, 'could not start: listen EADDRINUSE')
  const meanwhile = await status()
  assert.equal(meanwhile.code, 1)
  assert.match(meanwhile.stdout, /^stream: exit code 1: could not start: listen EADDRINUSE/m)
  taken.close()
  await eventually(
    () => pidOf(up, 'stream') !== killed,
    () => up.stdout.slice(-2000),
  )
  await eventually(
    async () => (await status()).code === 0,
    () => up.stdout.slice(-2000),
  )
  assert.deepEqual(await up.stop(), { code: 0, signal: null })
  assert.equal(up.stdout.match(/^\w+ +stopped$/gm)?.length, 4)
})
