/**
 * The index as a process behind a real relay and stream, on a network of real PDSs: what accounts wrote, and nothing
 * else, is in the database, also when the index is killed in the middle.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import Sqlite from 'better-sqlite3'
import { indexedCollections } from '@tributary/protocol'
import { toEnvironment } from '@tributary/settings'
import {
  type Account,
  eventually,
  Labeler,
  type Network,
  sampleCollections,
  sampleRecord,
  sampleRkey,
  type ServiceProcess,
  startNetwork,
  startProcess,
} from '@tributary/testkit'
import { indexSettings } from '../src/settings.ts'

const isIndexed = (collection: string): boolean =>
  indexedCollections.some((indexed) => indexed === collection)
const evaluation = 'org.impact.context.evaluation'
const apiKey = 'network-test-key-0123456789'
let network: Network
let directory: string
let relay: ServiceProcess
let stream: ServiceProcess

before(async () => {
  network = await startNetwork({ pds: 2, labeler: true })
  directory = await mkdtemp(join(tmpdir(), 'index-network-'))
  relay = await startService('relay', {
    PLC_URL: network.plcUrl,
    DATA_DIRECTORY: join(directory, 'relay'),
    SOURCES: network.pds.map(({ host }) => host).join(','),
  })
  stream = await startService('stream', {
    PLC_URL: network.plcUrl,
    DATA_DIRECTORY: join(directory, 'stream'),
    RELAY_URL: relay.url.replace('http', 'ws'),
    COLLECTIONS: sampleCollections.join(','),
    API_KEYS: `index:${apiKey}`,
  })
})
after(async () => {
  await stream?.stop()
  await relay?.stop()
  await network?.stop()
  await rm(directory, { recursive: true, force: true })
})

/** Another program of ours, known by its settings only. */
function startService(name: 'relay' | 'stream', settings: Record<string, string>): Promise<ServiceProcess> {
  const given = { PORT: '0', ALLOWED_PRIVATE_HOSTS: 'localhost,127.0.0.1', LOG_LEVEL: 'warn', ...settings }
  const prefix = `TRIBUTARY_${name.toUpperCase()}_`
  const env = Object.fromEntries(Object.entries(given).map(([key, value]) => [`${prefix}${key}`, value]))
  return startProcess(join(import.meta.dirname, '..', '..', name, 'src', 'main.ts'), { env })
}

function startIndexProcess(databasePath: string, key = apiKey): Promise<ServiceProcess> {
  return startProcess(join(import.meta.dirname, '..', 'src', 'main.ts'), {
    env: toEnvironment(indexSettings, {
      port: 0,
      databasePath,
      streamUrl: stream.url,
      apiKey: key,
      labelers: [network.labeler.did],
      plcUrl: network.plcUrl,
      handleHosts: network.pds.map(({ handleDomain, url }) => `${handleDomain.slice(1)}=${url}`),
      allowedPrivateHosts: ['localhost'],
      logLevel: 'warn',
    }),
  })
}

function startFeedProcess(databasePath: string): Promise<ServiceProcess> {
  const settings = {
    PORT: '0',
    DATABASE_PATH: databasePath,
    SERVICE_DID: 'did:web:feed.example',
    LABELERS: network.labeler.did,
    REQUESTS_PER_MINUTE: '0',
    PLC_URL: network.plcUrl,
    LOG_LEVEL: 'warn',
  }
  const env = Object.entries(settings).map(([key, value]) => [`TRIBUTARY_FEED_${key}`, value])
  return startProcess(join(import.meta.dirname, '..', '..', 'feed', 'src', 'main.ts'), {
    env: Object.fromEntries(env) as Record<string, string>, // pairs of text
  })
}

/** The addresses on a viewer's first page, of organizations of this quality where one is named. */
async function pageOf(feed: ServiceProcess, viewer: Account, quality?: string): Promise<string[]> {
  const response = await fetch(`${feed.url}/xrpc/org.impact.feed.getFeedSkeleton`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      feedId: 'org.impact.feed.defs#impactFeed',
      params: {
        $type: 'org.impact.feed.defs#impactFeedParams',
        viewerDid: viewer.did,
        trustedEvaluators: [],
        kinds: [],
        ...(quality && { organizationQuality: [quality] }),
      },
    }),
  })
  const page = (await response.json()) as { feed: { subject: string }[] } // as the lexicon says
  assert.equal(response.status, 200, JSON.stringify(page))
  return page.feed.map(({ subject }) => subject)
}

/** The database as the feed sees it. */
class Reading implements Disposable {
  readonly sqlite: Sqlite.Database

  constructor(databasePath: string) {
    this.sqlite = new Sqlite(databasePath, { readonly: true })
  }

  rows(query: string, ...values: string[]): string[] {
    return this.sqlite
      .prepare<string[], unknown[]>(query)
      .raw()
      .all(...values)
      .map(String)
  }

  /** Looks until the condition holds, and not for ever. */
  async until(condition: () => boolean): Promise<void> {
    await eventually(condition, () => this.#seen())
  }

  #seen(): Record<string, string[]> {
    return {
      cursors: this.rows('select source, cursor from cursors'),
      accounts: this.rows('select did, status, statusSeq, hostStatus, hidden from accounts'),
      handles: this.rows('select did, handle from handles'),
      handleRequests: this.rows('select did, seq, attempts, dueAt from handleRequests'),
      labels: this.rows('select src, did, val from labels'),
      counts: [...this.rows('select count(*) from records'), ...this.rows('select count(*) from entries')],
    }
  }

  [Symbol.dispose](): void {
    this.sqlite.close()
  }
}

/** What the accounts' PDSs hold of what a feed is made of, as the index must hold it. */
async function heldBy(accounts: readonly Account[]): Promise<string[]> {
  const held: string[] = []
  for (const account of accounts) {
    for (const collection of await account.pds.listCollections(account.did)) {
      if (!isIndexed(collection)) continue
      for (const { uri, cid } of await account.pds.listRecords(account.did, collection))
        held.push(`${uri},${cid}`)
    }
  }
  return held.toSorted()
}

test('records of all collections that a feed is made of arrive complete while the index is killed', async () => {
  const databasePath = join(directory, 'killed', 'index.sqlite')
  const accounts = [await network.createAccount({ pds: 0 }), await network.createAccount({ pds: 1 })]
  let index = await startIndexProcess(databasePath)
  using reading = new Reading(databasePath)
  const stored = () => reading.rows('select uri, cid from records order by uri')

  const write = async (round: number): Promise<void> => {
    for (const account of accounts) {
      for (const collection of sampleCollections) {
        const rkey = sampleRkey(collection)
        const record = sampleRecord(collection, { createdAt: new Date(1.8e12 + round).toISOString() })
        if (rkey !== undefined && round > 0) await account.put(collection, rkey, record)
        else await account.create(collection, record, rkey)
      }
      const { uri } = await account.create(evaluation, sampleRecord(evaluation), `gone${round}`)
      await account.delete(evaluation, uri.split('/').at(-1) ?? '')
    }
  }
  await write(0)
  await reading.until(() => stored().length >= 10)
  await index.kill('SIGKILL')
  await write(1)
  index = await startIndexProcess(databasePath)

  const expected = await heldBy(accounts)
  await reading.until(() => stored().join() === expected.join())
  assert.equal(new Set(expected.map((row) => row.split('/')[3])).size, indexedCollections.length)
  const handles = accounts.map(({ did, handle }) => `${did},${handle}`).toSorted()
  await reading.until(
    () => reading.rows('select did, handle from handles order by did').join() === handles.join(),
  )
  await index.stop()
})

test('accounts that leave take their rows along, labels and new handles arrive', async () => {
  const databasePath = join(directory, 'leaving', 'index.sqlite')
  const [resting, leaving, renamed] = await Promise.all(
    [0, 1, 0].map((pds) => network.createAccount({ pds })),
  )
  assert.ok(resting && leaving && renamed)
  await using index = await startIndexProcess(databasePath)
  using reading = new Reading(databasePath)
  const entriesOf = ({ did }: Account) => reading.rows('select uri from entries where did = ?', did).length
  const recordsOf = ({ did }: Account) => reading.rows('select uri from records where did = ?', did).length
  for (const account of [resting, leaving, renamed])
    await account.create(evaluation, sampleRecord(evaluation))
  await reading.until(() => [resting, leaving, renamed].every((account) => entriesOf(account) === 1))

  await resting.deactivate()
  await reading.until(() => entriesOf(resting) === 0)
  assert.equal(recordsOf(resting), 1)
  await resting.activate()
  await resting.create(evaluation, sampleRecord(evaluation))
  await reading.until(() => entriesOf(resting) === 2)

  await leaving.deleteAccount()
  await reading.until(() => recordsOf(leaving) === 0)
  assert.equal(entriesOf(leaving), 0)

  const handle = () => reading.rows('select handle from handles where did = ?', renamed.did)[0]
  await reading.until(() => handle() === renamed.handle)
  const name = `renamed${renamed.handle.slice(renamed.handle.indexOf('.'))}`
  await renamed.updateHandle(name)
  await reading.until(() => handle() === name)

  await network.labeler.label(renamed.did, 'standard')
  const labels = () => reading.rows('select src, did, val from labels')
  await reading.until(() => labels().length === 1)
  assert.deepEqual(labels(), [`${network.labeler.did},${renamed.did},standard`])

  const ready = await fetch(`${index.url}/ready`)
  assert.equal(ready.status, 200)
  const metrics = await (await fetch(`${index.url}/metrics`)).text()
  assert.match(metrics, /index_labelers_connected\{.*\} 1/)
})

test('labels of a real labeler change the next page, and forged ones do not', async () => {
  const databasePath = join(directory, 'labelled', 'index.sqlite')
  await using index = await startIndexProcess(databasePath)
  await using feed = await startFeedProcess(databasePath)
  const [viewer, organization] = [await network.createAccount(), await network.createAccount({ pds: 1 })]
  const of = 'app.attested.actor.organization'
  await organization.create(of, sampleRecord(of), 'self')
  const { uri } = await organization.create(evaluation, sampleRecord(evaluation))
  const follow = 'app.attested.graph.follow'
  await viewer.create(follow, { ...sampleRecord(follow), subject: organization.did })
  const { labeler } = network
  const shows = async (quality: string, expected: string[]): Promise<void> => {
    const page = () => pageOf(feed, viewer, quality)
    await eventually(async () => (await page()).join() === expected.join(), page)
  }
  await eventually(async () => (await pageOf(feed, viewer)).join() === uri)
  await shows('standard', [])

  await labeler.label(organization.did, 'standard')
  await shows('standard', [uri])
  await labeler.label(organization.did, 'standard', { neg: true })
  await shows('standard', [])
  // Longer than a label takes to a page, or this waits in vain for what has ended already.
  await labeler.label(organization.did, 'standard', { exp: new Date(Date.now() + 6000).toISOString() })
  await shows('standard', [uri])
  await shows('standard', [])

  // Somebody else answers at the labeler's address, on its own data, with another key.
  await labeler.stop()
  const port = Number(new URL(labeler.url).port)
  const databaseOfLabeler = join(network.directory, `labeler-${port}.sqlite`)
  const another = { did: labeler.did, port, databasePath: databaseOfLabeler, signingKeyHex: '7'.repeat(64) }
  await using forger = new Labeler(another)
  await forger.start()
  await forger.label(organization.did, 'high-quality')
  const metrics = async (): Promise<string> => (await fetch(`${index.url}/metrics`)).text()
  await eventually(
    async () => /^index_labels_total\{[^}]*result="bad-signature"[^}]*\} 1$/m.test(await metrics()),
    metrics,
  )
  await forger.stop()
  await labeler.start()
  await labeler.label(organization.did, 'draft')
  await shows('draft', [uri])
  await shows('high-quality', [])
})

test('a refused archive key leaves the index running, and it says what to do', async () => {
  await using index = await startIndexProcess(join(directory, 'refused', 'index.sqlite'), 'another-key')
  const reason = async (): Promise<string> => {
    const answer = (await (await fetch(`${index.url}/ready`)).json()) as { reason?: string } // of status-server.ts
    return answer.reason ?? ''
  }
  const advice = 'Set an API key that the operator of the stream has given out'
  await eventually(async () => (await reason()).includes(advice), reason)
  assert.equal((await fetch(`${index.url}/ready`)).status, 503)
  assert.equal((await fetch(`${index.url}/_health`)).status, 200)
})
