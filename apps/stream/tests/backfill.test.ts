/** Repositories are read as a whole where events do not bring everything, as subscribers and operators see it. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  encodeCar,
  eventually,
  type Plc,
  type ScriptedAccount,
  type ScriptedHost,
  startPlc,
  startScriptedHost,
} from '@tributary/testkit'
import { rereadsPerDay } from '../src/backfill/repo-fill.ts'
import type { StreamSettings } from '../src/index.ts'
import { openStateDatabase } from '../src/state-database.ts'
import { EventReader, type StreamMessage } from './event-reader.ts'
import { startSlowPlc } from './slow-plc.ts'
import { operate, startTestStream, type TestStream } from './start-test-stream.ts'

const [first, second] = ['org.impact.collection', 'org.hyperboards.board']

/** A host that is also the relay which lists it. */
async function startHost(plc: Plc): Promise<ScriptedHost> {
  const host = await startScriptedHost({ plcUrl: plc.url })
  host.answers.set('com.atproto.sync.listHosts', (_, response) => {
    const hosts = [{ hostname: host.host }]
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ hosts }))
  })
  return host
}

function streamOf(host: ScriptedHost, settings: Partial<StreamSettings> = {}): Promise<TestStream> {
  return startTestStream({
    relayUrl: host.url.replace('http', 'ws'),
    plcUrl: host.plcUrl,
    allowedPrivateHosts: ['localhost'],
    collections: [first],
    backfill: 'on',
    backfillSettleSeconds: 0,
    backfillRequestsPerSecond: 1000,
    ...settings,
  })
}

/** `create a/b` for commits of an account, the kind for others. */
async function rowsOf({ url }: TestStream, { did }: ScriptedAccount, count: number): Promise<string[]> {
  using reader = await EventReader.open(url, { cursor: 0, dids: [did] })
  await reader.until(() => reader.messages.length >= count)
  return reader.messages.map(briefly)
}

function briefly({ $type, operation, collection, rkey, sync }: StreamMessage): string {
  const kind = $type.split('#')[1] ?? ''
  if (kind === 'commit') return `${String(operation)} ${String(collection)}/${String(rkey)}`
  return kind === 'sync' && (sync as { seq: number }).seq === 0 ? 'marker' : kind // by its lexicon
}

interface Coverage {
  relayError?: string
  hosts: { hostname: string; collections: { collection: string; status: string; reason?: string }[] }[]
}

async function coverageOf({ url }: TestStream): Promise<Coverage> {
  return (await (await fetch(`${url}/xrpc/network.social.stream.getCoverage`)).json()) as Coverage // by its lexicon
}

async function untilComplete(stream: TestStream, ...collections: string[]): Promise<void> {
  const isComplete = async (): Promise<boolean> => {
    const { hosts } = await coverageOf(stream)
    const [host] = hosts
    return collections.every(
      (name) => host?.collections.find(({ collection }) => collection === name)?.status === 'complete',
    )
  }
  await eventually(isComplete, async () => [
    await coverageOf(stream),
    (await operate(stream, 'listJobs')).body,
  ])
}

/** A stream whose first backfill, of a host without accounts, is over: what comes later is live. */
async function startedStream(host: ScriptedHost): Promise<TestStream> {
  const stream = await streamOf(host)
  await untilComplete(stream, first)
  return stream
}

/** Lets the host list its repositories only after `release`. `asked` settles when it is asked to. */
function holdListing(host: ScriptedHost): { asked: Promise<void>; release: () => void } {
  const [held, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  host.answers.set('com.atproto.sync.listRepos', (request, response) => {
    asked.resolve()
    void held.promise.then(async () => {
      const answer = await fetch(`${host.url}${request.url ?? ''}`)
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text())
    })
  })
  return {
    asked: asked.promise,
    release: () => {
      host.answers.delete('com.atproto.sync.listRepos')
      held.resolve()
    },
  }
}

test('an account that no event has brought is archived as creates, and one that came from its first commit is not read', async () => {
  await using plc = await startPlc()
  await using host = await startHost(plc)
  const [known, unknown] = [await host.createAccount(), await host.createAccount({ announce: false })]
  known.create(first, {}, 'k')
  unknown.commit([
    { action: 'create', collection: first, rkey: 'a', record: {} },
    { action: 'create', collection: second, rkey: 'b', record: {} },
    { action: 'create', collection: first, rkey: 'c', record: {} },
  ])
  const listing = holdListing(host)
  await using stream = await streamOf(host)
  await listing.asked
  await rowsOf(stream, known, 4)
  listing.release()
  await untilComplete(stream, first)
  assert.deepEqual(await rowsOf(stream, unknown, 2), [`create ${first}/a`, `create ${first}/c`])
  assert.deepEqual(await rowsOf(stream, known, 4), ['identity', 'account', 'sync', `create ${first}/k`])
  assert.deepEqual(
    host.requests.filter((path) => path.includes('getRepo?')).map((path) => path.split('did=')[1]),
    [encodeURIComponent(unknown.did)],
  )
  // Live events go on after what was read.
  unknown.create(first, {}, 'd')
  assert.deepEqual((await rowsOf(stream, unknown, 3)).at(-1), `create ${first}/d`)
  assert.equal(await stream.metric('stream_gaps_total'), 0)
})

test('an added collection brings every earlier record once, and none that live events brought since', async () => {
  await using plc = await startPlc()
  await using host = await startHost(plc)
  await using stream = await startedStream(host)
  const account = await host.createAccount()
  for (const rkey of ['a', 'b', 'c', 'd']) account.create(second, { n: 1 }, rkey)
  account.create(first, {}, 'x')
  await rowsOf(stream, account, 4)
  const listing = holdListing(host)
  assert.equal((await operate(stream, 'addCollection', { collection: second })).status, 200)
  await listing.asked
  account.update(second, 'b', { n: 2 })
  account.delete(second, 'c')
  account.create(second, {}, 'e')
  const live = [`update ${second}/b`, `delete ${second}/c`, `create ${second}/e`]
  await rowsOf(stream, account, 7)
  listing.release()
  await untilComplete(stream, first, second)
  assert.deepEqual((await rowsOf(stream, account, 9)).slice(4), [
    ...live,
    `create ${second}/a`,
    `create ${second}/d`,
  ])
})

test('a commit that does not continue what is stored has its repository read again after a marker', async () => {
  await using plc = await startPlc()
  await using host = await startHost(plc)
  await using stream = await startedStream(host)
  const account = await host.createAccount()
  account.create(first, {}, 'a')
  await rowsOf(stream, account, 4)
  account.commit([{ action: 'create', collection: first, rkey: 'lost', record: {} }])
  account.create(first, {}, 'c')
  assert.deepEqual((await rowsOf(stream, account, 9)).slice(4), [
    `create ${first}/c`,
    'marker',
    ...['a', 'c', 'lost'].map((rkey) => `create ${first}/${rkey}`),
  ])
  await eventually(async () => (await operate(stream, 'getRepo?did=' + account.did)).body['isWhole'] === true)
  const { body } = await operate(stream, 'refetchRepo', { did: account.did })
  assert.deepEqual(body, { did: account.did })
  await rowsOf(stream, account, 13)
})

test('a PDS with a marked repository that was read so often today is unknown until it is read again', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'backfill-'))
  await using plc = await startPlc()
  await using host = await startHost(plc)
  const account = await host.createAccount()
  account.create(second, {}, 'a')
  account.create(first, {}, 'b')
  const settings = { dataDirectory: directory.path }
  const change = (sql: string): void => {
    const database = openStateDatabase(join(directory.path, 'state.sqlite'))
    database.exec(sql)
    database.close()
  }
  {
    await using stream = await streamOf(host, settings)
    await untilComplete(stream, first)
    await rowsOf(stream, account, 4)
  }
  change(`UPDATE repos SET needs_refetch = 1;
    INSERT INTO rereads SELECT did, ${rereadsPerDay}, ${Date.now()} FROM repos`)
  {
    await using stream = await streamOf(host, settings)
    await operate(stream, 'addCollection', { collection: second })
    const statuses = async (): Promise<unknown> => {
      const [of] = (await coverageOf(stream)).hosts
      return of?.collections.map(({ collection, status }) => `${collection} ${status}`)
    }
    const jobs = async (): Promise<string> =>
      JSON.stringify((await operate(stream, 'listJobRepos?id=2')).body)
    await eventually(async () => (await jobs()).includes('times within a day'), jobs)
    assert.match(await jobs(), /"state":"pending"/)
    assert.deepEqual(await statuses(), [`${second} unknown`, `${first} complete`])
  }
  change('DELETE FROM rereads; UPDATE backfill_repos SET next_at_ms = 0')
  await using stream = await streamOf(host, settings)
  await untilComplete(stream, first, second)
  assert.deepEqual((await rowsOf(stream, account, 7)).slice(4), [
    'marker',
    `create ${second}/a`,
    `create ${first}/b`,
  ])
})

test('a PDS that is away is unknown, and is read when it is back', async () => {
  await using plc = await startPlc()
  await using relay = await startScriptedHost({ plcUrl: plc.url })
  await using host = await startScriptedHost({ plcUrl: plc.url, address: '127.0.0.9' })
  relay.answers.set('com.atproto.sync.listHosts', (_, response) => {
    const hosts = [{ hostname: host.host }]
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ hosts }))
  })
  const account = await host.createAccount({ announce: false })
  account.commit([{ action: 'create', collection: first, rkey: 'a', record: {} }])
  await host.stop()
  await using stream = await streamOf(relay, { allowedPrivateHosts: ['127.0.0.9'] })
  const reason = async (): Promise<string> =>
    (await coverageOf(stream)).hosts[0]?.collections[0]?.reason ?? ''
  await eventually(async () => (await reason()).startsWith('the PDS does not answer'), reason)
  await host.start()
  await untilComplete(stream, first)
  assert.deepEqual(await rowsOf(stream, account, 1), [`create ${first}/a`])
})

test('a host that wants to be left alone is asked again when it said, and not before, for no account', async () => {
  await using plc = await startPlc()
  await using host = await startHost(plc)
  const accounts: ScriptedAccount[] = []
  for (let n = 0; n < 4; n++) accounts.push(await host.createAccount({ announce: false }))
  for (const account of accounts)
    account.commit([{ action: 'create', collection: first, rkey: 'a', record: {} }])
  const askedAtMs: number[] = []
  // Two repositories of a host are asked for at a time.
  host.answers.set('com.atproto.sync.getRepo', (request, response) => {
    askedAtMs.push(Date.now())
    if (askedAtMs.length <= 2) return void response.writeHead(429, { 'retry-after': '2' }).end()
    const did = new URL(request.url ?? '', host.url).searchParams.get('did')
    const account = accounts.find((each) => each.did === did)
    response.writeHead(200).end(account && encodeCar(account.head.cid, account.blocks()))
  })
  await using stream = await streamOf(host)
  await untilComplete(stream, first)
  for (const account of accounts) assert.deepEqual(await rowsOf(stream, account, 1), [`create ${first}/a`])
  const [one = 0, , three = 0] = askedAtMs
  assert.ok(three - one >= 2000, `asked again after ${three - one} ms`)
})

test('what a host gives and cannot be used is failed, what nobody has is unavailable, and both can be tried again', async () => {
  await using plc = await startPlc()
  await using host = await startHost(plc)
  const [forged, gone] = [
    await host.createAccount({ announce: false }),
    await host.createAccount({ announce: false }),
  ]
  for (const account of [forged, gone])
    account.commit([{ action: 'create', collection: first, rkey: 'a', record: {} }])
  host.answers.set('com.atproto.sync.getRepo', (request, response) => {
    if (request.url?.includes(encodeURIComponent(gone.did)))
      response.writeHead(400).end(JSON.stringify({ error: 'RepoDeactivated', message: '' }))
    else response.writeHead(200).end('no CAR')
  })
  await using stream = await streamOf(host)
  const counts = async (): Promise<unknown> => {
    const { jobs } = (await operate(stream, 'listJobs')).body as { jobs: Record<string, unknown>[] } // by its lexicon
    return jobs.map(({ id, state, failed, unavailable }) => ({ id, state, failed, unavailable }))
  }
  await eventually(async () => JSON.stringify(await counts()).includes('"state":"done"'), counts)
  assert.deepEqual(await counts(), [{ id: 1, state: 'done', failed: 1, unavailable: 1 }])
  const { repos } = (await operate(stream, 'listJobRepos?id=1')).body as { repos: Record<string, unknown>[] } // by its lexicon
  assert.deepEqual(
    new Map(repos.map(({ did, state }) => [did, state])),
    new Map([forged, gone].map(({ did }) => [did, did === gone.did ? 'unavailable' : 'failed'])),
  )
  assert.equal((await coverageOf(stream)).hosts[0]?.collections[0]?.reason, '1 repository could not be read')
  host.answers.delete('com.atproto.sync.getRepo')
  assert.equal((await operate(stream, 'retryJob', { id: 1 })).status, 200)
  await untilComplete(stream, first)
  for (const account of [forged, gone])
    assert.deepEqual(await rowsOf(stream, account, 1), [`create ${first}/a`])
})

test('a backfill is paused, resumed and cancelled, goes on after a restart, and is refused by name', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'backfill-'))
  await using plc = await startPlc()
  await using host = await startHost(plc)
  const account = await host.createAccount({ announce: false })
  account.commit([{ action: 'create', collection: first, rkey: 'a', record: {} }])
  const away = (_: unknown, response: { writeHead(status: number): { end(): void } }): void =>
    response.writeHead(503).end()
  host.answers.set('com.atproto.sync.getRepo', away)
  const ask = async (stream: TestStream, method: string, input: object): Promise<unknown> => {
    const { status, body } = await operate(stream, method, input)
    return status === 200 ? status : body['error']
  }
  const stateOf = async (stream: TestStream): Promise<unknown> =>
    ((await operate(stream, 'listJobs')).body['jobs'] as { state: string }[])[0]?.state // by its lexicon
  {
    await using stream = await streamOf(host, { dataDirectory: directory.path })
    await eventually(() => host.requests.some((path) => path.includes('getRepo?')))
    assert.equal(await ask(stream, 'setJobState', { id: 1, state: 'paused' }), 200)
    host.answers.delete('com.atproto.sync.getRepo')
    assert.equal(await stateOf(stream), 'paused')
    assert.equal(await ask(stream, 'setJobState', { id: 7, state: 'paused' }), 'JobNotFound')
    assert.equal(await ask(stream, 'startBackfill', { hostname: 'pds.example.com' }), 'HostNotApproved')
    assert.equal(await ask(stream, 'startBackfill', { collection: second }), 'CollectionNotWatched')
  }
  await using stream = await streamOf(host, { dataDirectory: directory.path })
  assert.equal(await stateOf(stream), 'paused')
  assert.equal(await ask(stream, 'setJobState', { id: 1, state: 'active' }), 200)
  await untilComplete(stream, first)
  assert.deepEqual(await rowsOf(stream, account, 1), [`create ${first}/a`])
  assert.equal(await ask(stream, 'setJobState', { id: 1, state: 'paused' }), 'JobEnded')
  host.answers.set('com.atproto.sync.listRepos', away)
  assert.equal(await ask(stream, 'startBackfill', { hostname: host.host }), 200)
  assert.equal(await ask(stream, 'setJobState', { id: 2, state: 'cancelled' }), 200)
  assert.equal(await stateOf(stream), 'cancelled')
})

test('an account that is active again is archived again, for those who read past its records while it was hidden', async () => {
  await using plc = await startPlc()
  await using host = await startHost(plc)
  await using stream = await startedStream(host)
  const account = await host.createAccount()
  account.create(first, {}, 'a')
  account.setStatus('deactivated')
  assert.deepEqual(await rowsOf(stream, account, 4), ['identity', 'account', 'sync', 'account'])
  account.setStatus(undefined)
  // A reader that came before the account was back gets what is written again, too.
  assert.deepEqual((await rowsOf(stream, account, 7)).at(-1), `create ${first}/a`)
  assert.deepEqual((await rowsOf(stream, account, 8)).slice(3), [
    `create ${first}/a`,
    'account',
    'account',
    'marker',
    `create ${first}/a`,
  ])
})

test('what was left out while the directory was away is archived once it is back', async () => {
  await using plc = await startPlc()
  await using slowPlc = await startSlowPlc(plc.url)
  await using host = await startHost(plc)
  const account = await host.createAccount({ announce: false })
  const asked = slowPlc.hold(account.did)
  await using stream = await streamOf(host, { plcUrl: slowPlc.url })
  const keys = Array.from({ length: 1200 }, (_, n) => String(n).padStart(4, '0'))
  for (const rkey of keys) account.create(first, {}, rkey)
  await asked
  await eventually(
    async () => (await stream.metric('stream_upstream_events_refused_total', 'identity-unavailable')) > 0,
  )
  slowPlc.release(account.did)
  using reader = await EventReader.open(stream.url, { cursor: 0, dids: [account.did] })
  const afterMarker = (): StreamMessage[] =>
    reader.messages.slice(reader.messages.findLastIndex((message) => briefly(message) === 'marker') + 1)
  const found = (): Set<unknown> => new Set(afterMarker().flatMap(({ rkey }) => rkey ?? []))
  await reader.until(() => found().size === keys.length)
  assert.deepEqual(found().symmetricDifference(new Set(keys)), new Set())
})

test('a marked repository that was not to be had is asked for again as soon as its account has an event', async () => {
  await using plc = await startPlc()
  await using host = await startHost(plc)
  await using stream = await startedStream(host)
  const account = await host.createAccount()
  await rowsOf(stream, account, 3)
  host.answers.set('com.atproto.sync.getRepo', (_, response) => {
    response.writeHead(400).end(JSON.stringify({ error: 'RepoDeactivated', message: '' }))
  })
  account.commit([{ action: 'create', collection: first, rkey: 'lost', record: {} }])
  account.create(first, {}, 'a')
  await eventually(async () => (await stream.metric('stream_backfilled_repos_total', 'unavailable')) > 0)
  host.answers.delete('com.atproto.sync.getRepo')
  account.announceIdentity()
  assert.deepEqual((await rowsOf(stream, account, 8)).slice(4), [
    'identity',
    'marker',
    `create ${first}/a`,
    `create ${first}/lost`,
  ])
})

test('a marked repository is read though the relay says that it lost track of the account', async () => {
  await using plc = await startPlc()
  await using host = await startHost(plc)
  await using stream = await startedStream(host)
  const account = await host.createAccount()
  await rowsOf(stream, account, 3)
  host.answers.set('com.atproto.sync.getRepoStatus', (_, response) => {
    const status = { did: account.did, active: false, status: 'desynchronized' }
    response.writeHead(200).end(JSON.stringify(status))
  })
  account.commit([{ action: 'create', collection: first, rkey: 'lost', record: {} }])
  account.create(first, {}, 'a')
  assert.deepEqual((await rowsOf(stream, account, 7)).slice(4), [
    'marker',
    `create ${first}/a`,
    `create ${first}/lost`,
  ])
})

test('an account that was not active when its PDS was read is read when it is active again', async () => {
  await using plc = await startPlc()
  await using host = await startHost(plc)
  const account = await host.createAccount({ announce: false })
  account.commit([{ action: 'create', collection: first, rkey: 'a', record: {} }])
  host.answers.set('com.atproto.sync.getRepoStatus', (_, response) => {
    response.writeHead(200).end(JSON.stringify({ did: account.did, active: false, status: 'suspended' }))
  })
  await using stream = await startedStream(host)
  host.answers.delete('com.atproto.sync.getRepoStatus')
  account.setStatus(undefined)
  assert.deepEqual(await rowsOf(stream, account, 2), ['account', `create ${first}/a`])
  const repos = async (): Promise<unknown> => (await operate(stream, 'listJobRepos?id=1')).body['repos']
  await eventually(async () => JSON.stringify(await repos()) === '[]', repos)
})

test('an account whose host calls it inactive, and that is active before that is noted, is read', async () => {
  await using plc = await startPlc()
  await using host = await startHost(plc)
  const account = await host.createAccount({ announce: false })
  account.commit([{ action: 'create', collection: first, rkey: 'a', record: {} }])
  const asked = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  host.answers.set('com.atproto.sync.getRepoStatus', (_, response) => {
    asked.resolve()
    void released.promise.then(() =>
      response.writeHead(200).end(JSON.stringify({ did: account.did, active: false, status: 'suspended' })),
    )
  })
  await using stream = await streamOf(host)
  await asked.promise
  host.answers.delete('com.atproto.sync.getRepoStatus')
  account.setStatus(undefined)
  await rowsOf(stream, account, 1)
  released.resolve()
  assert.deepEqual(await rowsOf(stream, account, 2), ['account', `create ${first}/a`])
})

test('a record that is deleted while its collection is not watched is taken back when the collection is added again', async () => {
  await using plc = await startPlc()
  await using host = await startHost(plc)
  await using stream = await startedStream(host)
  const change = async (method: string): Promise<void> =>
    assert.equal((await operate(stream, method, { collection: second })).status, 200)
  const account = await host.createAccount()
  await rowsOf(stream, account, 3)
  await change('addCollection')
  account.create(second, {}, 'a')
  await rowsOf(stream, account, 4)
  await untilComplete(stream, first, second)
  await change('removeCollection')
  account.delete(second, 'a')
  account.create(second, {}, 'b')
  account.create(first, {}, 'x')
  await rowsOf(stream, account, 5)
  await change('addCollection')
  await untilComplete(stream, first, second)
  assert.deepEqual((await rowsOf(stream, account, 8)).slice(3), [
    `create ${second}/a`,
    `create ${first}/x`,
    'marker',
    `create ${second}/b`,
    `create ${first}/x`,
  ])
})
