import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { feedSettings } from '@tributary/feed'
import { indexSettings } from '@tributary/index'
import { relaySettings } from '@tributary/relay'
import { givenSettings, readSettings, variableName } from '@tributary/settings'
import { streamSettings } from '@tributary/stream'
import { serviceSettings } from '../service-settings.ts'
import { DataDirectory, DirectoryLockedError, readRunNote } from './data-directory.ts'
import { planServices } from './service-plan.ts'
import { upSettings } from './settings.ts'

const untold = { given: new Map<string, string>() }

function withDirectory(use: (directory: DataDirectory) => void): void {
  const path = mkdtempSync(join(tmpdir(), 'tributary-plan-'))
  try {
    using directory = new DataDirectory(join(path, 'data'))
    use(directory)
  } finally {
    rmSync(path, { recursive: true })
  }
}

test('the services find each other, share one archive key, and keep to the directory', () =>
  withDirectory((directory) => {
    const settings = readSettings(upSettings, {
      env: {},
      args: ['--host=::', '--sources=pds.example', '--relay-port=1'],
    })
    const plans = planServices(settings, directory, { ...untold, settingsFile: '/etc/tributary.json' })
    const env = Object.assign({}, ...plans.map((plan) => plan.env)) as Record<string, string> // of all four
    assert.equal(env['TRIBUTARY_RELAY_SOURCES'], 'pds.example')
    assert.equal(env['TRIBUTARY_STREAM_RELAY_URL'], 'ws://127.0.0.1:1')
    assert.equal(env['TRIBUTARY_STREAM_VERIFY'], 'off')
    assert.match(
      env['TRIBUTARY_STREAM_COLLECTIONS'] ?? '',
      /app\.social\.actor\.profile,org\.hyperboards\.board$/,
    )
    assert.equal(env['TRIBUTARY_STREAM_API_KEYS'], `index:${env['TRIBUTARY_INDEX_API_KEY']}`)
    assert.equal(env['TRIBUTARY_FEED_DATABASE_PATH'], env['TRIBUTARY_INDEX_DATABASE_PATH'])
    for (const plan of plans) assert.equal(plan.env['TRIBUTARY_SETTINGS'], '/etc/tributary.json')
    for (const [name, value] of Object.entries(env)) {
      if (/_(DIRECTORY|PATH)$/.test(name) && name.startsWith('TRIBUTARY_'))
        assert.ok(value.startsWith(directory.path))
    }
    assert.deepEqual(
      planServices(settings, directory, untold)[1]?.env['TRIBUTARY_STREAM_API_KEYS'],
      env['TRIBUTARY_STREAM_API_KEYS'],
    )
  }))

test('a relay that is to build its state again does so at its first start only', () =>
  withDirectory((directory) => {
    const settings = readSettings(upSettings, { env: {} })
    const settingsFile = join(directory.path, 'settings.json')
    const laterEnv = (relay: object): object[] => {
      writeFileSync(settingsFile, JSON.stringify({ relay }))
      return planServices(settings, directory, { ...untold, settingsFile }).map((plan) => plan.laterEnv)
    }
    assert.deepEqual(laterEnv({}), [{}, {}, {}, {}])
    const once = { TRIBUTARY_RELAY_REBUILD_STATE: 'false' }
    assert.deepEqual(laterEnv({ rebuildState: true }), [once, {}, {}, {}])
  }))

test('index and feed share the PostgreSQL database that is given, and nobody else knows it', () =>
  withDirectory((directory) => {
    const databaseUrl = 'postgres://tributary:secret@db.example/index'
    const settings = readSettings(upSettings, { env: { TRIBUTARY_UP_DATABASE_URL: databaseUrl } })
    const knowing = planServices(settings, directory, untold).filter(({ env }) =>
      Object.values(env).includes(databaseUrl),
    )
    assert.deepEqual(
      knowing.map(({ name }) => name),
      ['index', 'feed'],
    )
    for (const { name, env } of knowing)
      assert.equal(env[`TRIBUTARY_${name.toUpperCase()}_DATABASE_URL`], databaseUrl)
  }))

test('what is given once for all programs reaches every service that knows it', () =>
  withDirectory((directory) => {
    const given = {
      LOG_LEVEL: 'warn',
      PLC_URL: 'http://plc.example',
      ALLOWED_PRIVATE_HOSTS: 'pds.example',
      LABELERS: 'did:web:labeler.example',
      TRUSTED_PROXIES: '192.0.2.1',
    }
    const shared = Object.fromEntries(
      Object.entries(given).map(([key, value]) => [`TRIBUTARY_${key}`, value]),
    )
    const specs = { relay: relaySettings, stream: streamSettings, index: indexSettings, feed: feedSettings }
    for (const { name, env } of planServices(readSettings(upSettings, { env: shared }), directory, untold)) {
      for (const field of Object.keys(specs[name].fields)) {
        const value = given[variableName('', field).slice(1) as keyof typeof given] // undefined for the other fields
        const variable = variableName(specs[name].prefix, field)
        if (value !== undefined) assert.equal(env[variable], value, variable)
      }
    }
  }))

test('what is set for one service counts unless it ties the services together, and else it is said', () =>
  withDirectory((directory) => {
    const file = join(directory.path, 'tributary.json')
    const up = { logLevel: 'warn', sources: ['pds.example'] }
    const sections = {
      up,
      relay: { logLevel: 'debug', sources: ['other.example'] },
      stream: {
        verify: 'full',
        collections: ['org.impact.claim.activity'],
        port: 1,
        apiKeys: 'me:0123456789abcdef',
      },
      index: { plcUrl: 'http://plc.example', streamUrl: 'http://stream.example', host: '0.0.0.0' },
      feed: { requestsPerMinute: 7 },
    }
    writeFileSync(file, JSON.stringify(sections))
    const settings = readSettings(upSettings, { env: {}, file })
    const given = givenSettings(upSettings, { env: {}, file })
    const plans = planServices(settings, directory, { settingsFile: file, given })
    const notes = plans.flatMap((plan) => plan.notes.map((note) => note.replaceAll(`${file}: `, '')))
    assert.deepEqual(notes, [
      'relay.logLevel does not count here: up.logLevel says otherwise',
      'relay.sources does not count here: up.sources says otherwise',
      'stream.port does not count here: give --stream-port or TRIBUTARY_UP_STREAM_PORT in its place',
      'stream.apiKeys does not count here: make keys with tributary stream keys create',
      'index.streamUrl does not count here: tributary index, which runs the index alone, takes it',
      'index.host does not count here: under up its health and metrics are for this machine alone: tributary index, which runs the index alone, takes it',
    ])
    const [relay, stream, index, feed] = plans.map((plan) =>
      readSettings(serviceSettings[plan.name], { env: plan.env }),
    ) as Record<string, unknown>[] // four plans, whose settings have many types
    assert.equal(relay?.['logLevel'], 'warn')
    assert.deepEqual(relay?.['sources'], ['pds.example'])
    assert.deepEqual(
      [stream?.['verify'], stream?.['collections'], stream?.['port']],
      ['full', ['org.impact.claim.activity'], 2480],
    )
    assert.equal(index?.['plcUrl'], 'http://plc.example')
    assert.deepEqual([feed?.['plcUrl'], feed?.['requestsPerMinute']], ['https://plc.directory', 7])
    const unmoved = planServices(settings, directory, { settingsFile: file, given: 'all' })
    assert.equal(unmoved[1]?.env['TRIBUTARY_STREAM_VERIFY'], 'off')
  }))

test('a database for one of index and feed alone is refused', () =>
  withDirectory((directory) => {
    const file = join(directory.path, 'tributary.json')
    writeFileSync(file, JSON.stringify({ index: { databaseUrl: 'postgres://a/b' } }))
    const plans = planServices(readSettings(upSettings, { env: {} }), directory, {
      ...untold,
      settingsFile: file,
    })
    assert.deepEqual(
      plans.flatMap(({ problems }) => problems),
      [
        `${file}: index.databaseUrl: index and feed share one database: give --database-url or TRIBUTARY_UP_DATABASE_URL in its place`,
      ],
    )
  }))

test('secrets are for the owner alone, and the directory is for one process', () =>
  withDirectory((directory) => {
    const { file, value } = directory.secret('archive-key')
    assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.ok(value.length >= 40)
    assert.equal(directory.secret('archive-key').value, value)
    assert.throws(() => new DataDirectory(directory.path), DirectoryLockedError)
    writeFileSync(file, '')
    assert.ok(directory.secret('archive-key').value.length >= 40)
  }))

test('a note that a power cut has emptied says that nothing runs', () =>
  withDirectory((directory) => {
    const note = { pid: 1, services: [] }
    directory.noteRun(note)
    assert.deepEqual(readRunNote(directory.path), note)
    writeFileSync(join(directory.path, 'running.json'), '')
    assert.equal(readRunNote(directory.path), undefined)
  }))

test('a lock file that is damaged is not taken for a directory in use', () =>
  withDirectory((directory) => {
    const other = `${directory.path}-other`
    mkdirSync(other)
    writeFileSync(`${other}/lock`, 'no database of any kind, and longer than a header'.repeat(20))
    assert.throws(() => new DataDirectory(other), /not a database/)
  }))
