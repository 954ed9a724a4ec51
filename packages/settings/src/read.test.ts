import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { test, type TestContext } from 'node:test'
import { defineSettings, type SettingsSpec, toEnvironment } from './define.ts'
import { givenSettings, readSettings, type SettingsSources } from './read.ts'
import { choice, flag, integer, list, path, secretFile, text, url } from './setting.ts'
import { SettingsError, type SettingsProblem } from './settings-error.ts'

const spec = defineSettings('TRIBUTARY_RELAY', {
  port: integer({ default: 2470, max: 65_535, doc: 'Public listener.' }),
  plcUrl: url({ default: 'https://plc.example', doc: 'The PLC directory.' }),
  dataDirectory: path({ default: 'data/relay', doc: 'Where everything is kept.' }),
  sources: list({ doc: 'Hosts.', pattern: /[a-z.]+(:\d+)?/, form: 'host names', itemsMax: 3 }),
  verify: choice(['full', 'off'], { default: 'full', doc: 'How much is checked.' }),
  verbose: flag({ doc: 'Says more.' }),
  operatorToken: secretFile({ doc: 'File with the operator token.' }),
  apiKey: text({ doc: 'Key.', isSecret: true, pattern: /[a-z]{4}/, form: 'four letters' }),
})

function problemsOf(sources: SettingsSources, of: SettingsSpec = spec): readonly SettingsProblem[] {
  try {
    readSettings(of, sources)
  } catch (error) {
    assert.ok(error instanceof SettingsError)
    return error.problems
  }
  assert.fail('the settings were accepted')
}

function temporaryFile(t: TestContext, name: string, content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-settings-'))
  t.after(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}

test('with nothing given every setting has its default, and the result is frozen', () => {
  const settings = readSettings(spec, { env: {} })
  assert.deepEqual(settings, {
    port: 2470,
    plcUrl: 'https://plc.example',
    dataDirectory: resolve('data/relay'),
    sources: [],
    verify: 'full',
    verbose: false,
    logLevel: 'info',
  })
  assert.equal(settings.operatorToken, undefined)
  assert.ok(Object.isFrozen(settings))
})

test('a flag wins over a variable, that over the shared one, that over the file, that over the default', (t) => {
  const file = temporaryFile(
    t,
    'tributary.json',
    JSON.stringify({
      shared: { plcUrl: 'http://shared-file.example' },
      relay: {
        port: 1,
        verify: 'off',
        sources: ['a.example', 'b.example'],
        verbose: true,
        plcUrl: 'http://file.example',
      },
      feed: { anything: 'is left to the feed' },
    }),
  )
  const env = { TRIBUTARY_RELAY_PORT: '2', TRIBUTARY_PLC_URL: 'http://shared.example' }
  const fromFile = readSettings(spec, { env: {}, file })
  assert.deepEqual(
    [fromFile.port, fromFile.verify, fromFile.sources, fromFile.verbose, fromFile.plcUrl],
    [1, 'off', ['a.example', 'b.example'], true, 'http://file.example'],
  )
  const fromEnv = readSettings(spec, { env, file })
  assert.deepEqual([fromEnv.port, fromEnv.plcUrl], [2, 'http://shared.example'])
  const own = { ...env, TRIBUTARY_RELAY_PLC_URL: 'http://own.example' }
  const fromArgs = readSettings(spec, { env: own, file, args: ['--port', '3', '--no-verbose'] })
  assert.deepEqual([fromArgs.port, fromArgs.plcUrl, fromArgs.verbose], [3, 'http://own.example', false])
})

test('the settings file is named by flag or variable, and relative paths in it start from its folder', (t) => {
  const file = temporaryFile(t, 'here.json', JSON.stringify({ relay: { dataDirectory: 'kept' } }))
  const expected = join(file, '..', 'kept')
  assert.equal(readSettings(spec, { env: { TRIBUTARY_SETTINGS: file } }).dataDirectory, expected)
  assert.equal(readSettings(spec, { env: {}, args: [`--settings=${file}`] }).dataDirectory, expected)
})

test('every problem is reported together, with name, value and expected form', (t) => {
  const file = temporaryFile(
    t,
    'bad.json',
    JSON.stringify({ relay: { prot: 1, verify: {} }, reley: {}, feed: 3 }),
  )
  const problems = problemsOf({
    env: {
      TRIBUTARY_RELAY_PORT: '65536',
      TRIBUTARY_RELAY_PLC_URL: 'plc.example',
      TRIBUTARY_RELAY_API_KEY: 'hush',
      TRIBUTARY_RELAY_SOURCES: 'good.example,BAD',
      TRIBUTARY_RELAY_OPERATOR_TOKEN: '/does/not/exist',
    },
    args: ['--verify', 'some', '--colour=red', 'extra', '--port'],
    file,
  })
  const line = ({ name, value, expected }: SettingsProblem): string =>
    `${name.replace(file, 'FILE')}|${value}|${expected}`
  assert.deepEqual(problems.map(line).toSorted(), [
    '--colour|red|a known flag, see --help',
    '--port|undefined|an integer from 0 to 65535',
    '--verify|some|one of full, off',
    'FILE: feed|3|an object',
    'FILE: relay.prot|undefined|a setting of that section, perhaps port; see --help',
    'FILE: relay.verify|{}|one of full, off',
    'FILE: reley|undefined|one of shared, relay, stream, index, feed, up, demo, client',
    'TRIBUTARY_RELAY_OPERATOR_TOKEN|/does/not/exist|the path of a readable file with a secret of 16 to 1,024 characters without spaces; `openssl rand -hex 16` makes one',
    'TRIBUTARY_RELAY_PLC_URL|plc.example|a URL starting with http:// or https://',
    'TRIBUTARY_RELAY_PORT|65536|an integer from 0 to 65535',
    'TRIBUTARY_RELAY_SOURCES|good.example,BAD|a comma-separated list of host names, which "BAD" is not',
    'extra|undefined|a flag or a command, see --help',
  ])
})

test('a flag without its value is a problem, and does not take the next flag for it', () => {
  const problems = problemsOf({ env: {}, args: ['--data-directory', '--port', '70000', '--settings'] })
  assert.deepEqual(
    problems.map(({ name, value }) => [name, value]),
    [
      ['--data-directory', undefined],
      ['--settings', undefined],
      ['--port', '70000'],
    ],
  )
})

test('a flag that is given twice is a problem, unless it is of a list', () => {
  const ports = ['--port', '1', '--port=2']
  const problems = problemsOf({
    env: {},
    args: [...ports, '--verbose', '--no-verbose', '--settings=a', '--settings=b'],
  })
  assert.deepEqual(
    problems.slice(0, 3).map(({ name, expected }) => [name, expected]),
    ['--port', '--no-verbose', '--settings'].map((name) => [name, 'to be given once']),
  )
  const twice = ['--sources', 'a.example', '--sources', 'b.example']
  assert.deepEqual(readSettings(spec, { env: {}, args: twice }).sources, ['a.example', 'b.example'])
})

test('a value that is given and empty is a problem for texts and paths, and no items for lists', () => {
  const problems = problemsOf({ env: {}, args: ['--data-directory=', '--api-key', '', '--sources', ''] })
  assert.deepEqual(
    problems.map(({ name }) => name),
    ['--data-directory', '--api-key'],
  )
})

test('a required setting without a value is a problem', () => {
  const strict = defineSettings('TRIBUTARY_FEED', {
    serviceDid: text({ required: true, doc: 'Who we are.' }),
  })
  assert.throws(() => readSettings(strict, { env: { TRIBUTARY_FEED_SERVICE_DID: '' } }), {
    name: 'SettingsError',
    message:
      'TRIBUTARY_FEED_SERVICE_DID or --service-did: expected text, because this setting has no default',
  })
})

test('a variable nobody knows is a problem, one of another program is not', () => {
  const env = { TRIBUTARY_FEED_ANYTHING: '1', TRIBUTARY_LABELERS: 'did:web:l', HOME: '/', TRIBUTARYX: '1' }
  assert.doesNotThrow(() => readSettings(spec, { env }))
  const unknown = ['TRIBUTARY_RELAY_PROT', 'TRIBUTARY_RELAYPORT', 'TRIBUTARY_PORT', 'TRIBUTARY_CONSOLE_PORT']
  const problems = problemsOf({ env: Object.fromEntries(unknown.map((name) => [name, '1'])) })
  assert.deepEqual(
    problems.map(({ name }) => name),
    unknown,
  )
  const [misspelled] = problemsOf({ env: { TRIBUTARY_RELAY_APIKEY: 'hush' } })
  assert.equal(misspelled?.value, '(not shown)')
})

test('a secret under the name of no setting, or of the wrong type, is not shown either', (t) => {
  const file = temporaryFile(t, 'typed.json', JSON.stringify({ relay: { apiKey: { is: 'hush' } } }))
  const problems = problemsOf({
    env: {},
    args: ['--apikey=hush', '--api-token', 'hush', '--colour', 'red'],
    file,
  })
  assert.deepEqual(
    problems.map(({ name, value }) => [name.replace(/.*: /, ''), value]),
    [
      ['--apikey', '(not shown)'],
      ['--api-token', '(not shown)'],
      ['--colour', 'red'],
      ['relay.apiKey', '(not shown)'],
    ],
  )
})

test('secrets are read from their file and never shown', (t) => {
  const file = temporaryFile(t, 'token', ' top-secret-0123456789\n')
  assert.equal(
    readSettings(spec, { env: { TRIBUTARY_RELAY_OPERATOR_TOKEN: file } }).operatorToken,
    'top-secret-0123456789',
  )
  const twoLines = temporaryFile(t, 'two', 'top-secret-0123456789\nsecret')
  const [problem] = problemsOf({
    env: { TRIBUTARY_RELAY_OPERATOR_TOKEN: twoLines, TRIBUTARY_RELAY_API_KEY: 'abcd' },
  })
  assert.equal(problem?.value, twoLines)
  const [hidden] = problemsOf({ env: { TRIBUTARY_RELAY_API_KEY: 'hushhush' } })
  assert.deepEqual([hidden?.value, hidden?.expected], ['(not shown)', 'four letters'])
})

test('a secret that can be guessed, or that no header can hold, is refused', (t) => {
  const read = (secret: string) => {
    const file = temporaryFile(t, 'token', secret)
    return readSettings(spec, { env: { TRIBUTARY_RELAY_OPERATOR_TOKEN: file } }).operatorToken
  }
  for (const bad of ['', 'x', 'x'.repeat(15), 'x'.repeat(1025), 'two words of a secret', 'é'.repeat(20)])
    assert.throws(() => read(bad), /openssl rand -hex 16/)
  for (const good of ['x'.repeat(16), 'x'.repeat(1024)]) assert.equal(read(good), good)
})

test('values of every form are read strictly', () => {
  const port = (value: string): unknown => readSettings(spec, { env: { TRIBUTARY_RELAY_PORT: value } }).port
  for (const bad of ['1.5', '1e3', ' 1', '-1', '0x10', '99999999999999999', 'NaN'])
    assert.throws(() => port(bad), bad)
  const plc = (value: string): unknown => readSettings(spec, { env: { TRIBUTARY_PLC_URL: value } }).plcUrl
  assert.equal(plc('http://127.0.0.1:2582/'), 'http://127.0.0.1:2582')
  assert.equal(plc('https://host.example/base'), 'https://host.example/base')
  for (const bad of ['ftp://a.example', 'http://u:p@a.example', 'http://a.example/#x', '//a', 'http://']) {
    assert.throws(() => plc(bad), bad)
  }
  const sources = (...args: string[]): unknown => readSettings(spec, { env: {}, args }).sources
  assert.deepEqual(sources('--sources', 'a, b,,a', '--sources=c'), ['a', 'b', 'c'])
  assert.throws(() => sources('--sources', 'a,b,c,d'), /at most 3/)
  assert.equal(readSettings(spec, { env: {}, args: ['--verbose=0'] }).verbose, false)
  assert.throws(() => readSettings(spec, { env: { TRIBUTARY_RELAY_VERBOSE: 'yes' } }), /true or false/)
})

test('of two settings that stand for one another, one may be given, wherever', (t) => {
  const databases = defineSettings(
    'TRIBUTARY_INDEX',
    { databasePath: path({ default: 'index', doc: 'A file.' }), databaseUrl: text({ doc: 'A server.' }) },
    [['databasePath', 'databaseUrl']],
  )
  const file = temporaryFile(t, 'one.json', JSON.stringify({ index: { databaseUrl: 'server' } }))
  assert.equal(readSettings(databases, { env: {}, file }).databaseUrl, 'server')
  assert.equal(readSettings(databases, { env: {}, args: ['--database-path=/a'] }).databasePath, '/a')
  const [problem, ...others] = problemsOf({ env: {}, args: ['--database-path=/a'], file }, databases)
  assert.deepEqual(others, [])
  assert.equal(
    `${problem?.name}: ${problem?.expected}`,
    `--database-path and ${file}: index.databaseUrl: one of them`,
  )
})

test('it can be told where each setting was given, but not of what was given for all programs', (t) => {
  const file = temporaryFile(
    t,
    'given.json',
    JSON.stringify({ shared: { logLevel: 'warn' }, relay: { verify: 'off', port: 1 } }),
  )
  const env = {
    TRIBUTARY_PLC_URL: 'http://shared.example',
    TRIBUTARY_RELAY_PORT: '2',
    TRIBUTARY_RELAY_SOURCES: '',
  }
  assert.deepEqual(
    new Map([
      ['verify', `${file}: relay.verify`],
      ['port', 'TRIBUTARY_RELAY_PORT'],
      ['verbose', '--verbose'],
    ]),
    givenSettings(spec, { env, args: ['--verbose'], file }),
  )
})

test('a settings file that is missing, no JSON or no object is a problem that names it', (t) => {
  const missing = join(tmpdir(), 'tributary-settings-that-is-not-there.json')
  assert.match(problemsOf({ env: {}, file: missing })[0]?.expected ?? '', /ENOENT/)
  assert.match(problemsOf({ env: {}, file: temporaryFile(t, 'a', '{') })[0]?.expected ?? '', /readable JSON/)
  assert.match(problemsOf({ env: {}, file: temporaryFile(t, 'b', '[]') })[0]?.expected ?? '', /JSON object/)
})

test('settings written as environment are read back the same', () => {
  const given = {
    port: 1,
    sources: ['a.example', 'b.example:1'],
    verbose: true,
    verify: 'off',
    logLevel: 'warn',
  } as const
  const read = readSettings(spec, { env: toEnvironment(spec, { ...given, apiKey: undefined }) })
  assert.deepEqual({ ...read, ...given }, read)
  assert.throws(() => toEnvironment(spec, { prot: 1 } as {}), /has no setting prot/) // a name from outside the type
})
