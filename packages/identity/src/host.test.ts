import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isAllowedPrivate, normalizeHost } from './host.ts'

const none = { allowedPrivateHosts: [] }

test('a public host is a name, alone or as the origin of a TLS URL, in lower case', () => {
  const expected = { host: 'pds.example.com', url: 'https://pds.example.com' }
  for (const input of [
    'pds.example.com',
    ' PDS.example.COM ',
    'https://pds.example.com',
    'wss://pds.example.com/',
    'https://pds.example.com:443',
  ]) {
    assert.deepEqual(normalizeHost(input, none), expected, input)
  }
})

test('everything else is refused', () => {
  const refused = [
    '',
    ' ',
    'x',
    'localhost',
    'localhost:2583',
    '127.0.0.1',
    '[::1]',
    '0x7f.1',
    '2130706433',
    'pds.example.com:8443',
    'http://pds.example.com',
    'ws://pds.example.com',
    'ftp://pds.example.com',
    'https://user@pds.example.com',
    'https://user:pass@pds.example.com',
    'https://pds.example.com/xrpc',
    'pds.example.com/x',
    'pds.example.com?x=1',
    'pds.example.com#x',
    'pds.local',
    'pds.internal',
    'pds.onion',
    'pds.alt',
    'pds.example',
    'pds.invalid',
    'pds.arpa',
    'pds.test',
    'pds.localhost',
    '-pds.example.com',
    'pds..com',
    'pds.example.com.',
    `${'a'.repeat(64)}.com`,
    `${'a.'.repeat(150)}com`,
    'pds.example.0com',
    'javascript:alert(1)',
  ]
  for (const input of refused) assert.ok('error' in normalizeHost(input, none), input)
  const error = 'only the usual port is allowed'
  assert.deepEqual(normalizeHost('pds.example.com:8443', none), { error })
})

test('an allowed private host may have a port and no TLS, exactly as it was allowed', () => {
  const allowed = { allowedPrivateHosts: ['localhost:2583', 'http://127.0.0.5:80', 'pds.internal'] }
  assert.deepEqual(normalizeHost('LOCALHOST:2583', allowed), {
    host: 'localhost:2583',
    url: 'http://localhost:2583',
  })
  assert.deepEqual(normalizeHost('wss://localhost:2583', allowed), {
    host: 'localhost:2583',
    url: 'https://localhost:2583',
  })
  assert.deepEqual(normalizeHost('pds.internal:99', allowed), {
    host: 'pds.internal:99',
    url: 'http://pds.internal:99',
  })
  assert.ok('error' in normalizeHost('localhost:2584', allowed))
  assert.ok('error' in normalizeHost('localhost', allowed))
  assert.ok('error' in normalizeHost('http://localhost:2583/path', allowed))
  assert.equal(isAllowedPrivate('127.0.0.6', allowed), false)
})
