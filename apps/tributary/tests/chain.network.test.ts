/**
 * The whole chain as processes of their own, on three real PDSs, with every one of them killed in the middle of writes.
 * What each kind of reader got is compared with the journal of writes that the PDSs acknowledged, and with what they list.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { StreamEvent } from '@tributary/protocol'
import { decodeFrame } from '@tributary/protocol'
import { createStreamClient } from '@tributary/client/node'
import {
  eventually,
  freePort,
  sampleCollections,
  sampleRecord,
  sampleRkey,
  startNetwork,
  startProcess,
  type Account,
  type JournalEntry,
  type ServiceProcess,
} from '@tributary/testkit'
import { WebSocket } from 'ws'
import { sealArchive } from '../src/seal.ts'

const unwatched = ['com.example.first', 'com.example.second']
const apiKey = 'chain-test-key-0123456789'
const operatorToken = 'chain-test-operator-token-of-32-characters'
const feedDid = 'did:web:localhost'

type Name = 'relay' | 'stream' | 'index' | 'feed'

/** The four services on fixed ports and one folder, so that each can be killed and started again. */
async function prepareServices(network: Awaited<ReturnType<typeof startNetwork>>) {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-chain-'))
  const tokenFile = join(directory, 'operator-token')
  writeFileSync(tokenFile, operatorToken)
  const port = {
    relay: await freePort(),
    stream: await freePort(),
    index: await freePort(),
    feed: await freePort(),
  }
  const url = (name: Name) => `http://127.0.0.1:${port[name]}`
  const databasePath = join(directory, 'index.sqlite')
  const settings: Record<Name, Record<string, string>> = {
    relay: {
      DATA_DIRECTORY: join(directory, 'relay'),
      SOURCES: network.pds.map(({ host }) => host).join(','),
    },
    stream: {
      DATA_DIRECTORY: join(directory, 'stream'),
      RELAY_URL: url('relay').replace('http', 'ws'),
      COLLECTIONS: sampleCollections.join(','),
      API_KEYS: `test:${apiKey}`,
      OPERATOR_TOKEN: tokenFile,
    },
    index: { DATABASE_PATH: databasePath, STREAM_URL: url('stream'), API_KEY: apiKey },
    // The test asks again and again until everything is shown.
    feed: { DATABASE_PATH: databasePath, SERVICE_DID: feedDid, REQUESTS_PER_MINUTE: '0' },
  }
  const processes = new Map<Name, ServiceProcess>()
  const start = async (name: Name): Promise<void> => {
    const given = {
      PORT: String(port[name]),
      PLC_URL: network.plcUrl,
      ALLOWED_PRIVATE_HOSTS: 'localhost',
      LOG_LEVEL: 'warn',
      ...settings[name],
    }
    const env = Object.fromEntries(
      Object.entries(given).map(([key, value]) => [`TRIBUTARY_${name.toUpperCase()}_${key}`, value]),
    )
    processes.set(
      name,
      await startProcess(join(import.meta.dirname, '..', '..', name, 'src', 'main.ts'), { env }),
    )
  }
  return {
    url,
    start,
    async killAndStart(name: Name): Promise<void> {
      await processes.get(name)?.kill()
      await start(name)
    },
    async [Symbol.asyncDispose]() {
      for (const name of ['feed', 'index', 'stream', 'relay'] as const) await processes.get(name)?.stop()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** What one reader saw, as journal entries by account, and the seqs in the order in which they came. */
class Seen {
  readonly byDid = new Map<string, JournalEntry[]>()
  readonly seqs: number[] = []

  note(did: string, entry: JournalEntry): void {
    const entries = this.byDid.get(did) ?? []
    this.byDid.set(did, entries)
    entries.push(entry)
  }

  noteSeq(seq: number): void {
    assert.ok(seq > (this.seqs.at(-1) ?? 0), `seq ${seq} came after ${this.seqs.at(-1)}`)
    this.seqs.push(seq)
  }

  noteEvents(events: readonly StreamEvent[]): void {
    for (const event of events) {
      this.noteSeq(event.seq)
      if (event.kind !== 'commit') continue
      const { did, operation: action, collection, rkey, cid } = event
      this.note(did, { action, collection, rkey, ...(cid ? { cid } : {}) })
    }
  }
}

/** Reads the relay for as long as the signal lets it, resuming with its own cursor after every cut. */
async function followRelay(relayUrl: string, seen: Seen, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const cursor = seen.seqs.at(-1) ?? 0
    const socket = new WebSocket(
      `${relayUrl.replace('http', 'ws')}/xrpc/com.atproto.sync.subscribeRepos?cursor=${cursor}`,
    )
    const stop = (): void => socket.terminate()
    signal.addEventListener('abort', stop)
    socket.on('message', (data: Buffer) => {
      const { t, body } = decodeFrame(data)
      if (typeof body['seq'] === 'number') seen.noteSeq(body['seq'])
      if (t !== '#commit') return
      for (const { action, path, cid } of body['ops'] as {
        action: JournalEntry['action']
        path: string
        cid: { $link: string } | null
      }[]) {
        // as the lexicon has it
        const [collection = '', rkey = ''] = path.split('/')
        seen.note(String(body['repo']), { action, collection, rkey, ...(cid ? { cid: cid.$link } : {}) })
      }
    })
    await new Promise<void>((resolve) => {
      socket.on('error', () => {})
      socket.on('close', () => resolve())
    })
    signal.removeEventListener('abort', stop)
    await pause(50)
  }
}

async function followStream(streamUrl: string, seen: Seen, signal: AbortSignal): Promise<void> {
  const client = createStreamClient({ url: streamUrl, apiKey })
  for await (const { events } of client.replay({ signal })) seen.noteEvents(events)
}

/** Writes a record of every collection, changes it and deletes some of them. */
async function writeRound(account: Account, round: number): Promise<void> {
  for (const collection of [...sampleCollections, ...unwatched]) {
    const isSample = sampleCollections.includes(collection)
    const record = (): Record<string, unknown> =>
      isSample ? sampleRecord(collection) : { text: `round ${round}` }
    const self = sampleRkey(collection)
    if (self && round > 0) {
      await account.put(collection, self, record())
      continue
    }
    const rkey = self ?? `round${round}`
    await account.create(collection, record(), rkey)
    if (!self && round % 2 === 0) await account.put(collection, rkey, { ...record(), changed: true })
    if (!self && round % 3 === 2) await account.delete(collection, rkey)
  }
}

test(
  'every acknowledged write reaches every kind of reader once and in order, though each service is killed on the way',
  { timeout: 170_000 },
  async () => {
    await using network = await startNetwork({ pds: 3 })
    await using services = await prepareServices(network)
    for (const name of ['relay', 'stream', 'index', 'feed'] as const) await services.start(name)
    const accounts = await Promise.all([0, 1, 2].map((pds) => network.createAccount({ pds })))
    const stop = new AbortController()
    const relay = new Seen()
    const live = new Seen()
    const late = new Seen()
    const following = [
      followRelay(services.url('relay'), relay, stop.signal),
      followStream(services.url('stream'), live, stop.signal),
    ]

    const writing = Promise.all(
      accounts.map(async (account) => {
        for (let round = 0; round < 4; round++) await writeRound(account, round)
      }),
    )
    const acknowledged = () => accounts.reduce((sum, { journal }) => sum + journal.length, 0)
    for (const [i, name] of (['relay', 'stream', 'index', 'feed'] as const).entries()) {
      await eventually(() => acknowledged() >= 60 + i * 60, acknowledged)
      await services.killAndStart(name)
    }
    // What is sealed by now comes from the archive, what is written meanwhile and later comes live.
    await sealArchive(services.url('stream'), operatorToken)
    following.push(followStream(services.url('stream'), late, stop.signal))
    await writing

    const isWatched = ({ collection }: JournalEntry): boolean => !unwatched.includes(collection)
    const counts = (seen: Seen) => accounts.map(({ did }) => seen.byDid.get(did)?.length ?? 0)
    const expected = (wanted: (entry: JournalEntry) => boolean) =>
      accounts.map(({ journal }) => journal.filter(wanted).length)
    const isThere = (seen: Seen, wanted: (entry: JournalEntry) => boolean) =>
      counts(seen).every((count, i) => count >= (expected(wanted)[i] ?? 0))
    await eventually(
      () =>
        isThere(relay, () => true) &&
        isThere(live, isWatched) &&
        isThere(late, isWatched) &&
        // What is no write may come behind the last one.
        late.seqs.at(-1) === live.seqs.at(-1),
      () => ({
        lastSeqs: [live.seqs.at(-1), late.seqs.at(-1)],
        wanted: expected(() => true),
        watched: expected(isWatched),
        relay: counts(relay),
        live: counts(live),
        late: counts(late),
      }),
    )
    stop.abort()
    await Promise.all(following)

    assert.ok(acknowledged() > 300, 'several hundred writes')
    for (const { did, journal } of accounts) {
      assert.deepEqual(relay.byDid.get(did), journal, 'relay')
      assert.deepEqual(live.byDid.get(did), journal.filter(isWatched), 'stream, live')
      assert.deepEqual(late.byDid.get(did), journal.filter(isWatched), 'stream, archive then live')
    }
    assert.deepEqual(late.seqs, live.seqs)

    // What the feed shows of each account is what its PDS lists.
    const viewer = await network.createAccount({ pds: 0 })
    for (const { did } of accounts) {
      const record = sampleRecord('app.attested.graph.follow', { subject: did })
      await viewer.create('app.attested.graph.follow', record)
    }
    const entryCollections = [
      'org.impact.claim.activity',
      'org.impact.collection',
      'org.impact.context.evaluation',
      'org.impact.context.measurement',
      'org.impact.context.attachment',
      'org.hyperboards.board',
    ]
    const listed = (
      await Promise.all(
        accounts.flatMap(({ pds, did }) =>
          entryCollections.map((collection) => pds.listRecords(did, collection)),
        ),
      )
    ).flat()
    const wanted = listed.map(({ uri }) => uri).toSorted()
    let shown: string[] = []
    await eventually(
      async () => {
        shown = (await readFeed(services.url('feed'), viewer.did)).toSorted()
        return shown.length >= wanted.length
      },
      () => ({ wanted: wanted.length, missing: wanted.filter((uri) => !shown.includes(uri)) }),
    )
    assert.deepEqual(shown, wanted)
  },
)

/** Walks through a viewer's whole feed. */
async function readFeed(feedUrl: string, viewerDid: string): Promise<string[]> {
  const subjects: string[] = []
  for (let cursor: string | undefined; ;) {
    const response = await fetch(`${feedUrl}/xrpc/org.impact.feed.getFeedSkeleton`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        feedId: 'org.impact.feed.defs#impactFeed',
        params: { $type: 'org.impact.feed.defs#impactFeedParams', viewerDid },
        limit: 50,
        ...(cursor ? { cursor } : {}),
      }),
    })
    const page = (await response.json()) as { feed: { subject: string }[]; cursor?: string } // as the lexicon has it
    subjects.push(...page.feed.map(({ subject }) => subject))
    cursor = page.cursor
    if (!cursor) return subjects
  }
}
