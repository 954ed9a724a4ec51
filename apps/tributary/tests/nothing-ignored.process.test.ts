import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { DataDirectory } from '../src/up/data-directory.ts'
import { Commands } from './commands.ts'
import { runCli } from './run-cli.ts'

function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-ignored-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return directory
}

test('an option that would count for nothing is refused with a sentence that says why', async (t) => {
  const directory = temporaryDirectory(t)
  await using commands = new Commands(directory)
  const key = join(directory, 'key')
  writeFileSync(key, '0123456789abcdef')
  const did = 'did:web:a.example'
  const refused: [string[], RegExp][] = [
    [
      ['tail', '--jetstream-version=1', '--nsid-prefix=a.b'],
      /no namespace of methods: leave --nsid-prefix out/,
    ],
    [['tail', '--jetstream-version=1', '--replay'], /--replay reads the archive, which/],
    [['tail', `--api-key-file=${key}`], /--api-key-file is for the archive: give --replay too/],
    [['tail', '--api-key=0123456789abcdef'], /--api-key is for the archive/],
    [['backfill', '--jetstream-version=1'], /has no archive: tributary tail reads/],
    [['backfill', '--after-seq=5', '--before-seq=5'], /nothing is after seq 5 and up to seq 5/],
    [['verify', '--archive=http://a.example', '--plc=http://b.example'], /--plc .* not with --archive alone/],
    [['relay', 'log', 'inspect', '--limit=3'], /give --records too/],
    [['relay', 'log', 'inspect', '--after-seq=3'], /give --records too/],
    [['relay', 'log', 'repair', '--floor-seq=3'], /give --skip or --cut too/],
    [['relay', 'log', 'repair', '--skip', '--cut'], /give one of --skip and --cut/],
    [['index', 'account', `--did=${did}`, '--port=3'], /--port is for the index service/],
  ]
  for (const [args, words] of refused) {
    const { code, stdout, stderr } = await commands.run(args)
    assert.equal(code, 64, `${args.join(' ')}: ${stderr}`)
    assert.match(stderr, words)
    assert.equal(stdout, '')
  }
})

test('a setting that would count for nothing is refused like one that is wrong', async (t) => {
  const directory = temporaryDirectory(t)
  const refused: [string[], Record<string, string>, RegExp][] = [
    [
      ['tail'],
      { TRIBUTARY_CLIENT_LOG_LEVEL: 'debug' },
      /TRIBUTARY_CLIENT_LOG_LEVEL="debug": expected a variable/,
    ],
    [['relay', '--port=1', '--port=2'], {}, /--port: expected to be given once/],
    [['up', '--dev', '--no-dev'], {}, /--no-dev: expected to be given once/],
    [['feed', '--settings=a', '--settings=b'], {}, /--settings: expected to be given once/],
    [['demo', '--deadline-seconds=9'], {}, /--deadline-seconds is for --once/],
    [
      ['demo', '--once'],
      { TRIBUTARY_DEMO_WRITES_PER_SECOND: '3' },
      /WRITES_PER_SECOND is for the demo without/,
    ],
    [
      ['index', 'account', '--did=did:web:a.example', '--database-path=a'],
      { TRIBUTARY_INDEX_DATABASE_URL: 'postgres://a/b' },
      /--database-path and TRIBUTARY_INDEX_DATABASE_URL: expected one of them/,
    ],
    [
      ['up'],
      { TRIBUTARY_FEED_DATABASE_URL: 'postgres://a/b' },
      /TRIBUTARY_FEED_DATABASE_URL: index and feed share one database: give --database-url/,
    ],
  ]
  for (const [args, env, words] of refused) {
    const { code, stderr } = await runCli(args, { directory, env })
    assert.equal(code, 78, `${args.join(' ')}: ${stderr}`)
    assert.match(stderr, words)
  }
})

test('commands find the data directory where the settings of up and of the services have it', async (t) => {
  const directory = temporaryDirectory(t)
  using running = new DataDirectory(join(directory, 'elsewhere'))
  running.noteRun({ pid: process.pid, services: [{ name: 'feed', url: 'http://127.0.0.1:1' }] })
  const env = { TRIBUTARY_UP_DATA_DIRECTORY: running.path }
  const settings = join(directory, 'ours.json')
  writeFileSync(settings, JSON.stringify({ up: { dataDirectory: 'elsewhere' } }))
  for (const [args, given] of [
    [['status'], env],
    [['status', '--settings', settings], {}],
    [['status'], { TRIBUTARY_SETTINGS: settings }],
    [['status', '--data-directory', running.path], { TRIBUTARY_UP_DATA_DIRECTORY: directory }],
  ] as const) {
    const { stdout } = await runCli([...args], { directory, env: given })
    assert.match(stdout, /^feed +no answer/m, args.join(' '))
  }
  const { stdout } = await runCli(['status'], { directory })
  assert.match(stdout, /^nothing runs on data:/)

  const said = async (args: string[], given: Record<string, string>): Promise<string> =>
    (await runCli(args, { directory, env: given })).stderr
  assert.match(await said(['relay', 'log', 'verify'], env), /elsewhere\/relay\/log does not exist/)
  const own = { ...env, TRIBUTARY_RELAY_DATA_DIRECTORY: '/its/own' }
  assert.match(await said(['relay', 'log', 'verify'], own), /\/its\/own\/log does not exist/)
  assert.match(await said(['relay', 'state'], env), /elsewhere\/operator-token/)
  const account = ['index', 'account', '--did', 'did:web:a.example']
  assert.match(await said(account, env), /no index database at .*elsewhere\/index\/index\.sqlite yet/)
  mkdirSync(join(running.path, 'index'), { recursive: true })
  writeFileSync(join(running.path, 'index', 'index.sqlite'), 'no database')
  assert.match(await said(account, env), /not a database/)
  assert.match(await said([...account, '--database-path=other'], env), /no index database at .*other yet/)
  assert.match(await said(['seal'], env), /elsewhere\/operator-token/)
})

test('commands ask the services where the up of the data directory runs them', async (t) => {
  const directory = temporaryDirectory(t)
  using running = new DataDirectory(join(directory, 'data'))
  writeFileSync(join(running.path, 'operator-token'), 'x'.repeat(32))
  await using commands = new Commands(directory)
  const services = ['relay', 'stream', 'feed'].map((name, i) => ({ name, url: `http://127.0.0.1:${i + 2}` }))
  running.noteRun({ pid: process.pid, services })
  for (const [args, port] of [
    [['relay', 'hosts', 'list', '--public'], 2],
    [['relay', 'state'], 2],
    [['stream', 'coverage'], 3],
    [['seal'], 3],
    [['tail', '--wait', '0'], 3],
    [['backfill', '--wait', '0'], 3],
    [['feed', 'show', 'did:web:a.example'], 4],
    [['seal', '--url', 'http://127.0.0.1:5'], 5],
    [['tail', '--wait', '0', '--url', 'http://127.0.0.1:5'], 5],
  ] as const) {
    const { stderr } = await commands.run(args)
    assert.match(stderr, new RegExp(`127\\.0\\.0\\.1:${port}\\b`), args.join(' '))
  }
})
