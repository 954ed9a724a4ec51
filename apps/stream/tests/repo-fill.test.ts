/** How often one repository is read again, whoever asks for that, and what is written of one that changes meanwhile. */
import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { createResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { encodeCar, eventually, type ScriptedHost, startPlc, startScriptedHost } from '@tributary/testkit'
import { HostAwayError, HostRequests } from '../src/backfill/host-requests.ts'
import { RepoFill, rereadsPerDay } from '../src/backfill/repo-fill.ts'
import { RepoReader } from '../src/backfill/repo-reader.ts'
import type { RepoContents } from '../src/ingest/repo-refill.ts'
import { WatchedCollections } from '../src/policy/watched-collections.ts'
import { openStateDatabase, type StateDatabase } from '../src/state-database.ts'
import { contentsOf } from './contents-of.ts'
import { startIngest, type TestIngest } from './start-ingest.ts'

const follow = 'app.attested.graph.follow'

/** What fills repositories of a host that is the relay, too. */
function fillOptions(
  t: TestContext,
  host: ScriptedHost,
  { ingest, states }: TestIngest,
  policy: { database: StateDatabase; watched: WatchedCollections },
) {
  const allowedPrivateHosts = ['localhost']
  const { signal } = new AbortController()
  const reader = new RepoReader()
  t.after(() => reader.close())
  return {
    ...policy,
    requests: new HostRequests({ allowedPrivateHosts, signal, paceOf: () => 1000 }),
    relayUrl: host.url,
    resolver: createResolver({ plcUrl: host.plcUrl, allowedPrivateHosts }),
    reader,
    ingest,
    states,
    signal,
  }
}

/** A host that is the relay, too, and an ingest that keeps some collections. */
async function watching(t: TestContext, collections: readonly string[]) {
  const stack = new AsyncDisposableStack()
  t.after(() => stack.disposeAsync())
  const plc = stack.use(await startPlc())
  const host = stack.use(await startScriptedHost({ plcUrl: plc.url }))
  const directory = stack.use(await mkdtempDisposable(join(tmpdir(), 'repo-fill-')))
  const database = stack.adopt(openStateDatabase(':memory:'), (open) => void open.close())
  const watched = new WatchedCollections(database, collections, 1)
  const place = { directory: directory.path, relayUrl: host.url, plcUrl: plc.url }
  const ingest = stack.use(await startIngest({ ...place, policy: watched }))
  return { host, ingest, database, watched }
}

test('a repository that is marked again and again is read so often a day, and more often when the operator asks', async (t) => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using directory = await mkdtempDisposable(join(tmpdir(), 'repo-fill-'))
  await using ingest = await startIngest({
    directory: directory.path,
    relayUrl: host.url,
    plcUrl: plc.url,
    saveMs: 10,
  })
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const watched = new WatchedCollections(database, [follow], 1)
  const options = fillOptions(t, host, ingest, { database, watched })
  let fill = new RepoFill(options)
  const [busy, other] = [await host.createAccount(), await host.createAccount()]
  for (const account of [busy, other]) account.create(follow, {}, 'a')
  await ingest.until(() => ingest.rows.length === 8)
  const readAgain = async ({ did }: { did: string }): Promise<string> => {
    ingest.states.mark(did)
    return (await fill.makeWhole({ did: did as Did, mayReplace: true, onWhole: () => {} })).is // of a real account
  }
  for (let n = 0; n < rereadsPerDay; n++) assert.equal(await readAgain(busy), 'whole')
  const asked = (): number => host.requests.filter((path) => path.includes('getRepo?')).length
  const before = asked()
  assert.deepEqual([await readAgain(busy), await readAgain(busy)], ['later', 'later'])
  assert.equal(asked(), before)
  assert.equal(ingest.states.get(busy.did)?.needsRefetch, true)
  assert.equal(await readAgain(other), 'whole')
  // The count is stored, so that a restart does not begin it again.
  const counted = database.prepare<[], number>('SELECT sum(count) FROM rereads').pluck()
  await eventually(() => counted.get() === rereadsPerDay + 1)
  fill = new RepoFill(options)
  assert.equal(await readAgain(busy), 'later')
  fill.forgetRereads(busy.did)
  assert.equal(await readAgain(busy), 'whole')
})

test('a collection that is added while a repository is read gets nothing of it, and nothing twice from the next one', async (t) => {
  const [before, during] = ['app.attested.before', 'app.attested.during']
  const { host, ingest, watched, database } = await watching(t, [follow])
  const add = (collection: string): void => {
    watched.add(collection, 'operator', 2)
    watched.reload()
  }
  const account = await host.createAccount()
  for (const collection of [before, during]) account.create(collection, {}, 'early')
  account.create(during, {}, 'kept')
  account.create(follow, {}, 'a')
  await ingest.until(() => ingest.rows.length === 4)
  add(before)
  const fill = new RepoFill(fillOptions(t, host, ingest, { database, watched }))
  const makeWhole = async (): Promise<string> =>
    (await fill.makeWhole({ did: account.did as Did, mayReplace: true, onWhole: () => {} })).is // of a real account
  const [asked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  host.answers.set('com.atproto.sync.getRepo', (_, response) => {
    const car = encodeCar(account.head.cid, account.blocks())
    asked.resolve()
    void released.promise.then(() => response.writeHead(200).end(car))
  })
  const filled = makeWhole()
  await asked.promise
  account.delete(during, 'early')
  account.create(follow, {}, 'b')
  await ingest.until(() => ingest.rows.length === 5)
  add(during)
  account.create(during, {}, 'live')
  await ingest.until(() => ingest.rows.length === 6)
  host.answers.delete('com.atproto.sync.getRepo')
  released.resolve()
  assert.equal(await filled, 'whole')
  assert.equal(ingest.states.get(account.did)?.completeRevision, 2)
  const records = (): string[] =>
    ingest.rows.slice(4).map(({ collection, rkey }) => `${collection.split('.').at(-1)} ${rkey}`)
  await ingest.until(() => ingest.rows.length === 7)
  assert.deepEqual(records(), ['follow b', 'during live', 'before early'])
  assert.equal(await makeWhole(), 'whole')
  await ingest.until(() => ingest.rows.length >= 8)
  assert.deepEqual(records().slice(3), ['during kept'])
  assert.equal(ingest.states.get(account.did)?.completeRevision, 3)
})

test('a collection that is added again while a repository is read is written after a marker, from the next one', async (t) => {
  const [added, again] = ['app.attested.added', 'app.attested.again']
  const { host, ingest, watched } = await watching(t, [follow, again])
  const account = await host.createAccount()
  account.create(again, {}, 'early')
  account.create(added, {}, 'a')
  account.create(follow, {}, 'b')
  await ingest.until(() => ingest.rows.length === 5)
  watched.add(added, 'operator', 2)
  watched.reload()
  const contents = { ...contentsOf(account), watchRevision: watched.revision }
  watched.remove(again)
  watched.reload()
  watched.add(again, 'operator', 3)
  watched.reload()
  const refill = async (read: RepoContents): Promise<string> =>
    (await ingest.ingest.refill(read, { mayReplace: true, onWhole: () => {} })).is
  assert.equal(await refill(contents), 'whole')
  const state = (): unknown[] => {
    const { completeRevision, needsRefetch } = ingest.states.get(account.did) ?? assert.fail()
    return [completeRevision, needsRefetch]
  }
  assert.deepEqual(state(), [2, false])
  await ingest.until(() => ingest.rows.length === 6)
  assert.equal(await refill({ ...contents, watchRevision: watched.revision }), 'whole')
  assert.deepEqual(state(), [4, false])
  await ingest.until(() => ingest.rows.length === 10)
  assert.deepEqual(
    ingest.rows.slice(5).map(({ kind, rkey }) => [kind, rkey]),
    [
      [1, 'a'],
      [6, ''],
      [7, 'a'],
      [7, 'early'],
      [7, 'b'],
    ],
  )
})

test('a repository that is older than what the relay sent or knows makes nothing whole', async (t) => {
  const added = 'app.attested.added'
  const { host, ingest, watched, database } = await watching(t, [follow])
  const fill = new RepoFill(fillOptions(t, host, ingest, { database, watched }))
  const account = await host.createAccount()
  account.create(follow, {}, 'a')
  const former = encodeCar(account.head.cid, account.blocks())
  account.create(added, {}, 'b')
  await ingest.until(() => ingest.states.get(account.did)?.rev === account.rev)
  watched.add(added, 'operator', 2)
  watched.reload()
  const makeWhole = async (): Promise<string> => {
    let is = 'later'
    // A host whose answer was of no use is left alone for a while.
    await eventually(async () => {
      const outcome = await fill.makeWhole({ did: account.did as Did, mayReplace: true, onWhole: () => {} }) // a real DID
      return (is = outcome.is) !== 'later'
    })
    return is
  }
  const relaySays = (word: object): void => {
    host.answers.set('com.atproto.sync.getRepoStatus', (_, response) =>
      response.end(JSON.stringify({ did: account.did, active: true, ...word })),
    )
  }
  relaySays({})
  host.answers.set('com.atproto.sync.getRepo', (_, response) => response.end(former))
  assert.equal(await makeWhole(), 'older')
  host.answers.delete('com.atproto.sync.getRepo')
  relaySays({ rev: '3zzzzzzzzzzz2' })
  assert.equal(await makeWhole(), 'older')
  relaySays({ rev: account.rev })
  assert.equal(await makeWhole(), 'whole')
  await ingest.until(() => ingest.rows.length === 5)
  assert.equal(ingest.rows.at(-1)?.rkey, 'b')
})

test('a large repository that finds no room in the line is left for later, and goes there at once the next time', async (t) => {
  const { host, ingest, watched, database } = await watching(t, [follow])
  const options = fillOptions(t, host, ingest, { database, watched })
  const fill = new RepoFill(options)
  const account = await host.createAccount()
  for (let n = 0; n < 5; n++) account.create('app.attested.large', { text: 'x'.repeat(900_000) }, `${n}`)
  account.create(follow, {}, 'a')
  await ingest.until(() => ingest.states.get(account.did)?.rev === account.rev)
  const makeWhole = async (turn: string | undefined): Promise<string> => {
    const wish = { did: account.did as Did, mayReplace: true, onWhole: () => {}, largeTurn: () => turn } // a real DID
    return (await fill.makeWhole(wish)).is
  }
  const asked = (): number => host.requests.filter((path) => path.includes('getRepo?')).length
  assert.deepEqual([await makeWhole(undefined), await makeWhole(undefined), asked()], ['later', 'later', 1])
  const asking = t.mock.method(options.requests, 'ask').mock
  assert.deepEqual([await makeWhole(host.host), asked()], ['whole', 2])
  const hurry = asking.calls.at(-1)?.arguments[2].hurry
  assert.deepEqual([hurry?.bytesPerSecondMin, hurry?.isNeeded()], [128 * 1024, false])
})

test('a repository that did not come whole in time is read in the line of the large ones the next time', async (t) => {
  const { host, ingest, watched, database } = await watching(t, [follow])
  const options = fillOptions(t, host, ingest, { database, watched })
  const fill = new RepoFill(options)
  const account = await host.createAccount()
  account.create('app.attested.large', { text: 'x'.repeat(400_000) }, '0')
  account.create(follow, {}, 'a')
  await ingest.until(() => ingest.states.get(account.did)?.rev === account.rev)
  const turns: string[] = []
  const makeWhole = async (): Promise<string> => {
    const largeTurn = (): string => (turns.push('large'), host.host)
    return (await fill.makeWhole({ did: account.did as Did, mayReplace: true, onWhole: () => {}, largeTurn }))
      .is // a real DID
  }
  const ask = options.requests.ask.bind(options.requests)
  const asking = t.mock.method(
    options.requests,
    'ask',
    async (...[origin, method, asked]: Parameters<typeof ask>) => {
      const answer = await ask(origin, method, asked)
      if (method.startsWith('getRepo?')) throw new HostAwayError('the answer takes more than 60000 ms')
      return answer
    },
  )
  assert.deepEqual([await makeWhole(), turns], ['later', []])
  asking.mock.restore()
  assert.deepEqual([await makeWhole(), turns], ['whole', ['large']])
})

test('a large repository keeps its turn until it is written, and nobody is asked while the archive has no room', async (t) => {
  const { host, ingest, watched, database } = await watching(t, [follow])
  const [first, second, small] = [
    await host.createAccount(),
    await host.createAccount(),
    await host.createAccount(),
  ]
  for (const large of [first, second])
    for (let n = 0; n < 5; n++) large.create('app.attested.large', { text: 'x'.repeat(900_000) }, `${n}`)
  for (const account of [first, second, small]) account.create(follow, {}, 'a')
  await ingest.until(() => ingest.rows.filter(({ rkey }) => rkey === 'a').length === 3)
  const [begun, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let [room, looks] = [true, 0]
  const waiting = {
    get hasRoom() {
      looks++
      return room
    },
    refill: async (...[contents, wish]: Parameters<TestIngest['ingest']['refill']>) => {
      if (contents.did === first.did) {
        begun.resolve()
        await released.promise
      }
      return await ingest.ingest.refill(contents, wish)
    },
  }
  const fill = new RepoFill({ ...fillOptions(t, host, ingest, { database, watched }), ingest: waiting })
  const lined = Promise.withResolvers<void>()
  const makeWhole = async ({ did }: { did: string }, turn?: string): Promise<string> => {
    ingest.states.mark(did)
    const largeTurn = (): string | undefined => {
      if (did === second.did && turn !== undefined) lined.resolve()
      return turn
    }
    return (await fill.makeWhole({ did: did as Did, mayReplace: true, onWhole: () => {}, largeTurn })).is // of a real account
  }
  const asked = (method: string, { did }: { did: string }): number =>
    host.requests.filter((path) => path.includes(`${method}?`) && path.includes(encodeURIComponent(did)))
      .length
  for (const large of [first, second]) assert.equal(await makeWhole(large), 'later')

  const one = makeWhole(first, 'one')
  await begun.promise
  const other = makeWhole(second, 'other')
  await lined.promise
  for (let n = 0; n < 3; n++) assert.equal(await makeWhole(small), 'whole', 'usual ones go on')
  assert.equal(asked('getRepo', second), 1)
  room = false
  looks = 0
  const late = makeWhole(small)
  released.resolve()
  assert.equal(await one, 'whole')
  await eventually(() => looks >= 4)
  assert.deepEqual([asked('getRepo', second), asked('getRepoStatus', small)], [1, 3])
  room = true
  assert.deepEqual([await other, await late], ['whole', 'whole'])
  assert.equal(asked('getRepo', second), 2)
})
