import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { freePort } from '@tributary/testkit'
import { Commands, type Outcome } from './commands.ts'
import { runCli } from './run-cli.ts'

const commands = new Commands()
after(() => commands[Symbol.asyncDispose]())

test('help names every command, and every command has help of its own', async () => {
  const { code, stdout } = await runCli(['--help'])
  assert.equal(code, 0)
  const names = ['up', 'demo', 'relay', 'stream', 'index', 'feed', 'tail', 'backfill', 'status', 'seal']
  for (const name of names) assert.match(stdout, new RegExp(`^  ${name} `, 'm'))

  const helps: Outcome[] = []
  for (const name of [...names, 'relay hosts list'])
    helps.push(await commands.run([...name.split(' '), '--help']))
  for (const help of helps) {
    assert.equal(help.code, 0)
    assert.match(help.stdout, /^Usage: tributary /)
    assert.ok(help.stdout.split('\n').length > 6, help.stdout)
  }
  for (const [name, i] of [
    ['up', 0],
    ['relay', 2],
    ['tail', 6],
  ] as const) {
    assert.deepEqual(await commands.run(['help', name]), helps[i])
  }
})

test('help of a service and of up lists every setting with its variable', async () => {
  const relay = await commands.run(['relay', '--help'])
  assert.match(relay.stdout, /--data-directory <value>\n.*\n.*TRIBUTARY_RELAY_DATA_DIRECTORY/)
  const up = await commands.run(['up', '--help'])
  for (const name of [
    'SOURCES',
    'LABELERS',
    'PLC_URL',
    'ALLOWED_PRIVATE_HOSTS',
    'FEED_SERVICE_DID',
    'STREAM_PORT',
  ]) {
    assert.match(up.stdout, new RegExp(`TRIBUTARY_UP_${name}`))
  }
})

test('wrong settings are all reported together, with name, value and expected form', async () => {
  const wrong = ['--plc-url', 'plc.directory', '--unknown-flag', '--sources', 'foo bar']
  const args = ['up', '--relay-port', '70000', ...wrong]
  const { code, stderr } = await runCli(args, {
    env: { TRIBUTARY_UP_LABELERS: 'nobody', TRIBUTARY_TYPO: '1' },
  })
  assert.equal(code, 78)
  assert.match(stderr, /--relay-port="70000": expected an integer from 1 to 65535/)
  assert.match(stderr, /--plc-url="plc.directory": expected a URL/)
  assert.match(stderr, /--unknown-flag: expected a known flag/)
  assert.match(stderr, /--sources="foo bar": expected a comma-separated list of host names/)
  assert.match(stderr, /TRIBUTARY_UP_LABELERS="nobody": expected/)
  assert.match(stderr, /TRIBUTARY_TYPO="1": expected a variable this program knows/)
})

test('wrong options of the reading commands are refused, and no key is shown', async () => {
  const { code, stderr } = await runCli(
    ['tail', '--url', 'nowhere', '--kinds', 'commits', '--api-key', 'secret-key'],
    {
      env: { TRIBUTARY_CLIENT_DIDS: 'alice' },
    },
  )
  assert.equal(code, 64)
  assert.match(stderr, /--url="nowhere"/)
  assert.match(stderr, /--kinds="commits"/)
  assert.match(stderr, /TRIBUTARY_CLIENT_DIDS="alice"/)
  assert.doesNotMatch(stderr, /secret-key/)

  const cursor = await commands.run(['tail', '--cursor', 'yesterday'])
  assert.equal(cursor.code, 64)
  assert.match(cursor.stderr, /'yesterday' is invalid/)
  const none = await commands.run(['tail', '--limit=0'])
  assert.deepEqual([none.code, none.stdout], [0, ''])
  const unknown = await commands.run(['trail'])
  assert.equal(unknown.code, 64)
  assert.match(unknown.stderr, /unknown command 'trail'[^]*tail/)
})

test('a service that is wrongly set up says so through the command line', async () => {
  const { code, stderr } = await runCli(['feed', '--port', 'x'])
  assert.equal(code, 78)
  assert.match(stderr, /--port="x"/)
  assert.match(stderr, /TRIBUTARY_FEED_SERVICE_DID or --service-did: expected a DID/)
})

test('status, seal and lists say what is missing where nothing runs', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-cli-'))
  try {
    const status = await runCli(['status'], { directory })
    assert.equal(status.code, 1)
    assert.match(status.stdout, /nothing runs on data/)
    const seal = await runCli(['seal'], { directory })
    assert.equal(seal.code, 74)
    assert.match(seal.stderr, /operator-token/)
    const list = ['relay', 'hosts', 'list', '--public', '--url', 'http://127.0.0.1:1/']
    const hosts = await runCli(list, { directory })
    assert.equal(hosts.code, 69)
    assert.match(hosts.stderr, /^tributary relay hosts list: http:\/\/127\.0\.0\.1:1 did not answer: .*\n$/)
    assert.deepEqual(await readdir(directory), [])
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('status says that an up was killed, and not since when it runs', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-cli-'))
  try {
    // More than systems give out.
    const pid = 2 ** 30
    const services = [{ name: 'relay', url: 'http://127.0.0.1:1', pid, since: new Date().toISOString() }]
    await writeFile(join(directory, 'running.json'), JSON.stringify({ pid, services }))
    const { code, stdout } = await commands.run(['status', '--data-directory', directory])
    assert.equal(code, 1)
    assert.equal(
      stdout,
      `SERVICE  STATE      URL\nrelay    no answer  http://127.0.0.1:1\ntributary up has ended without a stop (process ${pid}): start it again\n`,
    )
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('a damaged archive is found and mended, again if need be, and what was replaced stays', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-cli-'))
  const segment = join(directory, 'segments', 'seg_0000000000.jss')
  const archive = (name: string) => commands.run(['stream', 'archive', name, '--data-directory', directory])
  const nothing = await archive('verify')
  assert.deepEqual([nothing.code, nothing.stdout], [74, ''])
  assert.match(nothing.stderr, /is no data directory of a stream/)
  await mkdir(join(directory, 'segments'))
  for (const _ of ['first', 'second']) {
    await writeFile(segment, Buffer.alloc(300, 'x'))
    const damaged = await archive('verify')
    assert.equal(damaged.code, 1)
    assert.match(damaged.stdout, /^DAMAGED seg_0000000000\.jss: not a segment file$/m)
    const repaired = await archive('repair')
    assert.deepEqual([repaired.code, repaired.stderr], [0, ''])
    const whole = await archive('verify')
    assert.equal(whole.code, 0)
    assert.match(whole.stdout, /^no damage$/m)
  }
  assert.deepEqual((await readdir(join(directory, 'segments'))).toSorted(), [
    'seg_0000000000.jss',
    'seg_0000000000.jss.damaged',
    'seg_0000000000.jss.damaged2',
  ])
  await rm(directory, { recursive: true })
})

test('settings come from the settings file too', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-cli-'))
  try {
    await writeFile(
      join(directory, 'tributary.json'),
      JSON.stringify({ up: { relayPort: 'none' }, relay: { workers: 0 } }),
    )
    const up = await runCli(['up'], { directory })
    assert.equal(up.code, 78)
    assert.match(up.stderr, /up\.relayPort="none"/)
    assert.match(up.stderr, /relay\.workers="0"/, 'the sections of the services too, all together')
    const relay = await runCli(['relay'], { directory })
    assert.equal(relay.code, 78)
    assert.match(relay.stderr, /relay\.workers="0"/)
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('output that nobody reads and files that cannot be written end a command without a stack trace', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-cli-'))
  try {
    await writeFile(join(directory, 'file'), '')
    const [help, file, folder] = await Promise.all([
      runCli(['relay', '--help'], { isRead: false }),
      runCli(['backfill', '--output', join(directory, 'missing', 'out.ndjson')]),
      runCli(['up', '--data-directory', join(directory, 'file', 'data')]),
    ])
    assert.deepEqual([help.code, help.stderr], [0, ''])
    assert.equal(file.code, 74)
    assert.match(file.stderr, /^tributary backfill: \S+out\.ndjson: no such file or directory\n$/)
    assert.equal(folder.code, 1)
    assert.match(
      folder.stderr,
      /^tributary up: nothing was started\n  the data directory \S+ cannot be used: E[A-Z]+[^\n]*\n$/,
    )
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('a backfill that has reached its --before-seq is done when it is run again', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-cli-'))
  try {
    const url = 'http://127.0.0.1:1'
    const selection = JSON.stringify([url, 'network.social.stream', { kinds: [], collections: [], dids: [] }])
    const output = join(directory, 'out.ndjson')
    await writeFile(output, '')
    await writeFile(`${output}.progress`, JSON.stringify({ cursor: 10, bytes: 0, selection }))
    const { code, stderr } = await runCli(['backfill', '--url', url, '--before-seq=10', '--output', output])
    assert.deepEqual(
      [code, stderr],
      [
        0,
        'tributary backfill: done: 0 events after seq 10 through seq 10, it was all there; run it again to continue from here\n',
      ],
    )
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('a directory that cannot be made ends up and a service with a sentence', async (t) => {
  if (process.platform !== 'linux') return t.skip('there is no /proc')
  const where = ['--data-directory', '/proc/tributary/data']
  const [up, relay] = await Promise.all([runCli(['up', ...where]), runCli(['relay', '--port=0', ...where])])
  assert.equal(up.code, 1)
  assert.match(
    up.stderr,
    /^tributary up: nothing was started\n  the data directory \/proc\S+ cannot be used: [^\n]*\n$/,
  )
  assert.equal(relay.code, 1)
  assert.match(relay.stderr, /"msg":"could not start"/)
})

test('up tells all that is wrong before it starts anything: settings of every service, and ports', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-cli-'))
  t.after(() => rm(directory, { recursive: true }))
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.after(() => taken.close())
  const { port } = taken.address() as AddressInfo // of a port, not of a pipe
  const args = ['up', '--data-directory', join(directory, 'data')]
  const ports = [`--relay-port=${port}`, `--stream-port=${port}`, `--index-port=${port}`]
  const { code, stdout, stderr } = await runCli([...args, ...ports, `--feed-port=${await freePort()}`], {
    directory,
    env: {
      TRIBUTARY_RELAY_WORKERS: '0',
      TRIBUTARY_STREAM_VERIFY: 'some',
      TRIBUTARY_STREAM_RELAY_URL: 'nowhere',
      TRIBUTARY_FEED_REQUEST_MS: 'x',
    },
  })
  assert.deepEqual([code, stdout], [78, ''])
  for (const fault of [
    'TRIBUTARY_RELAY_WORKERS="0": expected an integer from 1 to 64',
    'TRIBUTARY_STREAM_VERIFY="some": expected one of full, off',
    'TRIBUTARY_FEED_REQUEST_MS="x": expected an integer from 100 to 120000',
    `port ${port} of the relay cannot be used: another program listens on it; stop that one, or give another port with --relay-port`,
    `port ${port} of the stream is that of the relay too`,
    `port ${port} of the index is that of the relay too`,
  ])
    assert.ok(stderr.includes(`  ${fault}\n`), stderr)
  assert.doesNotMatch(stderr, /STREAM_RELAY_URL/, 'up gives the stream another value')

  const free = await Promise.all(
    ['relay', 'stream', 'index', 'feed'].map(async (name) => [name, await freePort()]),
  )
  const again = await runCli([...args, ...free.map(([name, at]) => `--${name}-port=${at}`)], {
    directory,
    env: { TRIBUTARY_FEED_METRICS_PORT: String(port) },
  })
  assert.equal(again.code, 1)
  assert.ok(
    again.stderr.includes(
      `  port ${port} of the metrics of the feed cannot be used: another program listens on it; stop that one, or give another port with TRIBUTARY_FEED_METRICS_PORT\n`,
    ),
    again.stderr,
  )
})

test('up says once that its host is no address of this machine', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-cli-'))
  t.after(() => rm(directory, { recursive: true }))
  const ports = await Promise.all(
    ['relay', 'stream', 'index', 'feed'].map(async (name) => [name, await freePort()]),
  )
  // 192.0.2.0/24 is for documentation.
  for (const host of ['192.0.2.1', 'nowhere.invalid']) {
    const flags = [`--host=${host}`, ...ports.map(([name, port]) => `--${name}-port=${port}`)]
    const { code, stderr } = await runCli(['up', '--data-directory', join(directory, 'data'), ...flags])
    const said = `  the host ${host} is no address of this machine: give another one\n`
    assert.deepEqual([code, stderr], [1, `tributary up: nothing was started\n${said}`])
  }
})

test('up starts nothing when a source is a host that the relay would leave out', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-cli-'))
  t.after(() => rm(directory, { recursive: true }))
  const args = ['up', '--data-directory', join(directory, 'data')]
  const sources = '--sources=pds.example.com,localhost:1234,https://10.0.0.1'
  const { code, stdout, stderr } = await runCli([...args, sources, '--allowed-private-hosts=10.0.0.1'], {
    directory,
    env: { TRIBUTARY_FEED_REQUEST_MS: 'x' },
  })
  assert.deepEqual([code, stdout], [78, ''])
  assert.match(stderr, /^ {2}localhost:1234 cannot be a source: only the usual port is allowed; --dev/m)
  assert.doesNotMatch(stderr, /10\.0\.0\.1 cannot|example\.com/)
})

test('up does not let others call programs of this machine', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'tributary-cli-'))
  t.after(() => rm(directory, { recursive: true }))
  const args = ['up', '--data-directory', join(directory, 'data'), '--dev']
  const relayAlone = { TRIBUTARY_RELAY_TRUSTED_PROXIES: '127.0.0.1' }
  for (const [open, env] of [
    ['--host=0.0.0.0'],
    ['--trusted-proxies=127.0.0.1'],
    ['--plc-url=http://127.0.0.1:1', relayAlone],
  ] as const) {
    const { code, stdout, stderr } = await runCli([...args, open], { directory, ...(env && { env }) })
    assert.deepEqual([code, stdout], [78, ''])
    assert.match(stderr, /^tributary up: settings need attention\n  --dev lets whoever reaches the services/)
  }
})

test('a mistyped word or flag leads to the one that was meant', async () => {
  const word = await commands.run(['stauts'])
  const deeper = await commands.run(['collections', 'list'])
  const both = await commands.run(['audit'])
  const service = await commands.run(['relay', 'hsots', 'list'])
  const flag = await commands.run(['tail', '--colections', 'a.b.c'])
  const setting = await runCli(['up', '--sorces', 'pds.example.com'])
  assert.deepEqual([word.code, service.code, flag.code, setting.code], [64, 64, 64, 78])
  assert.match(word.stderr, /^error: unknown command 'stauts'\n\(Did you mean status\?\)/)
  assert.match(deeper.stderr, /^error: unknown command 'collections'\n\(Did you mean stream collections\?\)/)
  assert.match(both.stderr, /Did you mean relay audit or stream audit\?/)
  assert.match(service.stderr, /unknown command 'hsots'\n\(Did you mean hosts\?\)/)
  assert.match(flag.stderr, /Did you mean --collections\?/)
  assert.match(setting.stderr, /perhaps --sources; see --help/)
})
