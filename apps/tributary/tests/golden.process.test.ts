/**
 * What commands print at 80 and at 200 columns, into a pipe, and as JSON, against real services. The texts are files in `golden`. To
 * change them on purpose, remove those that change, run this test, and look at what it wrote.
 */
import assert from 'node:assert/strict'
import { copyFile, mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { EventLog } from '@tributary/event-log'
import { openIndexWriter } from '@tributary/index-store'
import { ActiveSegment } from '@tributary/segment/node'
import { freePort, startPlc, startProcess, startScriptedHost } from '@tributary/testkit'
import { encode } from '@atcute/cbor'
import { createProgram } from '../src/program.ts'
import { serviceEntry } from '../src/service-entry.ts'
import { everyCommand, nameOf } from './every-command.ts'
import { type Call, Commands } from './commands.ts'
import { assertGolden, described, goldenTexts, outcomesOf } from './golden-files.ts'
import { runCli } from './run-cli.ts'

const terminals = [80, 200]
/** In a pipe there are no columns, and tables have 100. */
const widths = [...terminals, undefined]

const did = 'did:plc:abcdefghijklmnopqrstuvwx'

test('the help of every command is as it was looked at', () => {
  const texts: Record<string, string> = {}
  for (const columns of terminals) {
    const program = createProgram()
    const helps = [program, ...everyCommand(program)].map((command) =>
      command.configureOutput({ getOutHelpWidth: () => columns }).helpInformation(),
    )
    const tooLong = helps
      .join('\n')
      .split('\n')
      .filter((line) => line.length > columns && line.trim().includes(' '))
    assert.deepEqual(tooLong, [])
    texts[`help-${columns}.txt`] = helps.join('\n')
  }
  assertGolden(texts)
})

test('what commands print of real services is as it was looked at, and fits the terminal', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'golden-'))
  await using commands = new Commands(directory.path)
  const token = join(directory.path, 'token')
  await writeFile(token, 'the-operator-token')
  const plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  const start = async (name: 'relay' | 'stream', settings: Record<string, string>) => {
    const all = { PORT: '0', DATA_DIRECTORY: join(directory.path, name), OPERATOR_TOKEN: token, ...settings }
    const entries = Object.entries(all).map(([key, value]) => [
      `TRIBUTARY_${name.toUpperCase()}_${key}`,
      value,
    ])
    return await startProcess(serviceEntry(name), {
      env: Object.fromEntries(entries) as Record<string, string>,
    }) // of texts
  }
  const relay = await start('relay', { PLC_URL: plc.url, ALLOWED_PRIVATE_HOSTS: host.host })
  const stream = await start('stream', {
    RELAY_URL: 'ws://127.0.0.1:1',
    COLLECTIONS: 'org.impact.collection',
  })
  const segment = join(directory.path, 'seg_0000000000.jss')
  await writeSegment(segment)
  const archived = join(directory.path, 'archived')
  await mkdir(join(archived, 'segments'), { recursive: true })
  await copyFile(segment, join(archived, 'segments', 'seg_0000000000.jss'))
  await (await ActiveSegment.create(join(archived, 'segments', 'seg_0000000001.jss'))).close()
  const relayFiles = join(directory.path, 'relay-files')
  await writeLog(join(relayFiles, 'log'))
  const index = join(directory.path, 'index.sqlite')
  await (await openIndexWriter(index))[Symbol.asyncDispose]()
  const running = join(directory.path, 'running')
  await mkdir(running)
  await writeFile(join(running, 'operator-token'), 'the-operator-token')
  const services = [
    { name: 'relay', url: relay.url, pid: 4242 },
    { name: 'stream', url: stream.url, pid: 4243 },
    { name: 'feed', url: `http://127.0.0.1:${await freePort()}`, fault: 'It ended with exit code 1.' },
  ]
  await writeFile(join(running, 'running.json'), JSON.stringify({ pid: 4241, services }))
  const of = (service: 'relay' | 'stream', ...words: string[]): string[] => {
    const { url } = service === 'relay' ? relay : stream
    return [service, ...words, '--url', url, '--operator-token-file', token]
  }
  const nobody = ['--url', `http://127.0.0.1:${await freePort()}`]
  try {
    const changes = [
      of('relay', 'bans', 'add', 'bad.example', '--reason', 'it floods', '--actor', 'ann'),
      of('relay', 'hosts', 'add', host.host, '--note', 'for a test', '--json'),
      of('relay', 'hosts', 'pause', host.host, '--json'),
      of('relay', 'hosts', 'pause', host.host),
      of('relay', 'hosts', 'update', host.host, '--account-quota', '7', '--events-per-hour', '9'),
      of('relay', 'hosts', 'update', host.host, '--account-quota', '7'),
      of('relay', 'hosts', 'disconnect', host.host),
      of('relay', 'hosts', 'restart', host.host, '--position', 'oldest'),
      of('relay', 'hosts', 'skip', host.host),
      of('relay', 'hosts', 'remove', host.host),
      of('relay', 'hosts', 'connect', host.host),
      of('relay', 'hosts', 'ban', host.host),
      of('relay', 'hosts', 'resume', 'nobody.example'),
      of('relay', 'limits', 'set', '--new-sources-per-day', '7'),
      of('relay', 'limits', 'set', '--new-sources-per-day', '7', '--json'),
      of('relay', 'bans', 'add', 'bad.example', '--reason', 'it floods'),
      of('relay', 'bans', 'remove', 'good.example'),
      of('relay', 'accounts', 'takedown', did),
      of('relay', 'accounts', 'suspend', did),
      of('relay', 'accounts', 'restore', did),
      of('relay', 'accounts', 'refresh', did),
      of('relay', 'accounts', 'recheck', did),
      of('relay', 'consumers', 'disconnect', '9'),
      of('relay', 'import-hosts', relay.url, '--dry-run'),
      ['relay', 'log', 'repair', '--data-directory', relayFiles],
      ['relay', 'log', 'repair', '--data-directory', relayFiles, '--skip'],
      ['relay', 'backup', '--data-directory', relayFiles, '--to', join(directory.path, 'copy')],
      ['relay', 'backup', '--data-directory', relayFiles, '--to', join(directory.path, 'copy')],
      of('stream', 'collections', 'add', 'org.hyperboards.board', '--actor', 'ann'),
      of('stream', 'collections', 'add', 'org.hyperboards.board'),
      of('stream', 'collections', 'remove', 'org.none.such', '--json'),
      of('stream', 'repos', 'refetch', did),
      of('stream', 'keys', 'create', 'a reader', '--requests-per-hour', '5'),
      of('stream', 'keys', 'rotate', '1'),
      of('stream', 'keys', 'limit', '2', '--megabytes-per-day', '6'),
      of('stream', 'keys', 'limit', '2'),
      ['stream', 'keys', 'list', '--url', relay.url, '--operator-token-file', token],
      of('stream', 'keys', 'revoke', '2', '--json'),
      of('stream', 'keys', 'revoke', '2'),
      of('stream', 'jobs', 'start', '--hostname', 'pds.example.com'),
      of('stream', 'jobs', 'start'),
      of('stream', 'jobs', 'pause', '7'),
      of('stream', 'jobs', 'resume', '7'),
      of('stream', 'jobs', 'cancel', '7'),
      of('stream', 'jobs', 'retry', '7'),
      of('stream', 'subscribers', 'disconnect', '9'),
      of('stream', 'backup', 'one'),
      ['seal', '--url', stream.url, '--operator-token-file', token],
      ['stream', 'archive', 'repair', '--data-directory', join(directory.path, 'stream')],
      ['stream', 'archive', 'repair', '--data-directory', join(directory.path, 'nothing')],
      ['index', 'rebuild', '--no-wait', '--database-path', index],
      ['index', 'rebuild', '--no-wait', '--database-path', segment],
    ]
    const looks = [
      of('relay', 'bans', 'list'),
      of('relay', 'limits', 'show'),
      of('relay', 'hosts', 'list', '--hostname', 'nobody.example'),
      of('relay', 'hosts', 'show', 'nobody.example'),
      ['relay', 'hosts', 'list', '--public', '--url', relay.url],
      of('relay', 'notices', '--subject', 'nobody.example'),
      of('relay', 'state'),
      ['relay', 'log', 'inspect', '--data-directory', relayFiles],
      ['relay', 'log', 'verify', '--data-directory', relayFiles],
      ['index', 'account', '--did', did, '--database-path', index],
      ['index', 'account', '--did', did, '--database-path', segment],
      of('relay', 'accounts', 'takedowns'),
      of('relay', 'accounts', 'show', did),
      of('relay', 'consumers', 'list'),
      of('relay', 'refusals'),
      of('relay', 'audit'),
      of('stream', 'collections', 'list'),
      of('stream', 'jobs', 'list'),
      of('stream', 'jobs', 'repos', '7'),
      of('stream', 'repos', 'show', did),
      of('stream', 'keys', 'list'),
      of('stream', 'subscribers', 'list'),
      of('stream', 'refusals', '--reason', 'bad-signature'),
      of('stream', 'compaction'),
      of('stream', 'coverage'),
      of('stream', 'audit'),
      ['inspect', 'segment', segment],
      ['inspect', 'block', segment, '0'],
      ['inspect', 'log', join(relayFiles, 'log')],
      ['inspect', 'log', join(directory.path, 'nowhere')],
      ['status', '--data-directory', running],
      ['status', '--data-directory', join(directory.path, 'nothing')],
      ['relay', 'hosts', 'list', '--public', ...nobody],
      ['seal', ...nobody, '--operator-token-file', token],
      ['seal', ...nobody, '--operator-token-file', join(directory.path, 'no-token')],
      ['verify'],
      ['verify', '--archive', nobody[1] ?? ''],
      ['feed', 'show', did, ...nobody],
      ['stream', 'archive', 'verify', '--data-directory', join(directory.path, 'nothing')],
      ['stream', 'archive', 'verify', '--data-directory', archived],
      ['relay', 'log', 'verify', '--data-directory', join(directory.path, 'nothing')],
    ]
    const calls = [
      ...changes.map((args) => ({ args, columns: 100 })),
      ...widths.flatMap((columns) =>
        looks.map((args): Call => ({ args, ...(columns !== undefined && { columns }) })),
      ),
      ...looks.map((args) => ({ args: [...args, '--json'], columns: 80 })),
      // It goes on for a while, which a look would show.
      { args: of('stream', 'compact'), columns: 100 },
    ]
    const outcomes = await outcomesOf(calls, commands)
    const textOf = (from: number, count: number): string =>
      calls
        .slice(from, from + count)
        .map((call, i) => described(call, outcomes[from + i], directory.path))
        .join('\n')
    const changed = [textOf(0, changes.length), textOf(calls.length - 1, 1)]
    const texts: Record<string, string> = { 'changes.txt': changed.join('\n') }
    for (const [i, columns] of widths.entries()) {
      const from = changes.length + i * looks.length
      texts[`output-${columns ?? 'piped'}.txt`] = textOf(from, looks.length)
      for (const { stdout } of outcomes.slice(from, from + looks.length))
        for (const line of stdout.split('\n'))
          assert.ok(line.length <= (columns ?? 100), `${columns ?? 'no'} columns: ${line}`)
    }
    const jsonFrom = calls.length - 1 - looks.length
    for (const { stdout } of outcomes.slice(jsonFrom, -1)) if (stdout !== '') JSON.parse(stdout)
    texts['output-json.txt'] = textOf(jsonFrom, looks.length)
    assertGolden(texts)
    // One of each kind: a table, JSON, rows of a block, a status, the outcome of a check, an error.
    const unread = [
      of('relay', 'bans', 'list'),
      [...of('relay', 'limits', 'show'), '--json'],
      ['inspect', 'block', segment, '0'],
      ['status', '--data-directory', running],
      ['relay', 'log', 'verify', '--data-directory', relayFiles],
      ['inspect', 'log', join(directory.path, 'nowhere')],
    ]
    const lines = calls.map(({ args }) => args.join(' '))
    for (const args of unread) {
      // Their reader has left before they write.
      const { code, stderr } = await runCli(args, { isRead: false, directory: directory.path })
      assert.equal(code, outcomes[lines.indexOf(args.join(' '))]?.code, `${args.join(' ')}: ${stderr}`)
      assert.doesNotMatch(stderr, /EPIPE|^ +at /m, args.join(' '))
    }
  } finally {
    await Promise.all([relay.stop(), stream.stop(), plc.stop()])
  }
})

test('there is a file of what every command prints', () => {
  const texts = goldenTexts()
  const missing = everyCommand(createProgram())
    .filter(({ commands }) => commands.length === 0)
    .map(nameOf)
    .filter((name) => !texts.some((text) => `${text} `.replaceAll('\n', ' ').includes(`$ ${name} `)))
  assert.deepEqual(missing, [])
})

async function writeLog(directory: string): Promise<void> {
  const clock = { wallMs: () => Date.UTC(2026, 0, 1), elapsedMs: () => performance.now() }
  const log = await EventLog.open({ directory, clock })
  try {
    const meta = { kind: 1, account: 0n, source: 0, epoch: 0, upstreamSeq: 0 }
    for (const text of ['one', 'two', 'three']) log.append(meta, Buffer.from(text))
    await log.flush()
  } finally {
    await log.close()
  }
}

async function writeSegment(file: string): Promise<void> {
  const rows = Array.from({ length: 3 }, (_, i) => ({
    seq: i + 1,
    witnessedAt: 1_750_000_000_000_000 + i,
    indexedAt: 0,
    kind: 1 as const,
    collection: 'org.impact.claim.activity',
    did: 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa',
    rkey: `r${i}`,
    rev: '3migo7fijwi2k',
    payload: encode({ $type: 'org.impact.claim.activity', title: `activity ${i}` }),
  }))
  const segment = await ActiveSegment.create(file)
  await segment.appendBlock(rows.slice(0, 2))
  await segment.appendBlock(rows.slice(2))
  await segment.seal()
  await segment.close()
}
