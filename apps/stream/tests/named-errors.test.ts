/** Every error and notice that the lexicons of the stream name is provoked over the wire. One that is new has to be added. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { eventually, startPlc, startScriptedHost } from '@tributary/testkit'
import { EventReader, RefusedError, type EventQuery } from './event-reader.ts'
import { flipBit } from './flip-bit.ts'
import { startLiveArchive, type LiveArchive } from './live-archive.ts'
import { newRow, type RowWish } from './rows.ts'
import { apiKey, operate, startTestStream } from './start-test-stream.ts'

const lexicons = fileURLToPath(new URL('../../../lexicons/network', import.meta.url))
const [watched, unwatched] = ['org.impact.collection', 'org.hyperboards.board']
const nobody = 'did:plc:22222222222222222222222a'

interface Lexicon {
  id: string
  defs: Record<
    string,
    { errors?: { name: string }[]; properties?: { name?: { knownValues?: string[] } } } | undefined
  >
}

/** Lexicons of what a stream answers. Those of the relay's operators lie below `relay`. */
function streamLexicons(): Lexicon[] {
  return readdirSync(lexicons, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.json') && !name.includes('stream/relay/'))
    .map((name) => JSON.parse(readFileSync(join(lexicons, name), 'utf8')) as Lexicon) // our own files
}

/** `method error`, as the lexicons name them. */
function namedErrors(isOfSubscription: boolean): string[] {
  return streamLexicons()
    .filter(({ id }) => id.endsWith('.subscribeEvents') === isOfSubscription)
    .flatMap(({ id, defs }) => (defs['main']?.errors ?? []).map(({ name }) => `${shortOf(id)} ${name}`))
    .toSorted()
}

function shortOf(id: string): string {
  return id.replace('network.social.stream.admin.', '').replace('network.social.stream.', '')
}

test('every error that a method of archive or operators names is answered over the wire', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  host.answers.set('com.atproto.sync.listHosts', (_, response) => {
    const hosts = [{ hostname: host.host }]
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ hosts }))
  })
  // Its job does not end by itself.
  host.answers.set('com.atproto.sync.listRepos', (_, response) => void response.writeHead(503).end())
  const account = await host.createAccount()
  account.create(watched, {}, 'a')
  await using stream = await startTestStream({
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: plc.url,
    allowedPrivateHosts: ['localhost'],
    collections: [watched],
    backfill: 'on',
  })
  const jobs = async (): Promise<unknown[]> => (await operate(stream, 'listJobs')).body['jobs'] as unknown[] // by its lexicon
  await eventually(async () => (await jobs()).length === 1)
  await stream.seal()
  const found = new Set<string>()
  const ask = async (method: string, input?: object): Promise<unknown> => {
    const { body } = await operate(stream, method, input)
    const { error, message } = body as { error?: string; message?: string } // errors have one shape
    if (error === undefined) return undefined
    // A sentence, and what to do.
    assert.match(message ?? '', /^[^]{20,}$/, `${method} ${error}`)
    // Callers of commands do not know the names of methods.
    assert.doesNotMatch(message ?? '', /\b(list|retry|start)[A-Z]/, `${method} ${error}`)
    found.add(`${method.split('?', 1)[0]} ${error}`)
    return error
  }

  await ask('addCollection', { collection: watched })
  await ask('addCollection', { collection: unwatched, expectedRevision: 99 })
  await ask('removeCollection', { collection: unwatched })
  await ask('removeCollection', { collection: watched, expectedRevision: 99 })
  await ask('startBackfill', { hostname: 'pds.example.com' })
  await ask('startBackfill', { collection: unwatched })
  await ask(`getRepo?did=${nobody}`)
  assert.equal(await ask('refetchRepo', { did: nobody }), 'RepoNotFound')
  // An account that only the relay has may be read.
  assert.equal(
    await ask('refetchRepo', { did: (await host.createAccount({ announce: false })).did }),
    undefined,
  )
  const marked = async (): Promise<unknown> => {
    const url = `${stream.url}/xrpc/network.social.stream.getCoverage`
    return ((await (await fetch(url)).json()) as { markedRepositories: number }).markedRepositories // by its lexicon
  }
  await eventually(async () => (await marked()) === 0)
  host.answers.set('com.atproto.sync.getRepoStatus', (_, response) => void response.writeHead(503).end())
  assert.equal(await ask('refetchRepo', { did: nobody }), 'RelayUnavailable')
  assert.equal(await marked(), 0)
  await ask('listJobRepos?id=99')
  await ask('setJobState', { id: 99, state: 'paused' })
  await ask('retryJob', { id: 99 })
  assert.equal(await ask('setJobState', { id: 1, state: 'cancelled' }), undefined)
  await ask('setJobState', { id: 1, state: 'paused' })
  await ask('retryJob', { id: 1 })
  for (const method of ['revokeKey', 'rotateKey', 'updateKey']) await ask(method, { id: 99 })
  assert.equal(await ask('createKey', { owner: 'a reader' }), undefined)
  assert.equal(await ask('revokeKey', { id: 2 }), undefined)
  for (const method of ['rotateKey', 'updateKey']) await ask(method, { id: 2 })
  await ask('disconnectSubscriber', { id: 99 })
  // A file stands where the backups go.
  const backups = join(stream.dataDirectory, 'backups')
  writeFileSync(backups, '')
  await ask('backUp', { name: 'one' })
  rmSync(backups)
  await Promise.all(['one', 'two'].map((name) => ask('backUp', { name })))
  await ask('backUp', { name: 'one' })

  // A key of a request that asked for something else.
  const used = 'used'
  assert.equal(await ask('createKey', { owner: 'a', idempotencyKey: used }), undefined)
  const inputs: Record<string, object> = {
    addCollection: { collection: unwatched },
    removeCollection: { collection: watched },
    startBackfill: { hostname: host.host },
    setJobState: { id: 1, state: 'paused' },
    retryJob: { id: 1 },
    refetchRepo: { did: account.did },
    createKey: { owner: 'b' },
    rotateKey: { id: 1 },
    revokeKey: { id: 1 },
    updateKey: { id: 1 },
    disconnectSubscriber: { id: 1 },
    backUp: { name: 'four' },
    compact: {},
  }
  for (const [method, input] of Object.entries(inputs)) await ask(method, { ...input, idempotencyKey: used })

  for (const [prefix, name] of [
    ['', 'network.social.stream'],
    ['network.bsky.jetstream.', 'network.bsky.jetstream'],
  ] as const) {
    const download = async (path: string): Promise<void> => {
      const headers = { Authorization: `Bearer ${apiKey}` }
      const answer = await fetch(`${stream.url}/xrpc/${name}.${path}`, { headers })
      const { error } = (await answer.json()) as { error: string } // errors have one shape
      assert.equal(answer.status, 404)
      found.add(`${prefix}${path.split('?', 1)[0]} ${error}`)
    }
    await download('getSegment?name=seg_000000000z.jss')
    await download('getBlock?segment=seg_000000000z.jss&blockIndex=0')
    await download('getBlock?segment=seg_0000000000.jss&blockIndex=99')
    await download('getZstdDictionary?id=7')
  }
  assert.deepEqual([...found].toSorted(), namedErrors(false))
})

/** What a subscriber is answered: the error of the refusal, or the name of the first notice. */
async function answerOf({ url }: LiveArchive, query: EventQuery): Promise<string | undefined> {
  try {
    using reader = await EventReader.open(url, query)
    const nameOf = (): unknown => reader.messages.find(({ $type }) => $type.endsWith('#info'))?.['name']
    await reader.until(() => nameOf() !== undefined)
    return String(nameOf())
  } catch (error) {
    if (error instanceof RefusedError) return error.body.error
    throw error
  }
}

test('every error and notice that the subscription names comes over the wire', async () => {
  await using live = await startLiveArchive({ tailBytesMax: 1, lookBackMs: 3_600_000, progressMs: 10 })
  const append = async (wishes: readonly Partial<RowWish>[]): Promise<void> => {
    const before = live.delivery.headSeq
    live.append(wishes.map((wish, i) => newRow({ n: before + i + 1, ...wish })))
    await eventually(() => live.delivery.headSeq === before + wishes.length)
  }
  const old = { witnessedAt: 1_700_000_000_000_000 }
  const recent = { witnessedAt: (Date.now() - 60_000) * 1000 }
  for (const rows of [[old], [recent, recent], [recent]]) {
    await append(rows)
    await live.archive.seal()
  }
  const damaged = live.archive.segments.sealed[1] ?? assert.fail()
  flipBit(join(live.directory, 'segments', damaged.name), (damaged.blocks[0]?.offset ?? 0) + 8 + 20)
  const queries: Record<string, EventQuery> = {
    CursorTooOld: { cursor: 1 },
    UnknownZstdDictionary: { zstdDictionary: { id: 7, bytes: new Uint8Array(0) } },
    OutdatedCursor: { cursor: 1_600_000_000_000_000, kinds: ['sync'] },
    FutureCursor: { cursor: 1000 },
    UnreadableEvents: { cursor: 2 },
    UnwatchedCollections: { collections: ['org.nobody.watches'] },
    Progress: { cursor: 4, progress: true, kinds: ['sync'] },
  }
  for (const [name, query] of Object.entries(queries)) assert.equal(await answerOf(live, query), name)
  const notices = streamLexicons()
    .filter(({ id }) => id.endsWith('.subscribeEvents'))
    .flatMap(({ defs }) => defs['info']?.properties?.name?.knownValues ?? [])
  const named = namedErrors(true).map((each) => each.split(' ')[1] ?? '')
  // A consumer that is too slow needs megabytes that it does not take: `subscribers.test.ts`.
  assert.deepEqual(new Set([...Object.keys(queries), 'ConsumerTooSlow']), new Set([...named, ...notices]))
})
