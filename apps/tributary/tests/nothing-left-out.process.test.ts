/** Commands that do not show or cannot do everything say so, and say how to go on. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempDisposable, rename, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Commands } from './commands.ts'
import { runCli } from './run-cli.ts'

const commands = new Commands()
after(() => commands[Symbol.asyncDispose]())

type Answer = (method: string, query: URLSearchParams) => object

/** Answers every method so, with status 501 what has an error. */
async function serve(answer: Answer): Promise<AsyncDisposable & { url: string; asked: URLSearchParams[] }> {
  const asked: URLSearchParams[] = []
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://service.example')
    asked.push(searchParams)
    const content = answer(pathname.split('.').at(-1) ?? '', searchParams)
    response.statusCode = 'error' in content ? 501 : 200
    response.end(JSON.stringify(content))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // of a port, not of a pipe
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A directory with a file that holds a token. */
async function withToken(): Promise<AsyncDisposable & { path: string; token: string }> {
  const directory = await mkdtempDisposable(join(tmpdir(), 'nothing-left-out-'))
  const token = join(directory.path, 'token')
  await writeFile(token, 'a-token-of-somebody')
  return { path: directory.path, token, [Symbol.asyncDispose]: async () => await directory.remove() }
}

test('feed show with a token shows one page, and says that others follow', async () => {
  await using directory = await withToken()
  const view = { kind: 'cert.create', actor: { did: 'did:plc:aa' }, content: { title: 'Trees' } }
  let feed: object[] = [{ subject: 'at://did:plc:aa/org.impact.claim.activity/a', view }]
  let cursor: string | undefined = 'more'
  await using service = await serve(() => ({ feed, cursor }))
  const show = (...args: string[]) =>
    commands.run([
      'feed',
      'show',
      'did:plc:aa',
      '--url',
      service.url,
      '--token-file',
      directory.token,
      ...args,
    ])
  const onePage = 'tributary feed show: one page, because a token is good for one call\n'

  const part = await show('--limit', '50')
  assert.deepEqual([part.code, part.stderr, service.asked.length], [0, onePage, 1])
  assert.match(part.stdout, /^Trees /m)
  assert.equal((await show('--limit', '1')).stderr, '')
  feed = []
  assert.equal((await show()).stderr, onePage)
  cursor = undefined
  assert.match((await show()).stderr, /nobody whom the viewer follows did anything/)

  const { code, stderr } = await show('--limit', '51')
  assert.deepEqual([code, service.asked.length], [64, 4])
  assert.match(stderr, /--token-file is good for one page: give --limit 50 or less/)
})

test('feed show asks nothing for a viewer that is named by a handle', async () => {
  await using service = await serve(() => ({ feed: [] }))
  const { code, stderr } = await commands.run(['feed', 'show', 'alice.example', '--url', service.url])
  assert.deepEqual([code, service.asked.length], [64, 0])
  assert.match(stderr, /alice\.example is no DID: give that of the viewer/)
})

test('a list that its usual limit cuts says so, and how to see more', async () => {
  await using directory = await withToken()
  let count = 1001
  await using service = await serve((_, query) => {
    const from = Number(query.get('cursor') ?? 0)
    const upTo = Math.min(count, from + Number(query.get('limit')))
    const rows = Array.from({ length: upTo - from }, (__, i) => ({ hostname: `h${from + i}.example` }))
    return { hosts: rows, collections: rows, refusals: rows, ...(upTo < count && { cursor: String(upTo) }) }
  })
  for (const words of [
    ['relay', 'hosts', 'list'],
    ['relay', 'hosts', 'list', '--public'],
    ['stream', 'refusals'],
  ]) {
    const where = ['--url', service.url, '--operator-token-file', directory.token]
    const rowsOf = async (...args: string[]): Promise<[number, string]> => {
      const { stdout, stderr } = await commands.run([...words, ...where, '--json', ...args])
      return [(JSON.parse(stdout) as object[]).length, stderr] // the command prints a list
    }
    count = 1001
    const name = words.filter((word) => !word.startsWith('-')).join(' ')
    const said = `tributary ${name}: the first 1000 are shown; --limit 5000 shows more\n`
    assert.deepEqual(await rowsOf(), [1000, said])
    assert.deepEqual(await rowsOf('--limit', '1000'), [1000, ''])
    assert.deepEqual(await rowsOf('--limit', '5000'), [1001, ''])
    count = 1000
    assert.deepEqual(await rowsOf(), [1000, ''])
  }
})

test('the coverage says what is true of all hosts, below the table and in its JSON', async () => {
  const collections = [{ collection: 'org.impact.collection', status: 'complete' }]
  const hosts = [{ hostname: 'pds.example', collections, pending: 0, failed: 0, unavailable: 0 }]
  const ofAll = { markedRepositories: 3, pendingTakedownSegments: ['a', 'b'], relayError: 'it is away' }
  let answer: object = { revision: 1, headSeq: 2, ...ofAll, hosts }
  await using service = await serve(() => answer)
  const coverage = (...args: string[]) => commands.run(['stream', 'coverage', '--url', service.url, ...args])
  const { stdout, stderr } = await coverage()
  assert.match(stdout, /^pds\.example +org\.impact\.collection +complete$/m)
  assert.deepEqual(stderr.trimEnd().split('\n'), [
    'tributary stream coverage: repositories that are to be read again, because events of them were lost: 3',
    'tributary stream coverage: segments that may hold records of accounts that were taken down: a, b',
    'tributary stream coverage: the relay does not list its PDSs: it is away',
  ])
  const asJson = await coverage('--json')
  assert.deepEqual([JSON.parse(asJson.stdout), asJson.stderr], [{ ...ofAll, hosts }, ''])
  answer = { hosts, markedRepositories: 0, pendingTakedownSegments: [] }
  assert.equal((await coverage()).stderr, '')
})

test('the coverage has one row for all collections of a host that stand alike', async () => {
  const row = (collection: string, status: string) => ({ collection, status })
  const complete = ['org.impact.collection', 'org.impact.claim.activity'].map((name) => row(name, 'complete'))
  const hosts = [
    { hostname: 'one.example', collections: complete },
    { hostname: 'two.example', collections: [...complete, row('org.impact.claim.rights', 'unknown')] },
  ]
  await using service = await serve(() => ({ hosts }))
  const { stdout } = await commands.run(['stream', 'coverage', '--url', service.url, '--wide'])
  assert.deepEqual(
    stdout.match(/^(one|two).*(?=complete|unknown)/gm)?.map((line) => line.replaceAll(/ +/g, ' ')),
    [
      'one.example all 2 ',
      'two.example org.impact.collection org.impact.claim.activity ',
      'two.example org.impact.claim.rights ',
    ],
  )
})

test('status counts the sources that are read, and not those that are dialled', async () => {
  await using service = await serve(() => ({
    hosts: ['connected', 'idle', 'connecting'].map((state) => ({ hostname: `${state}.example`, state })),
  }))
  await using directory = await withToken()
  await rename(directory.token, join(directory.path, 'operator-token'))
  const services = [{ name: 'relay', url: service.url }]
  await writeFile(join(directory.path, 'running.json'), JSON.stringify({ pid: process.pid, services }))
  const { code, stdout } = await commands.run(['status', '--data-directory', directory.path])
  assert.equal(code, 0)
  assert.match(stdout, /^relay .* 2 of 3 PDSs/m)
})

test('a service without an operator token, and a token that nothing names, are answered with what to do', async () => {
  await using directory = await withToken()
  await using service = await serve(() => ({ error: 'MethodNotImplemented', message: 'no such method' }))
  const state = ['relay', 'state', '--url', service.url]
  const off = await commands.run([...state, '--operator-token-file', directory.token])
  assert.equal(off.code, 69)
  assert.match(
    off.stderr,
    /is it the address of a relay\? If it is, it runs without the setting operatorToken/,
  )
  const others = [
    { args: ['relay', 'hosts', 'list', '--public'], expected: 'relay' },
    { args: ['stream', 'coverage'], expected: 'stream' },
    { args: ['feed', 'show', 'did:plc:abcdefghijklmnopqrstuvwx'], expected: 'feed' },
  ]
  for (const { args, expected } of others) {
    const { stderr } = await commands.run([...args, '--url', service.url])
    assert.match(stderr, new RegExp(`is it the address of a ${expected}\\?\n$`))
  }
  const keys = ['stream', 'keys', 'list', '--url', service.url, '--operator-token-file', directory.token]
  assert.match((await commands.run(keys)).stderr, /is it the address of a stream\? If it is, it runs without/)

  for (const args of [state, ['seal', '--url', service.url]]) {
    const unnamed = await runCli(args, { directory: directory.path })
    assert.equal(unnamed.code, 74)
    assert.match(
      unnamed.stderr,
      /; name it with --operator-token-file, or the data directory with TRIBUTARY_UP_DATA_DIRECTORY\n$/,
    )
  }
  const named = await commands.run([...state, '--operator-token-file', join(directory.path, 'none')])
  assert.match(named.stderr, /no such file or directory\n$/)
})
