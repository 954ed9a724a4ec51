/** A settings file from the start: `init`, `schema`, and what lies in `contrib`. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtempDisposable, readFile, realpath, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { childEnvironment, readSettings } from '@tributary/settings'
import { serviceSettings } from '../src/service-settings.ts'
import { upSettings } from '../src/up/settings.ts'
import { mainFile, runCli } from './run-cli.ts'

const contrib = join(import.meta.dirname, '../../../contrib')

async function init(
  directory: string,
  typed: string,
  ...args: string[]
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [mainFile, 'init', ...args], {
    cwd: directory,
    env: childEnvironment({}),
  })
  const result = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => (result.stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (result.stderr += text))
  child.stdin.end(typed)
  const [code] = (await once(child, 'close')) as [number | null] // as the event is documented
  return { code, ...result }
}

test('init asks again for what a setting does not take, and writes a file that up can read', async () => {
  await using work = await mkdtempDisposable(join(tmpdir(), 'tributary-init-'))
  const made = await init(
    work.path,
    '\nfoo bar\npds.example.com, pds.example.org\n\ndid:web:feed.example\n0.0.0.0\n',
  )
  assert.equal(made.code, 0, made.stderr)
  assert.match(made.stderr, /expected a comma-separated list of host names/)
  assert.match(made.stdout, /tributary up --settings tributary\.json/)
  const file = join(work.path, 'tributary.json')
  assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), {
    up: {
      dataDirectory: join(await realpath(work.path), 'data'),
      sources: ['pds.example.com', 'pds.example.org'],
      feedServiceDid: 'did:web:feed.example',
      host: '0.0.0.0',
    },
  })
  assert.deepEqual(readSettings(upSettings, { env: {}, file }).sources, [
    'pds.example.com',
    'pds.example.org',
  ])

  const again = await init(work.path, '\n\n\n\n\n')
  assert.deepEqual([again.code, again.stdout], [74, ''])
  assert.equal(
    again.stderr,
    'tributary init: tributary.json exists, and is left as it is\n',
    'it asks nothing',
  )
})

test('init writes the data directory that was meant, wherever the file is', async () => {
  await using work = await mkdtempDisposable(join(tmpdir(), 'tributary-init-'))
  await mkdir(join(work.path, 'settings'))
  const file = join(work.path, 'settings/tributary.json')
  const made = await init(work.path, 'mine\n\n\n\n\n', '--output', file)
  assert.equal(made.code, 0, made.stderr)
  assert.equal(
    readSettings(upSettings, { env: {}, file }).dataDirectory,
    join(await realpath(work.path), 'mine'),
  )
})

test('init writes nothing when answers are missing', async () => {
  await using work = await mkdtempDisposable(join(tmpdir(), 'tributary-init-'))
  const short = await init(work.path, 'data\n')
  assert.equal(short.code, 1)
  assert.match(short.stderr, /nothing was written/)
  await assert.rejects(readFile(join(work.path, 'tributary.json')), { code: 'ENOENT' })
})

test('the example in contrib fits every program', async () => {
  const file = join(contrib, 'tributary.json')
  assert.deepEqual(readSettings(upSettings, { env: {}, file }).sources, [
    'pds.example.com',
    'pds.example.org',
  ])
  const secrets = {
    TRIBUTARY_FEED_SERVICE_DID: 'did:web:feed.example.com',
    TRIBUTARY_STREAM_RELAY_URL: 'ws://localhost:2470',
  }
  for (const spec of Object.values(serviceSettings)) {
    const env = Object.fromEntries(Object.entries(secrets).filter(([name]) => name.startsWith(spec.prefix)))
    readSettings(spec, { env, file })
  }
})

test('every setting of a program is in the schema, and nothing else may be', async () => {
  const { code, stdout } = await runCli(['schema'])
  assert.equal(code, 0)
  const schema = JSON.parse(stdout) as {
    properties: Record<string, { properties: Record<string, unknown>; additionalProperties: boolean }>
  } // as the command promises
  for (const [name, spec] of Object.entries({ up: upSettings, ...serviceSettings })) {
    const section = schema.properties[name]
    assert.deepEqual(Object.keys(section?.properties ?? {}), Object.keys(spec.fields), name)
    assert.equal(section?.additionalProperties, false)
  }
  await using work = await mkdtempDisposable(join(tmpdir(), 'tributary-schema-'))
  const file = join(work.path, 'settings.json')
  await writeFile(file, JSON.stringify({ $schema: 'x', up: { novelty: 1 } }))
  assert.throws(() => readSettings(upSettings, { env: {}, file }), /up\.novelty/)
})
