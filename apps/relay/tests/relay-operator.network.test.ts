import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { loadLexicons } from '@tributary/xrpc'
import { startPlc, startScriptedHost } from '@tributary/testkit'
import { FirehoseReader } from './firehose-reader.ts'
import { operate, untilHost } from './operator-client.ts'
import { operatorToken, startTestRelay } from './start-test-relay.ts'

const plc = await startPlc()
const pds = await startScriptedHost({ plcUrl: plc.url })
const other = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const relay = await startTestRelay({
  plcUrl: plc.url,
  sources: [pds.host],
  allowedPrivateHosts: [pds.host, other.host, 'localhost:1'],
})
after(async () => {
  await relay[Symbol.asyncDispose]()
  await pds.stop()
  await other.stop()
  await plc.stop()
})
const prefix = 'network.social.stream.relay.admin.'
const methods = [...loadLexicons()].flatMap(({ id, defs }) =>
  id.startsWith(prefix) && defs['main']
    ? [{ name: id.slice(prefix.length), isQuery: defs['main'].type === 'query' }]
    : [],
)

test('every method refuses a missing, malformed and wrong token before it looks at anything else', async () => {
  assert.ok(methods.length > 20)
  for (const { name, isQuery } of methods) {
    for (const authorization of [
      undefined,
      'Bearer',
      'Basic YTpi',
      `Bearer ${operatorToken}x`,
      operatorToken,
    ]) {
      const response = await fetch(`${relay.url}/xrpc/${prefix}${name}`, {
        method: isQuery ? 'GET' : 'POST',
        headers: authorization === undefined ? {} : { authorization },
      })
      const { error } = (await response.json()) as { error: string }
      assert.deepEqual([name, response.status, error], [name, 401, 'AuthenticationRequired'])
      assert.equal(response.headers.get('www-authenticate'), 'Bearer')
    }
  }
})

test('every malformed input is answered as an invalid request, and what is not there by its name', async () => {
  const wrong: [method: string, input: unknown][] = [
    ...methods.filter(({ isQuery }) => !isQuery).map(({ name }): [string, unknown] => [name, []]),
    ['addHost', {}],
    ['addHost', { hostname: 5 }],
    ['addHost', { hostname: '10.0.0.1' }],
    ['addHost', { hostname: 'https://a.dev/path' }],
    ['addHost', { hostname: 'x'.repeat(400) }],
    ['addHost', { hostname: pds.host, accountQuota: -1 }],
    ['setHostStatus', { hostname: pds.host, status: 'asleep' }],
    ['updateHost', { hostname: pds.host, eventsPerSecond: 0 }],
    ['updateHost', { hostname: pds.host, validation: 'none' }],
    ['resetHostCursor', { hostname: pds.host }],
    ['resetHostCursor', { hostname: pds.host, position: 'live', cursor: 1 }],
    ['resetHostCursor', { hostname: pds.host, cursor: 1.5 }],
    ['updateSettings', { accountQuota: 'many' }],
    ['updateSettings', { trustedHosts: ['a b'] }],
    ['putDomainBan', { domain: 'not a domain' }],
    ['updateAccountStatus', { did: 'nobody', status: 'active' }],
    ['disconnectConsumer', { id: 'one' }],
    ['addHost', { hostname: pds.host, idempotencyKey: '' }],
  ]
  for (const [method, input] of wrong) {
    const { status, body } = await operate(relay, method, { input })
    assert.deepEqual([method, input, status, body['error']], [method, input, 400, 'InvalidRequest'])
  }
  const elsewhere = await operate(relay, 'addHost', { input: { hostname: 'pds.tributary.dev:99' } })
  assert.match(
    String(elsewhere.body['message']),
    /a public host name without a port.* allowedPrivateHosts names$/,
  )
  for (const [method, key, value] of [
    ['listHosts', 'limit', '0'],
    ['listHosts', 'cursor', 'x'],
    ['listHosts', 'state', 'asleep'],
    ['listAudit', 'cursor', '-1'],
    ['listRefusals', 'limit', '1001'],
    ['getAccount', 'did', 'x'],
  ] as const) {
    const { status, body } = await operate(relay, method, { query: { [key]: value } })
    assert.deepEqual([method, key, status, body['error']], [method, key, 400, 'InvalidRequest'])
  }
  const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa'
  for (const [method, input, error] of [
    ['setHostStatus', { hostname: 'a.tributary.dev', status: 'paused' }, 'HostNotFound'],
    ['skipHostPosition', { hostname: pds.host }, 'HostNotStuck'],
    ['deleteDomainBan', { domain: 'a.dev' }, 'DomainNotBanned'],
    ['updateAccountStatus', { did, status: 'takendown' }, 'RepoNotFound'],
    ['disconnectConsumer', { id: 999 }, 'ConsumerNotFound'],
  ] as const) {
    const { status, body } = await operate(relay, method, { input })
    assert.deepEqual([method, status, body['error']], [method, 400, error])
  }
  const stale = { hostname: pds.host, expectedRevision: 99 }
  const idempotencyKey = 'one-request'
  await operate(relay, 'updateHost', { input: { hostname: pds.host, note: 'first', idempotencyKey } })
  for (const [method, input, error] of [
    ['updateHost', { ...stale, note: 'x' }, 'RevisionConflict'],
    ['setHostStatus', { ...stale, status: 'paused' }, 'RevisionConflict'],
    ['updateHost', { hostname: pds.host, note: 'second', idempotencyKey }, 'IdempotencyKeyReused'],
  ] as const) {
    const { status, body } = await operate(relay, method, { input })
    assert.deepEqual([method, status, body['error']], [method, 409, error])
  }
})

test('a paused host is not dialled, and a document that is not published is told from one that cannot be read', async () => {
  await operate(relay, 'setHostStatus', { input: { hostname: pds.host, status: 'paused' } })
  for (const method of ['reconnectHost', 'disconnectHost']) {
    const { status, body } = await operate(relay, method, { input: { hostname: pds.host } })
    assert.deepEqual([method, status, body['error']], [method, 400, 'HostNotEnabled'])
  }
  await operate(relay, 'setHostStatus', { input: { hostname: pds.host, status: 'enabled' } })
  for (const [did, status, error] of [
    ['did:plc:aaaaaaaaaaaaaaaaaaaaaaaa', 400, 'IdentityNotFound'],
    // Nothing answers there.
    ['did:web:localhost%3A1', 503, 'IdentityUnavailable'],
  ] as const) {
    const answer = await operate(relay, 'refreshIdentity', { input: { did } })
    assert.deepEqual([did, answer.status, answer.body['error']], [did, status, error])
  }
})

test('at most so many sources a day, unless the operator overrides it', async () => {
  await operate(relay, 'updateSettings', { input: { newSourcesPerDay: 0 } })
  const over = await operate(relay, 'addHost', { input: { hostname: other.host } })
  assert.deepEqual([over.status, over.body['error']], [429, 'RateLimitExceeded'])
  const input = { hostname: other.host, overrideDailyLimit: true }
  assert.equal((await operate(relay, 'addHost', { input })).status, 200)
  await untilHost(relay, other.host, ({ state }) => state === 'connected')
})

test('a consumer is listed and disconnected with its cursor, an account is taken down and restored', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = await other.createAccount()
  const states = () =>
    reader.frames.flatMap(({ t, body }) =>
      t === '#account' && body['did'] === account.did ? [body['status'] ?? 'active'] : [],
    )
  await reader.until(() => states().length === 1)
  const set = (status: string, reason?: string) =>
    operate(relay, 'updateAccountStatus', { input: { did: account.did, status, ...(reason && { reason }) } })
  assert.equal((await set('takendown', 'r')).status, 200)
  await reader.until(() => states().length === 2)
  const { body } = await operate(relay, 'listTakedowns')
  assert.deepEqual(
    (body['takedowns'] as { did: string }[]).map(({ did }) => did),
    [account.did],
  )
  await set('suspended')
  await reader.until(() => states().length === 3)
  const suspended = (await operate(relay, 'listTakedowns')).body['takedowns'] as { reason: string }[]
  assert.deepEqual(
    suspended.map(({ reason }) => reason),
    ['r'],
    'the reason is kept unless another is given',
  )
  for (const method of ['getLatestCommit', 'getRepo']) {
    const response = await fetch(`${relay.url}/xrpc/com.atproto.sync.${method}?did=${account.did}`)
    const { error } = (await response.json()) as { error: string } // as all XRPC errors
    assert.deepEqual([method, response.status, error], [method, 400, 'RepoSuspended'])
  }
  await set('active')
  await reader.until(() => states().length === 4)
  assert.deepEqual(states(), ['active', 'takendown', 'suspended', 'active'])
  const { consumers } = (await operate(relay, 'listConsumers')).body as { consumers: { id: number }[] }
  const id = consumers.at(-1)?.id
  assert.equal((await operate(relay, 'disconnectConsumer', { input: { id } })).status, 200)
  await reader.until(() => reader.closed !== undefined)
  assert.deepEqual(reader.closed, { code: 1008, reason: 'Disconnected' })
  assert.match(String(reader.frames.at(-1)?.body['message']), /cursor=\d+/)
})

test('limits, bans and hosts that are to be what they are leave no row in the audit', async () => {
  const set = async (newSourcesPerDay: number) =>
    await operate(relay, 'updateSettings', { input: { newSourcesPerDay } })
  const audit = async () => (await operate(relay, 'listAudit')).body['audit']
  await set(7)
  const ban = async () =>
    await operate(relay, 'putDomainBan', { input: { domain: 'bad.test', reason: 'spam' } })
  await ban()
  const rows = await audit()
  assert.equal((await ban()).status, 200)
  const again = await set(7)
  assert.equal(again.status, 200)
  assert.equal((again.body['limits'] as { newSourcesPerDay: number }).newSourcesPerDay, 7) // as the lexicon says
  for (const [method, input] of [
    ['setHostStatus', { status: 'enabled' }],
    ['updateHost', { isTrusted: false }],
    ['addHost', {}],
  ] as const)
    assert.equal((await operate(relay, method, { input: { hostname: pds.host, ...input } })).status, 200)
  assert.deepEqual(await audit(), rows)
})
