import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { after, afterEach, test } from 'node:test'
import { createResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { inTime, startPlc, startScriptedHost, type ScriptedAccount } from '@tributary/testkit'
import { systemClock } from '../src/clock.ts'
import { HostInquiry, NoAnswerError } from '../src/inquiry/host-inquiry.ts'

const plc = await startPlc()
const host = await startScriptedHost({ plcUrl: plc.url })
const other = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.5' })
const allowedPrivateHosts = [host.host, other.host]
const resolver = createResolver({ plcUrl: plc.url, allowedPrivateHosts })
afterEach(() => host.answers.clear())
after(async () => {
  await host.stop()
  await other.stop()
  await plc.stop()
})

/** A new account, and questions about it that nothing has slowed down yet. */
async function asking(home = host) {
  const account = await home.createAccount({ announce: false })
  const did = account.did as Did // of a real directory
  const inquiry = new HostInquiry({ resolver, allowedPrivateHosts, userAgent: 'test', clock: systemClock })
  return {
    account,
    status: async () => await inquiry.status(did),
    commit: async () => await inquiry.currentCommit(await inquiry.locate(did)),
  }
}

function answer(method: string, write: (response: ServerResponse) => void): void {
  host.answers.set(`com.atproto.sync.${method}`, (_, response) => write(response))
}

const carOf = async ({ did }: ScriptedAccount, home = host): Promise<Buffer> =>
  Buffer.from(await (await fetch(`${home.url}/xrpc/com.atproto.sync.getRepo?did=${did}`)).arrayBuffer())

test('a status that names another account, or is no JSON object of known form and size, is no answer', async () => {
  const { account, status } = await asking()
  const { did } = account
  const deep = '['.repeat(8000)
  const bodies: [code: number, body: string | Buffer][] = [
    [200, JSON.stringify({ did: 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa', active: true })],
    [200, JSON.stringify({ did: [did], active: true })],
    [200, JSON.stringify({ did, active: 'true' })],
    [200, JSON.stringify({ did, active: true, padding: 'x'.repeat(17_000) })],
    [200, Buffer.concat([Buffer.from(`{"active":true,"status":"`), Buffer.from([0xff]), Buffer.from('"}')])],
    [200, deep],
    [200, `{"active":true,"x":${deep}`],
    [200, 'null'],
    [200, ''],
    [400, '{"error":"constructor"}'],
    [400, '{"error":"__proto__"}'],
    [400, '{"error":{"toString":1}}'],
    [503, '{"error":"RepoNotFound"}'],
  ]
  for (const [code, body] of bodies) {
    answer('getRepoStatus', (response) => response.writeHead(code).end(body))
    assert.equal(await status(), undefined, String(body).slice(0, 80))
  }
  answer('getRepoStatus', (response) => response.writeHead(400).end('{"error":"RepoNotFound"}'))
  assert.equal(await status(), 'deleted')
  answer('getRepoStatus', (response) => response.end('{"active":false,"status":"constructor"}'))
  assert.equal(await status(), 'constructor')
  answer('getRepoStatus', (response) => response.end(`{"active":false,"status":"${'x'.repeat(65)}"}`))
  assert.equal(await status(), 'inactive')
})

test('only the host that the document names is heard: redirects are not followed', async () => {
  const { account, status, commit } = await asking()
  other.accounts.set(account.did, account)
  for (const method of ['getRepoStatus', 'getRecord', 'getRepo'])
    host.answers.set(`com.atproto.sync.${method}`, ({ url }, response) =>
      response.writeHead(302, { location: `${other.url}${url}` }).end(),
    )
  const before = other.requests.length
  assert.equal(await status(), undefined)
  await assert.rejects(commit(), NoAnswerError)
  assert.equal(other.requests.length, before)
  host.answers.clear()
  assert.equal((await commit())?.rev, account.rev)
})

test('a commit of another account, of another key, of the future, or that is not there, is none', async () => {
  const { account, commit } = await asking()
  const second = await host.createAccount({ announce: false })
  const good = await carOf(account)
  const seconds = await carOf(second)
  account.commit([], '7zzzzzzzzzzzz')
  const future = await carOf(account)
  for (const car of [seconds, future, good.subarray(0, 60), Buffer.alloc(0), Buffer.from('no CAR')]) {
    answer('getRecord', (response) => response.end(car))
    answer('getRepo', (response) => response.end(car))
    assert.equal(await commit(), undefined)
  }
  answer('getRecord', (response) => response.end(good))
  assert.ok(await commit())
  await account.rotateKey()
  resolver.purge(account.did as Did) // of a real directory
  assert.equal(await commit(), undefined)
})

test('a repository is read as far as its commit, and no further', async () => {
  const { account, commit } = await asking()
  const car = await carOf(account)
  const ended = Promise.withResolvers<void>()
  answer('getRepo', (response) => {
    response.write(car)
    // A block of which there is always more.
    response.write(Buffer.from([0xff, 0xff, 0xff, 0x7f]))
    const more = Buffer.alloc(65_536)
    const write = (): void => {
      while (!response.destroyed && response.write(more));
    }
    response.on('drain', write)
    void once(response, 'close').then(() => ended.resolve())
    write()
  })
  assert.equal((await inTime(commit()))?.rev, account.rev)
  await inTime(ended.promise)
})

test('a host that is away is told from one that gives no commit', async () => {
  const { commit } = await asking()
  for (const code of [429, 502, 503, 504]) {
    answer('getRecord', (response) => response.writeHead(code).end())
    await assert.rejects(commit(), { name: 'NoAnswerError', isHostSilent: true })
  }
  answer('getRecord', (response) => response.writeHead(500).end())
  answer('getRepo', (response) => response.writeHead(400).end('{"error":"RepoDeactivated"}'))
  assert.equal(await commit(), undefined)
  answer('getRecord', (response) => response.destroy())
  await assert.rejects(commit(), { isHostSilent: true })
})
