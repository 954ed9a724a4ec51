import assert from 'node:assert/strict'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Commands } from './commands.ts'
import { runCli } from './run-cli.ts'
import { StaticStream } from './static-stream.ts'

const commands = new Commands()
after(() => commands[Symbol.asyncDispose]())

function seqsOf(ndjson: string): number[] {
  const lines = ndjson.trimEnd().split('\n').filter(Boolean)
  return lines.map((line) => (JSON.parse(line) as { seq: number }).seq) // events
}

test('a backfill of a stream that has sealed nothing reads on to its head, without a key, and says how far', async () => {
  await using stream = await StaticStream.start(6)
  const all = await commands.run(['backfill', '--url', stream.url])
  assert.deepEqual([all.code, seqsOf(all.stdout)], [0, [1, 2, 3, 4, 5, 6]])
  assert.match(
    all.stderr,
    /done: 6 events after seq 0 through seq 6, the head of the stream when it began\n$/,
  )
  const part = await commands.run(['backfill', '--url', stream.url, '--after-seq', '2', '--before-seq', '4'])
  assert.deepEqual([part.code, seqsOf(part.stdout)], [0, [3, 4]])
  assert.match(part.stderr, /done: 2 events after seq 2 through seq 4, as --before-seq says\n$/)
  const beyond = await commands.run(['backfill', '--url', stream.url, '--before-seq', '40'])
  assert.deepEqual([beyond.code, seqsOf(beyond.stdout).length], [0, 6])
  assert.match(beyond.stderr, /which has not reached --before-seq 40\n$/)
})

test('commands that end by themselves give up a server that does not answer, with a sentence and a code', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-reading-'))
  const token = join(directory.path, 'token')
  await writeFile(token, 'operator-token-of-32-characters-x')
  const nobody = ['--url', 'http://127.0.0.1:1']
  for (const args of [
    ['backfill', ...nobody, '--wait', '0'],
    ['tail', ...nobody, '--wait', '0'],
    ['relay', 'state', ...nobody, '--operator-token-file', token],
    ['seal', ...nobody, '--operator-token-file', token],
  ]) {
    const { code, stdout, stderr } = await commands.run(args)
    assert.deepEqual([code, stdout], [69, ''], stderr)
    assert.match(stderr, /^tributary [^\n]*(did not answer|no connection could be made)[^\n]*\n$/m)
  }
  await using stream = await StaticStream.start(1)
  const wrongScheme = await commands.run([
    'backfill',
    '--url',
    stream.url.replace('http', 'https'),
    '--wait',
    '0',
  ])
  assert.equal(wrongScheme.code, 69, wrongScheme.stderr)
  const refused = await commands.run(['backfill', '--url', stream.url, '--api-key', 'no-such-key'])
  assert.deepEqual([refused.code, refused.stdout], [77, ''])
  assert.match(refused.stderr, /401 AuthenticationRequired; give an archive key with --api-key-file/)
})

test('nothing that is typed for tail is ignored without a word', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'tributary-reading-'))
  const message = 'This stream does not watch a.b.c: no new events of that will come'
  await using stream = await StaticStream.start(3, { name: 'UnwatchedCollections', message })
  const url = ['--url', stream.url]
  const file = join(directory.path, 'cursor')
  const key = join(directory.path, 'key')
  await writeFile(key, 'k'.repeat(20))

  const unwatched = await commands.run([
    'tail',
    ...url,
    '--collections=a.b.c',
    '--cursor=1',
    '--limit=1',
    '--quiet',
  ])
  assert.deepEqual([unwatched.code, seqsOf(unwatched.stdout)], [0, [2]])
  assert.match(unwatched.stderr, /does not watch a\.b\.c/)

  const kept = ['tail', ...url, '--cursor-file', file, '--limit', '1']
  assert.deepEqual(seqsOf((await commands.run([...kept, '--cursor', '1'])).stdout), [2], 'the file is new')
  const both = await commands.run([...kept, '--cursor', '1'])
  assert.deepEqual([both.code, both.stdout], [64, ''])
  assert.match(both.stderr, /cursor goes on after seq 2: leave --cursor out, or remove the file\n$/)
  assert.deepEqual(seqsOf((await commands.run(kept)).stdout), [3])

  const nowhere = await commands.run([
    'tail',
    ...url,
    '--cursor-file',
    join(directory.path, 'none', 'cursor'),
  ])
  assert.deepEqual([nowhere.code, nowhere.stdout], [74, ''])
  assert.match(nowhere.stderr, /^tributary tail: .*none: no such file or directory\n$/)

  const contradictions = [
    ['--cursor', '1', '--since', '2h'],
    ['--replay', '--since', '2h'],
    ['--api-key', 'k'.repeat(20), '--api-key-file', key],
    ['--url', `${stream.url}/xrpc/network.social.stream.subscribeEvents`],
    ['--since', 'yesterday'],
    ['--since', '2999-01-01'],
    ['--cursor', '9000000000000000'],
    ['--cursor', '1234567890123456789'],
  ]
  for (const args of contradictions) {
    const { code, stdout, stderr } = await commands.run(['tail', ...url, ...args])
    assert.deepEqual([code, stdout], [64, ''], stderr)
  }
})

test('tail --compress prints what a server has that does not compress, and says that it does not', async () => {
  await using stream = await StaticStream.start(3)
  const args = ['tail', '--url', stream.url, '--cursor', '0', '--limit', '3', '--compress']
  const { code, stdout, stderr } = await commands.run(args)
  assert.deepEqual([code, seqsOf(stdout)], [0, [1, 2, 3]], stderr)
  assert.match(stderr, /^tributary tail: messages come uncompressed: [^\n]+$/m)
})

test('tail starts at a time: one of Jetstream v1, or one a while ago', async () => {
  await using stream = await StaticStream.start(3)
  const tail = (...args: string[]) => commands.run(['tail', '--url', stream.url, '--limit', '1', ...args])
  assert.deepEqual(seqsOf((await tail('--cursor', '1767225600001000')).stdout), [3])
  assert.equal(stream.subscriptions.at(-1)?.get('cursor'), '1767225600001000')
  const before = Date.now()
  assert.deepEqual(seqsOf((await tail('--since', '2h')).stdout), [3])
  const since = Number(stream.subscriptions.at(-1)?.get('cursor')) / 1000
  assert.ok(since >= before - 7_200_000 && since <= Date.now() - 7_200_000)
})

test('an output that takes no more ends a command with a sentence', async (t) => {
  if (process.platform !== 'linux') return t.skip('there is no /dev/full')
  await using stream = await StaticStream.start(3)
  for (const command of [['backfill'], ['tail', '--cursor', '0']]) {
    const { code, stderr } = await runCli([...command, '--url', stream.url], { output: '/dev/full' })
    assert.equal(code, 74, stderr)
    assert.match(stderr, /^tributary \w+: [^\n]*the disk is full: make room and run it again\n$/m)
    assert.doesNotMatch(stderr, /ENOSPC| at /)
  }
})
