import assert from 'node:assert/strict'
import { createECDH, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { eventually, ScriptedAccount, Signer, startScriptedHost } from '@tributary/testkit'
import { base58 } from './base58.ts'
import { FirehoseReader } from './firehose-reader.ts'
import { hostOf, operate, untilHost } from './operator-client.ts'
import { P256Signer } from './p256-signer.ts'
import { startTestRelay } from './start-test-relay.ts'

/** What a directory says of each DID: a real one writes documents in one form only. */
const documents = new Map<string, object>()
const directory = createServer(({ url = '' }, response) => {
  const document = documents.get(url.slice(1))
  response.writeHead(document ? 200 : 404).end(JSON.stringify(document ?? {}))
})
directory.listen(0, '127.0.0.1')
await once(directory, 'listening')
const { port } = directory.address() as AddressInfo // it listens on a port
const plcUrl = `http://127.0.0.1:${port}`
const host = await startScriptedHost({ plcUrl })
const second = await startScriptedHost({ plcUrl, address: '127.0.0.5' })
const relay = await startTestRelay({ plcUrl, sources: [host.host, second.host] })
after(async () => {
  await relay[Symbol.asyncDispose]()
  await host.stop()
  await second.stop()
  directory.closeAllConnections()
  directory.close()
})

interface Method {
  type: string
  publicKeyMultibase: string
}

function documentOf(did: string, method: Method, { home = host, handle = 'somebody.test' } = {}): object {
  const serviceEndpoint = home.url
  return {
    id: did,
    alsoKnownAs: [`at://${handle}`],
    verificationMethod: [{ id: `${did}#atproto`, controller: did, ...method }],
    service: [{ id: '#atproto_pds', type: 'AtprotoPersonalDataServer', serviceEndpoint }],
  }
}

const newPlcDid = (): string =>
  `did:plc:${Array.from(randomBytes(24), (byte) => 'abcdefghij'[byte % 10]).join('')}`
const multikeyOf = (signer: Signer): Method => ({
  type: 'Multikey',
  publicKeyMultibase: signer.did().slice('did:key:'.length),
})

function accountOf(did: string, signer: Signer, home = host): ScriptedAccount {
  const account = new ScriptedAccount(home, { did, handle: 'somebody.test', signer, rotationKey: signer })
  home.accounts.set(did, account)
  return account
}

function plcAccount(home = host): ScriptedAccount {
  const signer = new Signer(randomBytes(32))
  const did = newPlcDid()
  documents.set(did, documentOf(did, multikeyOf(signer), { home }))
  return accountOf(did, signer, home)
}

/** What an account writes passes, and what somebody else signed does not. */
async function assertIsVerified(account: ScriptedAccount): Promise<void> {
  using reader = new FirehoseReader(relay.url, 0)
  account.announce()
  account.create('org.impact.collection', { title: 'its own' })
  await reader.until(() => reader.opsOf(account.did).length === 1)
  const refused = await relay.refused('bad-signature')
  host.emitHostile('foreign-signature', account, plcAccount())
  await eventually(async () => (await relay.refused('bad-signature')) > refused)
  assert.equal(reader.opsOf(account.did).length, 1)
}

test('an account of did:web is verified by the document at its host', async () => {
  const did = `did:web:${encodeURIComponent(host.host)}`
  const signer = new Signer(randomBytes(32))
  host.answers.set('/.well-known/did.json', (_, response) =>
    response.writeHead(200).end(JSON.stringify(documentOf(did, multikeyOf(signer)))),
  )
  await assertIsVerified(accountOf(did, signer))
  assert.ok(host.requests.includes('/.well-known/did.json'))
})

test('an account whose key is P-256 is verified', async () => {
  const signer = new P256Signer()
  const did = newPlcDid()
  documents.set(did, documentOf(did, multikeyOf(signer)))
  await assertIsVerified(accountOf(did, signer))
})

test('documents in the old form, with the whole point of a key and its kind beside it, are read', async () => {
  const key = randomBytes(32)
  const k256 = createECDH('secp256k1')
  k256.setPrivateKey(key)
  const p256 = new P256Signer()
  for (const [signer, point, type] of [
    [new Signer(key), k256.getPublicKey(), 'EcdsaSecp256k1VerificationKey2019'],
    [p256, p256.publicKey, 'EcdsaSecp256r1VerificationKey2019'],
  ] as const) {
    const did = newPlcDid()
    documents.set(did, documentOf(did, { type, publicKeyMultibase: `z${base58(point)}` }))
    await assertIsVerified(accountOf(did, signer))
  }
})

test('a commit without prevData passes at a source that is lenient, and is refused at one that is not', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const change = { hostname: second.host, validation: 'lenient' }
  assert.equal((await operate(relay, 'updateHost', { input: change })).status, 200)
  const [strict, lenient] = [plcAccount(host), plcAccount(second)]
  for (const account of [strict, lenient]) {
    account.announce()
    account.create('org.impact.collection', { n: 1 })
    await reader.until(() => reader.opsOf(account.did).length === 1)
  }
  const refused = await relay.refused('missing-prev-data')
  host.emitHostile('missing-prev-data', strict, lenient)
  second.emitHostile('missing-prev-data', lenient, strict)
  await reader.until(() => reader.opsOf(lenient.did).length === 2)
  await eventually(async () => (await relay.refused('missing-prev-data')) === refused + 1)
  assert.equal(reader.opsOf(strict.did).length, 1)
  assert.deepEqual(
    [(await hostOf(relay, host.host))['rulesWaived'], (await hostOf(relay, second.host))['rulesWaived']],
    [0, 1],
  )
})

test('an account is asked for anew: what its host says, and what its document says', async () => {
  using reader = new FirehoseReader(relay.url, 0)
  const account = plcAccount()
  const { did } = account
  account.announce()
  account.create('org.impact.collection', { n: 1 })
  await reader.until(() => reader.opsOf(did).length === 1)
  const recheck = async () => (await operate(relay, 'recheckAccount', { input: { did } })).body
  host.answers.set('com.atproto.sync.getRepoStatus', (_, response) =>
    response.writeHead(200).end(JSON.stringify({ did, active: false, status: 'deactivated' })),
  )
  assert.deepEqual(await recheck(), { did, upstreamStatus: 'deactivated' })
  const told = () => reader.frames.findLast(({ t, body }) => t === '#account' && body['did'] === did)?.body
  await reader.until(() => told()?.['status'] === 'deactivated')
  host.answers.delete('com.atproto.sync.getRepoStatus')
  assert.deepEqual(await recheck(), { did, upstreamStatus: 'active' })
  await reader.until(() => told()?.['active'] === true)

  documents.set(did, documentOf(did, multikeyOf(account.signer), { handle: 'renamed.test' }))
  const { status, body } = await operate(relay, 'refreshIdentity', { input: { did } })
  const { fetchedAt, ...known } = body
  assert.deepEqual([status, known], [200, { did, hostname: host.host, handle: 'renamed.test' }])
  assert.ok(Date.parse(String(fetchedAt)) > 0)
})

test('a source that could not be reached is dialled at once when the operator asks for it', async () => {
  second.refuseWithStatus = 503
  for (const connection of second.connections) connection.terminate()
  await untilHost(relay, second.host, ({ lastError }) => lastError === 'answered with status 503')
  second.refuseWithStatus = undefined
  const answer = await operate(relay, 'reconnectHost', { input: { hostname: second.host } })
  assert.deepEqual(answer, { status: 200, body: { hostname: second.host } })
  await untilHost(relay, second.host, ({ state }) => state === 'connected')
})

test('crawl requests beyond the rate of an address are told when to come back', async () => {
  const crawl = async () =>
    await fetch(`${relay.url}/xrpc/com.atproto.sync.requestCrawl`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ hostname: host.host }),
    })
  for (let n = 0; n < 30; n++) assert.equal((await crawl()).status, 200)
  const over = await crawl()
  const { error } = (await over.json()) as { error: string } // an XRPC error
  assert.deepEqual([over.status, error], [429, 'RateLimitExceeded'])
  const seconds = Number(over.headers.get('retry-after'))
  assert.ok(seconds > 0 && seconds <= 60, String(seconds))
})
