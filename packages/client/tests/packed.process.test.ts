/** The client as it is published: packed, installed into an empty project, compiled against, and run by more than one Node. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtempDisposable, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { build } from 'esbuild'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { packClient } from '../../../tools/pack.ts'
import { LocalRegistry } from '../../../tools/local-registry.ts'
import { readmeExamples } from './readme-examples.ts'
import { rows, StreamServer } from './stream-server.ts'

const run = promisify(execFile)
const tsc = join(import.meta.dirname, '../../../node_modules/.bin/tsc')

/** The client in a page, minified, takes 114 kB. */
const pageBytesMax = 130_000

/** Batches of an archive have a thousand events, and are joined when they are full. */
const [sealedSeq, headSeq] = [2500, 2505]

const program = `
import { createStreamClient as createAnywhere } from '@tributary/client'
import { Checkpoint, createStreamClient, FileCursorStore, FileStore, plainEvent, runBatches, runIndexer } from '@tributary/client/node'

const url = process.argv[2]
const seqs = { anywhere: [], node: [] }
for await (const { events } of createAnywhere({ url, apiKey: 'key' }).snapshot())
  seqs.anywhere.push(...events.map(({ seq }) => seq))
const client = createStreamClient({ url, apiKey: 'key' })
const throughSeq = await client.head()
const store = new FileCursorStore(process.argv[3], url)
const checkpoint = await Checkpoint.open(store)
for await (const { events, cursor } of client.replay({ throughSeq })) {
  const done = await checkpoint.track(cursor)
  seqs.node.push(...events.map(({ seq }) => seq))
  for (const event of events) if (plainEvent(event).record.title !== 'activity ' + event.seq) throw new Error('another title')
  done()
}
await checkpoint.flush()
const runner = new FileStore(process.argv[3] + '-runner', url)
const handled = []
const handlers = { collections: { 'org.impact.*': { put: ({ seq }) => handled.push(seq) } } }
await runIndexer({ client, store: runner, handlers, onReport: console.error, order: 'account', read: { throughSeq } })
const written = []
const write = async ({ events }) => void written.push(...events.map(({ seq }) => seq))
await runBatches({ client, store: { load: async () => 0, write }, onReport: console.error, read: { throughSeq, archiveFirst: true } })
console.log(JSON.stringify({ ...seqs, handled, written, cursor: await store.load(), runner: await runner.load() }))
`

const typed = `
import { createStreamClient as createAnywhere } from '@tributary/client'
import { type ClientEvent, createStreamClient, MemoryStore, readRecord, type RecordSchema, runIndexer, StreamError, type StreamStatus } from '@tributary/client/node'

export async function titles(url: string): Promise<unknown[]> {
  const found: unknown[] = []
  const onStatus = (status: StreamStatus): void => {
    if (status.type === 'downloading') found.push(status.doneBytes)
  }
  try {
    for await (const { events } of createStreamClient({ url }).replay({ collections: ['org.impact.*'], onStatus }))
      for (const event of events) if (event.kind === 'commit') found.push(event.record?.['title'])
  } catch (error) {
    if (error instanceof StreamError && error.code === 'CursorTooOld') return []
    throw error
  }
  return found
}
export const anywhere = createAnywhere({ url: 'https://stream.example.com' })
export const seqOf = (event: ClientEvent): number => event.seq
export const titleOf = (event: ClientEvent, lexicon: RecordSchema<{ title: string }>): string | undefined =>
  readRecord(event, lexicon)?.title
export async function index(url: string, lexicon: RecordSchema<{ title: string }>): Promise<void> {
  await runIndexer({
    client: createStreamClient({ url }),
    store: new MemoryStore(),
    onReport: ({ type }) => console.error(type),
    handlers: {
      collections: {
        'org.impact.claim.activity': { lexicon, put: ({ record }) => console.log(record.title.length) },
        'org.impact.*': { put: ({ record }) => console.log(record['title']), delete: ({ rkey }) => console.log(rkey) },
      },
      account: ({ account }) => console.log(account.active),
    },
  })
}
// @ts-expect-error a kind that there is not
anywhere.live({ kinds: ['novelty'] })
`

/** The Nodes to run with: ours, and the older ones that are installed for this test where there is a package of them. */
async function nodes(): Promise<string[]> {
  const older = ['node-20', 'node-22'].map((name) =>
    join(import.meta.dirname, '../../../node_modules', name, 'bin/node'),
  )
  const files = [process.execPath, ...older.filter((file) => existsSync(file))]
  const versions = await Promise.all(files.map(async (file) => (await run(file, ['--version'])).stdout))
  const majors = versions.map((version) => Number(/^v(\d+)\./.exec(version)?.[1]))
  if (process.platform === 'linux' && process.arch === 'x64') assert.deepEqual(majors, [24, 20, 22])
  return files
}

/** A bundler puts the client into one file for a page, which needs nothing of Node. */
async function bundlesForBrowser(project: string): Promise<void> {
  const page = "import { createStreamClient } from '@tributary/client'\nglobalThis.made = createStreamClient"
  const { outputFiles, warnings } = await build({
    stdin: { contents: page, resolveDir: project },
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    logLevel: 'silent',
  })
  assert.deepEqual(warnings, [])
  const bytes = outputFiles[0]?.contents.length ?? Infinity
  assert.ok(bytes < pageBytesMax, `${bytes} bytes`)
}

test('the packed client installs into an empty project, fits stock TypeScript, and runs on every Node', async () => {
  await using work = await mkdtempDisposable(join(tmpdir(), 'tributary-packed-'))
  const project = join(work.path, 'project')
  const tarballs = join(work.path, 'tarballs')
  await Promise.all([mkdir(project), mkdir(tarballs)])
  const tarball = packClient(join(work.path, 'packed'))
  const names = ['@atcute/cbor', '@atcute/cid', '@atcute/uint8array', 'hash-wasm', 'ws']
  await using registry = await LocalRegistry.start(names, import.meta.filename, tarballs)
  await writeFile(
    join(project, 'package.json'),
    JSON.stringify({ name: 'empty', type: 'module', private: true }),
  )
  const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--registry', registry.url]
  const npm = ['install', tarball, ...options, '--cache', join(work.path, 'cache')]
  await run('npm', npm, { cwd: project, shell: process.platform === 'win32' })

  const installed = join(project, 'node_modules/@tributary/client')
  const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')) as Record<
    string,
    object
  > // as it was packed
  assert.deepEqual(Object.keys(manifest['dependencies'] ?? {}), names, 'and none of ours')
  const { messages, pkg } = await publint({ pkgDir: installed, pack: false, strict: true })
  assert.deepEqual(
    messages.map((message) => formatMessage(message, pkg, { color: false })),
    [],
  )
  const analysis = await checkPackage(createPackageFromTarballData(await readFile(tarball)))
  assert.ok(analysis.types)
  // As with the tool's profile for packages that are ESM only: they cannot be `require`d, and `node10` knows no `exports`.
  const meant = (kind: string): boolean => kind === 'node10' || kind === 'node16-cjs'
  assert.deepEqual(
    analysis.problems.filter((problem) => !('resolutionKind' in problem && meant(problem.resolutionKind))),
    [],
  )

  await writeFile(join(project, 'typed.ts'), typed)
  const examples = readmeExamples().map(({ code }, i) => ({ file: `example-${i}.ts`, code }))
  for (const { file, code } of examples) await writeFile(join(project, file), code)
  const files = ['typed.ts', ...examples.map(({ file }) => file)]
  const compilerOptions = {
    module: 'nodenext',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
  }
  await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
  const compiled = await run(process.execPath, [tsc, '--project', project]).catch((error: unknown) => error)
  assert.equal((compiled as { stdout: string }).stdout, '') // both outcomes have what was written

  await using server = await StreamServer.start()
  await server.seal(rows(1, 30), rows(31, sealedSeq))
  await server.append(...rows(sealedSeq + 1, headSeq))
  await writeFile(join(project, 'program.mjs'), program)
  await bundlesForBrowser(project)
  for (const [i, node] of (await nodes()).entries()) {
    const { stdout } = await run(node, ['program.mjs', server.url, join(project, `cursor-${i}`)], {
      cwd: project,
    })
    const all = Array.from({ length: headSeq }, (_, at) => at + 1)
    assert.deepEqual(
      JSON.parse(stdout),
      {
        anywhere: all.slice(0, sealedSeq),
        node: all,
        handled: all,
        written: all,
        cursor: headSeq,
        runner: headSeq,
      },
      node,
    )
  }
})
