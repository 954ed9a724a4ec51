/**
 * The feed as a process, called with tokens that a real PDS issued for accounts of a real PLC directory, and by the commands
 * of docs/feed.md.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { Secp256k1Keypair } from '@atproto/crypto'
import { childEnvironment, toEnvironment } from '@tributary/settings'
import {
  createDid,
  eventually,
  freePort,
  startNetwork,
  startProcess,
  type Account,
  type Network,
  type ServiceProcess,
} from '@tributary/testkit'
import { feedSettings } from '../src/settings.ts'
import { IndexFixture } from './index-fixture.ts'
import { did } from './sample.ts'
import { reply, request, type Reply } from './test-feed.ts'
import { getFeed, getFeedSkeleton, serviceDid } from './token-issuer.ts'

const main = join(import.meta.dirname, '..', 'src', 'main.ts')
const guide = join(import.meta.dirname, '..', '..', '..', 'docs', 'feed.md')
let network: Network
let directory: string

before(async () => {
  network = await startNetwork({ pds: 1 })
  directory = await mkdtemp(join(tmpdir(), 'feed-process-'))
})
after(async () => {
  await network.stop()
  await rm(directory, { recursive: true })
})

test('a token of a real PDS names the viewer, is taken once by all replicas, and stays spent over a kill', async () => {
  await using index = await IndexFixture.open(join(directory, 'index.sqlite'))
  const account = await network.createAccount()
  await index.follow(account.did as ReturnType<typeof did>, did('alice')) // a DID that a PLC directory gave
  const uri = await index.entry({ did: did('alice') })

  const first = await startFeedProcess()
  const token = await account.serviceAuth({ aud: serviceDid, lxm: getFeedSkeleton })
  const skeleton = await call(first, token, getFeedSkeleton)
  assert.deepEqual([skeleton.status, skeleton.body.feed], [200, [{ subject: uri }]])
  const page = await call(first, await account.serviceAuth({ aud: serviceDid, lxm: getFeed }), getFeed)
  assert.deepEqual([page.status, page.body.feed?.[0]?.subject], [200, uri])
  assert.equal((await call(first, await wrongAudience(account), getFeed)).status, 401)
  await using replica = await startFeedProcess()
  isRefused(await call(replica, token, getFeedSkeleton), 'NonceNotUnique')
  await first.kill('SIGKILL')

  await using second = await startFeedProcess()
  isRefused(await call(second, token, getFeedSkeleton), 'NonceNotUnique')
})

test('a token of a real PDS is refused for the other method, and after it has expired', async () => {
  await using _index = await IndexFixture.open(join(directory, 'index.sqlite'))
  await using feed = await startFeedProcess()
  const account = await network.createAccount()
  const token = await account.serviceAuth({ aud: serviceDid, lxm: getFeedSkeleton })
  isRefused(await call(feed, token, getFeed), 'BadJwtLexiconMethod')
  assert.equal((await call(feed, token, getFeedSkeleton)).status, 200)

  const exp = Math.floor(Date.now() / 1000) + 5
  const short = await account.serviceAuth({ aud: serviceDid, lxm: getFeed, exp })
  await eventually(async () => {
    const { headers } = await call(feed, short, getFeed)
    return headers.get('www-authenticate') === 'Bearer error="JwtExpired"'
  })
  assert.ok(Date.now() / 1000 >= exp)
})

function isRefused({ status, headers }: Reply, fault: string): void {
  assert.deepEqual([status, headers.get('www-authenticate')], [401, `Bearer error="${fault}"`])
}

test('the commands of the guide show the feed of a viewer, with and without a token, and through the host', async () => {
  const feedPort = await freePort()
  const url = `http://localhost:${feedPort}`
  const service = { impact_feed: { type: 'ImpactFeedService', endpoint: url } }
  const guideDid = await createDid(network.plcUrl, await Secp256k1Keypair.create(), {
    alsoKnownAs: [],
    verificationMethods: {},
    services: service,
  })
  const databasePath = join(directory, 'guide.sqlite')
  await using index = await IndexFixture.open(databasePath)
  const viewer = await network.createAccount()
  await index.follow(viewer.did as ReturnType<typeof did>, did('alice')) // a DID that a PLC directory gave
  const uri = await index.entry({ did: did('alice') })
  const settings = { port: feedPort, serviceDid: guideDid, databasePath, plcUrl: network.plcUrl }
  await using feed = await startProcess(main, { env: toEnvironment(feedSettings, settings) })

  const text = await readFile(guide, 'utf8')
  const blocks = Array.from(text.matchAll(/^```sh\n(.*?)^```/gms), ([, lines = '']) => lines)
  const variables = {
    FEED: feed.url,
    FEED_DID: guideDid,
    PDS: viewer.pds.url,
    HANDLE: viewer.handle,
    PASSWORD: viewer.password,
  }
  // One shell, since the commands use what those before them got.
  const script = blocks.join('echo\n').replaceAll('did:plc:…', viewer.did)
  const { stdout } = await promisify(execFile)('sh', ['-ec', script], {
    env: childEnvironment(variables),
  })
  const answers = stdout.split('\n').filter((line) => line !== '')
  assert.deepEqual(
    answers.map((answer) => [answer.slice(0, 9), answer.includes(uri)]),
    [
      ['{"feed":[', true],
      ['{"feed":[', true],
      ['{"feed":[', true],
    ],
    stdout,
  )
})

function startFeedProcess(): Promise<ServiceProcess> {
  return startProcess(main, {
    env: toEnvironment(feedSettings, {
      port: 0,
      serviceDid,
      databasePath: join(directory, 'index.sqlite'),
      plcUrl: network.plcUrl,
    }),
  })
}

async function call(service: ServiceProcess, token: string, method: string): Promise<Reply> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` }
  const body = JSON.stringify(request({}))
  return reply(await fetch(`${service.url}/xrpc/${method}`, { method: 'POST', headers, body }))
}

function wrongAudience(account: Account): Promise<string> {
  return account.serviceAuth({ aud: did('elsewhere'), lxm: getFeed })
}
