import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { feedSettings } from '@tributary/feed'
import { indexSettings } from '@tributary/index'
import { relaySettings } from '@tributary/relay'
import { readSettings, variableName } from '@tributary/settings'
import { streamSettings } from '@tributary/stream'
import { DataDirectory, DirectoryLockedError } from './data-directory.ts'
import { planServices } from './service-plan.ts'
import { upSettings } from './settings.ts'

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
    const plans = planServices(settings, directory, '/etc/tributary.json')
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
      planServices(settings, directory)[1]?.env['TRIBUTARY_STREAM_API_KEYS'],
      env['TRIBUTARY_STREAM_API_KEYS'],
    )
  }))

test('index and feed share the PostgreSQL database that is given, and nobody else knows it', () =>
  withDirectory((directory) => {
    const databaseUrl = 'postgres://tributary:secret@db.example/index'
    const settings = readSettings(upSettings, { env: { TRIBUTARY_UP_DATABASE_URL: databaseUrl } })
    const knowing = planServices(settings, directory).filter(({ env }) =>
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
    for (const { name, env } of planServices(readSettings(upSettings, { env: shared }), directory)) {
      for (const field of Object.keys(specs[name].fields)) {
        const value = given[variableName('', field).slice(1) as keyof typeof given] // undefined for the other fields
        const variable = variableName(specs[name].prefix, field)
        if (value !== undefined) assert.equal(env[variable], value, variable)
      }
    }
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

test('a lock file that is damaged is not taken for a directory in use', () =>
  withDirectory((directory) => {
    const other = `${directory.path}-other`
    mkdirSync(other)
    writeFileSync(`${other}/lock`, 'no database of any kind, and longer than a header'.repeat(20))
    assert.throws(() => new DataDirectory(other), /not a database/)
  }))
