/** The commands of docs/feed.md, run by a shell against a real PDS and the feed as a process. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempDisposable, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Secp256k1Keypair } from '@atproto/crypto'
import { childEnvironment, toEnvironment } from '@tributary/settings'
import { createDid, freePort, startNetwork, startProcess } from '@tributary/testkit'
import { feedSettings } from '../src/settings.ts'
import { IndexFixture } from './index-fixture.ts'
import { did } from './sample.ts'

const main = join(import.meta.dirname, '..', 'src', 'main.ts')
const guide = join(import.meta.dirname, '..', '..', '..', 'docs', 'feed.md')

test('the commands of the guide show the feed of a viewer, with and without a token, and through the host', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'feed-guide-'))
  await using network = await startNetwork({ pds: 1 })
  const feedPort = await freePort()
  const url = `http://localhost:${feedPort}`
  const service = { impact_feed: { type: 'ImpactFeedService', endpoint: url } }
  const serviceDid = await createDid(network.plcUrl, await Secp256k1Keypair.create(), {
    alsoKnownAs: [],
    verificationMethods: {},
    services: service,
  })
  const databasePath = join(directory.path, 'index.sqlite')
  await using index = await IndexFixture.open(databasePath)
  const viewer = await network.createAccount()
  await index.follow(viewer.did as ReturnType<typeof did>, did('alice')) // a DID that a PLC directory gave
  const uri = await index.entry({ did: did('alice') })
  const { plcUrl } = network
  const settings = { port: feedPort, serviceDid, databasePath, plcUrl }
  await using feed = await startProcess(main, { env: toEnvironment(feedSettings, settings) })

  const text = await readFile(guide, 'utf8')
  const blocks = Array.from(text.matchAll(/^```sh\n(.*?)^```/gms), ([, lines = '']) => lines)
  const variables = {
    FEED: feed.url,
    FEED_DID: serviceDid,
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
