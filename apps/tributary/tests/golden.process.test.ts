/**
 * What commands print at 80 and at 200 columns, and as JSON, against real services. The texts are files in `golden`. To
 * change them on purpose, remove those that change, run this test, and look at what it wrote.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { ActiveSegment } from '@tributary/segment/node'
import { freePort, startPlc, startProcess, startScriptedHost } from '@tributary/testkit'
import { encode } from '@atcute/cbor'
import type { Command } from 'commander'
import { createProgram } from '../src/program.ts'
import { serviceEntry } from '../src/service-entry.ts'

const golden = join(import.meta.dirname, 'golden')
const widths = [80, 200]

interface Outcome {
  code: number
  stdout: string
  stderr: string
}

/** Compares texts with their files. Those without a file are written, and the test fails once. */
function assertGolden(texts: Readonly<Record<string, string>>): void {
  mkdirSync(golden, { recursive: true })
  const isMissing = (name: string): boolean => !existsSync(join(golden, name))
  const missing = Object.keys(texts).filter(isMissing)
  for (const [name, text] of Object.entries(texts)) {
    if (isMissing(name)) writeFileSync(join(golden, name), text)
    assert.equal(text, readFileSync(join(golden, name), 'utf8'), name)
  }
  assert.deepEqual(missing, [], 'these were not there and are written: look at them, and run the test again')
}

test('the help of every command is as it was looked at', () => {
  const texts: Record<string, string> = {}
  for (const columns of widths) {
    const helps: string[] = []
    const walk = (command: Command): void => {
      command.configureOutput({ getOutHelpWidth: () => columns })
      helps.push(command.helpInformation())
      command.commands.forEach(walk)
    }
    walk(createProgram())
    texts[`help-${columns}.txt`] = helps.join('\n')
  }
  assertGolden(texts)
})

test('what commands print of real services is as it was looked at, and fits the terminal', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'golden-'))
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
  const normalised = (text: string): string =>
    text
      .replaceAll(directory.path, 'DIRECTORY')
      .replaceAll(/(127\.0\.0\.1|localhost):\d+/g, (address) => address.replaceAll(/\d(?=\d*$)/g, '#'))
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) => time.replaceAll(/\d/g, '0'))
      .replaceAll(/did:plc:[a-z2-7]{24}/g, `did:plc:${'x'.repeat(24)}`)
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
      of('stream', 'collections', 'add', 'org.hyperboards.board', '--actor', 'ann'),
      of('stream', 'repos', 'refetch', 'did:plc:abcdefghijklmnopqrstuvwx'),
    ]
    const looks = [
      of('relay', 'bans', 'list'),
      of('relay', 'limits', 'show'),
      of('relay', 'hosts', 'show', 'nobody.example'),
      of('relay', 'accounts', 'takedowns'),
      of('relay', 'audit'),
      of('stream', 'collections', 'list'),
      of('stream', 'jobs', 'list'),
      of('stream', 'keys', 'list'),
      of('stream', 'subscribers', 'list'),
      of('stream', 'refusals', '--reason', 'bad-signature'),
      of('stream', 'compaction'),
      of('stream', 'coverage'),
      of('stream', 'audit'),
      ['inspect', 'segment', segment],
      ['inspect', 'block', segment, '0'],
      ['inspect', 'log', join(directory.path, 'nowhere')],
      ['status', '--data-directory', join(directory.path, 'nothing')],
      ['sources', 'list', ...nobody],
      ['seal', ...nobody, '--operator-token-file', token],
      ['seal', ...nobody, '--operator-token-file', join(directory.path, 'no-token')],
      ['verify'],
      ['verify', '--archive', nobody[1] ?? ''],
      ['feed', 'show', 'did:plc:abcdefghijklmnopqrstuvwx', ...nobody],
      ['stream', 'archive', 'verify', '--data-directory', join(directory.path, 'nothing')],
      ['relay', 'log', 'verify', '--data-directory', join(directory.path, 'nothing')],
    ]
    const calls = [
      ...changes.map((args) => ({ args, columns: 100 })),
      ...widths.flatMap((columns) => looks.map((args) => ({ args, columns }))),
      ...looks.map((args) => ({ args: [...args, '--json'], columns: 80 })),
    ]
    const outcomes = await run(calls, directory.path)
    const textOf = (from: number, count: number): string =>
      calls
        .slice(from, from + count)
        .map(({ args }, i) => normalised(described(args, outcomes[from + i])))
        .join('\n')
    const texts: Record<string, string> = { 'changes.txt': textOf(0, changes.length) }
    for (const [i, columns] of widths.entries()) {
      const from = changes.length + i * looks.length
      texts[`output-${columns}.txt`] = textOf(from, looks.length)
      for (const { stdout } of outcomes.slice(from, from + looks.length))
        for (const line of stdout.split('\n'))
          assert.ok(line.length <= columns, `${columns} columns: ${line}`)
    }
    const jsonFrom = calls.length - looks.length
    for (const { stdout } of outcomes.slice(jsonFrom)) if (stdout !== '') JSON.parse(stdout)
    texts['output-json.txt'] = textOf(jsonFrom, looks.length)
    assertGolden(texts)
  } finally {
    await Promise.all([relay.stop(), stream.stop(), plc.stop()])
  }
})

/** What zstd makes of a block is a little else in each version. */
function withoutSizes(text: string): string {
  return text.replaceAll(/\b[0-9a-f]{16}\b/g, '0'.repeat(16)).replaceAll(/\b\d{3}\b/g, '###')
}

function described(args: readonly string[], outcome: Outcome | undefined): string {
  const { code, stdout, stderr } = outcome ?? { code: -1, stdout: '', stderr: '' }
  const words = args.filter(
    (_, i) => !['--url', '--operator-token-file'].some((flag) => args[i] === flag || args[i - 1] === flag),
  )
  const shown = args[0] === 'inspect' ? withoutSizes(stdout) : stdout
  return `$ tributary ${words.join(' ')}\n${shown}${stderr.replace(/^(?=.)/gm, '! ')}exit code ${code}\n`
}

async function run(calls: readonly object[], directory: string): Promise<Outcome[]> {
  const file = join(directory, 'calls.json')
  await writeFile(file, JSON.stringify(calls))
  const program = join(import.meta.dirname, 'golden-program.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [program, file], { cwd: directory })
  return JSON.parse(stdout) as Outcome[] // as the program prints it
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
