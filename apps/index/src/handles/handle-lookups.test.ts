import assert from 'node:assert/strict'
import { test } from 'node:test'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHandleResolver, createResolver, type IdentityResolver } from '@tributary/identity'
import type { IndexWriter } from '@tributary/index-store'
import type { CommitEvent, Did } from '@tributary/protocol'
import { createLogger } from '@tributary/telemetry'
import {
  createDid,
  eventually,
  type Plc,
  Signer,
  startPlc,
  tombstoneDid,
  updateDid,
} from '@tributary/testkit'
import { rowsOf, Scenario } from '../../tests/scenario.ts'
import { Tally } from '../../tests/tally.ts'
import { GoneAnswers } from '../gone-answers.ts'
import { HandleLookups, type LookupResult } from './handle-lookups.ts'
import { HandleRequests } from './handle-requests.ts'

const logger = createLogger('index-test', { level: 'silent' })
const rotationKey = Signer.fromSeed('handles')

function register(plc: Plc, ...alsoKnownAs: string[]): Promise<Did> {
  return registerAt(plc, undefined, ...alsoKnownAs)
}

/** An account of a PDS. */
async function registerAt(plc: Plc, endpoint: string | undefined, ...alsoKnownAs: string[]): Promise<Did> {
  const pds = endpoint !== undefined && { atproto_pds: { type: 'AtprotoPersonalDataServer', endpoint } }
  const data = { alsoKnownAs, verificationMethods: {}, services: { ...pds } }
  return (await createDid(plc.url, rotationKey, data)) as Did // made by the PLC directory
}

/** The server that answers for the names of a local network. */
class Names implements AsyncDisposable {
  readonly #accounts = new Map<string, Did>()
  /** True while it answers nothing of use. */
  isBroken = false
  /** How often it is asked at once for names that are never answered. */
  mostAtOnce = 0
  readonly #open = new Set<ServerResponse>()
  /** How often it was asked for each name. */
  readonly asked = new Tally<string>()
  readonly #server = createServer(({ url = '' }, response) => {
    const handle = new URL(url, 'http://localhost').searchParams.get('handle') ?? ''
    const account = this.#accounts.get(handle)
    this.asked.add(handle)
    if (handle.startsWith('never')) this.#leaveOpen(response)
    else if (this.isBroken) response.writeHead(502).end()
    else if (account === undefined) response.writeHead(400).end('{"error":"InvalidRequest"}')
    else response.end(JSON.stringify({ did: account }))
  })

  static async start(): Promise<Names> {
    const names = new Names()
    names.#server.listen(0, '127.0.0.1')
    await once(names.#server, 'listening')
    return names
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo // it listens
    return `http://127.0.0.1:${port}`
  }

  /** Makes a name point to an account; without one, to nobody. */
  point(handle: string, account?: Did): void {
    if (account === undefined) this.#accounts.delete(handle)
    else this.#accounts.set(handle, account)
  }

  #leaveOpen(response: ServerResponse): void {
    this.#open.add(response)
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#open.size)
    response.once('close', () => this.#open.delete(response))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

/** Lookups at work on a scenario's database, with a clock that tests set. */
class Running implements AsyncDisposable {
  readonly results = new Tally<LookupResult>()
  readonly lookups: HandleLookups
  readonly requests: HandleRequests
  readonly resolver: IdentityResolver
  readonly #connection: IndexWriter
  readonly #stop = new AbortController()
  readonly #done: Promise<void>
  nowMs = Date.now()

  constructor(connection: IndexWriter, plc: Plc, names: Names) {
    const nowMs = (): number => this.nowMs
    this.resolver = createResolver({ plcUrl: plc.url, allowedPrivateHosts: ['localhost'], nowMs })
    this.#connection = connection
    this.requests = new HandleRequests(connection)
    const onLookup = this.results.add
    const answers = () => new GoneAnswers({ onDoubt: () => undefined, nowMs })
    this.lookups = new HandleLookups({
      requests: this.requests,
      resolver: this.resolver,
      resolveHandle: createHandleResolver({
        allowedPrivateHosts: [],
        handleHosts: [`test=${names.url}`],
      }),
      goneAnswers: answers(),
      lostNames: answers(),
      logger,
      onLookup,
      nowMs,
    })
    this.#done = this.lookups.run(this.#stop.signal)
  }

  async handleOf(account: Did): Promise<unknown> {
    const rows = await rowsOf(this.#connection, 'handles')
    return rows.find((row) => row.did === account)?.handle
  }

  /** Lets the waits of requests that were put off pass. */
  later(): void {
    this.nowMs += 7_200_000
    this.lookups.wake()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort()
    await this.#done
  }
}

async function send(world: Scenario, account: Did, kind: 'commit' | 'identity' | 'deleted'): Promise<void> {
  const seq = world.nextSeq()
  const envelope = { seq, did: account, time: world.now }
  const body = { did: account, seq, time: world.now }
  if (kind === 'identity') await world.send({ kind, ...envelope, identity: body })
  else if (kind === 'deleted')
    await world.send({ kind: 'account', ...envelope, account: { ...body, active: false, status: kind } })
  else {
    const path = { collection: 'org.impact.collection', rkey: 'k' } as Pick<
      CommitEvent,
      'collection' | 'rkey'
    > // a valid path
    await world.send({
      kind,
      ...envelope,
      rev: '3',
      operation: 'create',
      ...path,
      cid: `bafyrei${seq}`,
      record: {},
    })
  }
}

test('handles are found for accounts met, and renewed at identity events', async () => {
  await using plc = await startPlc()
  await using names = await Names.start()
  await using world = await Scenario.start()
  const account = await register(plc, 'https://elsewhere.example', 'at://Alice.Test')
  const nameless = await register(plc)
  for (const name of ['alice.test', 'bob.test']) names.point(name, account)
  await send(world, account, 'commit')
  await send(world, nameless, 'commit')
  await using running = new Running(world.connection, plc, names)
  await running.results.until('found', 1)
  await running.results.until('none', 1)
  assert.equal(await running.handleOf(account), 'alice.test')
  assert.equal(await running.handleOf(nameless), undefined)
  assert.equal((await world.rows('handleRequests')).length, 0)

  await updateDid(plc.url, account, rotationKey, { alsoKnownAs: ['at://bob.test'] })
  running.nowMs += 1000
  await send(world, account, 'identity')
  running.lookups.wake()
  await running.results.until('found', 2)
  assert.equal(await running.handleOf(account), 'bob.test')
})

test('a directory that is away is asked again; the known handle stays until the account is gone', async () => {
  await using plc = await startPlc()
  await using names = await Names.start()
  await using world = await Scenario.start()
  const account = await register(plc, 'at://alice.test')
  names.point('alice.test', account)
  await send(world, account, 'commit')
  await using running = new Running(world.connection, plc, names)
  await running.results.until('found', 1)

  await plc.stop()
  running.nowMs += 1000
  await send(world, account, 'identity')
  running.lookups.wake()
  await running.results.until('later', 1)
  assert.equal(await running.handleOf(account), 'alice.test')

  await plc.start()
  await tombstoneDid(plc.url, account, rotationKey)
  running.later()
  await running.results.until('later', 2)
  assert.equal(await running.handleOf(account), 'alice.test', 'one answer is not enough')
  running.later()
  await running.results.until('none', 1)
  assert.equal(await running.handleOf(account), undefined)
})

test('a document that was read before does not show that the directory finds accounts', async () => {
  await using plc = await startPlc()
  await using names = await Names.start()
  await using world = await Scenario.start()
  await using running = new Running(world.connection, plc, names)
  const known = await register(plc, 'at://alice.test')
  names.point('alice.test', known)
  await running.resolver.resolve(known)
  running.nowMs += 1000
  await send(world, known, 'commit')
  running.lookups.wake()
  await running.results.until('found', 1)
  const gone = await register(plc, 'at://bob.test')
  await tombstoneDid(plc.url, gone, rotationKey)
  await send(world, gone, 'commit')
  running.lookups.wake()
  await running.results.until('later', 1)
  running.later()
  const { counts } = running.results
  await eventually(() => counts.get('later') === 2 || counts.has('none'))
  assert.ok(!counts.has('none'), 'nobody was found since')
})

test('a handle is shown only while its name points back, and lost only when that is said twice', async () => {
  await using plc = await startPlc()
  await using names = await Names.start()
  await using world = await Scenario.start()
  const account = await register(plc, 'at://alice.test')
  names.point('alice.test', account)
  await send(world, account, 'commit')
  await using running = new Running(world.connection, plc, names)
  await running.results.until('found', 1)
  const impostor = await register(plc, 'at://alice.test', 'at://mallory.test')
  await send(world, impostor, 'commit')
  running.lookups.wake()
  await running.results.until('unproven', 1)
  assert.equal(await running.handleOf(impostor), undefined)

  names.isBroken = true
  await send(world, account, 'identity')
  running.lookups.wake()
  await running.results.until('later', 1)
  assert.equal(await running.handleOf(account), 'alice.test', 'a server that fails says nothing')
  names.isBroken = false
  names.point('alice.test')
  running.later()
  await running.results.until('later', 2)
  assert.equal(await running.handleOf(account), 'alice.test', 'one answer is not enough')
  running.later()
  await running.results.until('unproven', 2)
  assert.equal(await running.handleOf(account), undefined)
})

test('a handle that takes the place of a proven one, and is not proven, takes it away at once', async () => {
  await using plc = await startPlc()
  await using names = await Names.start()
  await using world = await Scenario.start()
  const account = await register(plc, 'at://alice.test')
  names.point('alice.test', account)
  await send(world, account, 'commit')
  await using running = new Running(world.connection, plc, names)
  await running.results.until('found', 1)
  await updateDid(plc.url, account, rotationKey, { alsoKnownAs: ['at://bob.test'] })
  running.nowMs += 1000
  await send(world, account, 'identity')
  running.lookups.wake()
  await running.results.until('unproven', 1)
  assert.equal(await running.handleOf(account), undefined)
})

test('a handle that the document no longer declares is not shown while nobody answers for the new one', async () => {
  await using plc = await startPlc()
  await using names = await Names.start()
  await using world = await Scenario.start()
  const account = await register(plc, 'at://alice.test')
  for (const name of ['alice.test', 'bob.test']) names.point(name, account)
  await send(world, account, 'commit')
  await using running = new Running(world.connection, plc, names)
  await running.results.until('found', 1)
  await updateDid(plc.url, account, rotationKey, { alsoKnownAs: ['at://bob.test'] })
  running.nowMs += 1000
  names.isBroken = true
  await send(world, account, 'identity')
  running.lookups.wake()
  await running.results.until('later', 1)
  assert.equal(await running.handleOf(account), undefined)
  names.isBroken = false
  running.later()
  await running.results.until('found', 2)
  assert.equal(await running.handleOf(account), 'bob.test')
})

/** The owner of a `did:web`, who publishes its document only while that suits them. */
class WebOwner implements AsyncDisposable {
  /** The document that is published, without the DID. */
  document: object | 'forbidden' | 'garbage' = {}
  readonly #server = createServer((_, response) => {
    if (this.document === 'forbidden') response.writeHead(403).end()
    else if (this.document === 'garbage') response.end('garbage')
    else response.end(JSON.stringify({ id: this.did, ...this.document }))
  })

  static async start(): Promise<WebOwner> {
    const owner = new WebOwner()
    owner.#server.listen(0, 'localhost')
    await once(owner.#server, 'listening')
    return owner
  }

  get did(): Did {
    const { port } = this.#server.address() as AddressInfo // it listens
    return `did:web:localhost%3A${port}` as Did // valid by construction
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

for (const document of ['forbidden', 'garbage'] as const)
  test(`an account does not keep a name that is another's by now with a document that is ${document}`, async () => {
    await using plc = await startPlc()
    await using names = await Names.start()
    await using owner = await WebOwner.start()
    await using world = await Scenario.start()
    const account = owner.did
    owner.document = { alsoKnownAs: ['at://alice.test'] }
    names.point('alice.test', account)
    await send(world, account, 'commit')
    await using running = new Running(world.connection, plc, names)
    await running.results.until('found', 1)

    owner.document = document
    const other = await register(plc, 'at://alice.test')
    names.point('alice.test', other)
    await send(world, other, 'commit')
    running.nowMs += 1000
    await send(world, account, 'identity')
    running.lookups.wake()
    await running.results.until('found', 2)
    await running.results.until('later', 1)
    assert.equal(await running.handleOf(account), 'alice.test', 'one answer is not enough')
    running.later()
    const { counts } = running.results
    await eventually(() => counts.get('later') === 2 || counts.has('unproven') || counts.has('none'))
    assert.equal(await running.handleOf(account), undefined)
    assert.equal(await running.handleOf(other), 'alice.test')
  })

test('a handle that points back stays while its document cannot be read, and is not asked for all the time', async () => {
  await using plc = await startPlc()
  await using names = await Names.start()
  await using owner = await WebOwner.start()
  await using world = await Scenario.start()
  const account = owner.did
  owner.document = { alsoKnownAs: ['at://alice.test'] }
  names.point('alice.test', account)
  await send(world, account, 'commit')
  await using running = new Running(world.connection, plc, names)
  await running.results.until('found', 1)
  owner.document = 'forbidden'
  for (let event = 1; event <= 5; event++) {
    running.nowMs += 1000
    await send(world, account, 'identity')
    running.lookups.wake()
    await running.results.until('later', event)
  }
  assert.equal(names.asked.counts.get('alice.test'), 2, 'once with the document, and once without')
  running.later()
  await running.results.until('later', 6)
  assert.equal(names.asked.counts.get('alice.test'), 3)
  names.isBroken = true
  running.later()
  await running.results.until('later', 7)
  assert.equal(await running.handleOf(account), 'alice.test')
  names.isBroken = false
  owner.document = { alsoKnownAs: ['at://alice.test'] }
  running.later()
  await running.results.until('found', 2)
})

test('accounts whose names are never answered hold up no accounts of other hosts', async (t) => {
  await using plc = await startPlc()
  await using names = await Names.start()
  await using world = await Scenario.start()
  for (let n = 0; n < 70; n++)
    await send(world, await registerAt(plc, 'https://hostile.example', `at://never${n}.test`), 'commit')
  const account = await registerAt(plc, 'https://honest.example', 'at://alice.test')
  names.point('alice.test', account)
  await send(world, account, 'commit')
  // The others come first.
  const [request] = (await world.rows('handleRequests')).filter(({ did }) => did === account)
  assert.ok(request)
  await world.connection.write((batch) => batch.put('handleRequests', [{ ...request, dueAt: 1n }]))
  const running = new Running(world.connection, plc, names)
  // The directory is asked so many times a second.
  const clock = setInterval(() => (running.nowMs = Date.now()), 5)
  t.after(() => clearInterval(clock))
  await running.results.until('found', 1)
  await running[Symbol.asyncDispose]()
  // A place is free a moment before the server sees that it is.
  assert.ok(
    names.mostAtOnce <= 34,
    `${names.mostAtOnce} names of one host were asked for at once, and not 32`,
  )
  const others = (await world.rows('handleRequests')).map(({ attempts }) => Number(attempts))
  assert.equal(others.length, 70)
  const attempts = others.reduce((sum, each) => sum + each, 0)
  assert.equal(attempts, running.results.counts.get('later') ?? 0, 'who had no place has made no attempt')
})

test('a handle that was put off by a clock that was ahead is looked up when the clock was put right', async () => {
  await using plc = await startPlc()
  await using names = await Names.start()
  await using world = await Scenario.start()
  const account = await register(plc, 'at://alice.test')
  names.point('alice.test', account)
  await send(world, account, 'commit')
  const dueAt = BigInt(Date.UTC(2100)) * 1000n
  const [request] = await world.rows('handleRequests')
  assert.ok(request)
  await world.connection.write((batch) => batch.put('handleRequests', [{ ...request, dueAt }]))
  await using running = new Running(world.connection, plc, names)
  await running.results.until('found', 1)
})

test('an answer that comes after the account was deleted, or after a newer request, is dropped', async () => {
  await using world = await Scenario.start()
  const account = 'did:plc:xxxxxxxxxxxxxxxxxxxxxxxx' as Did // valid by construction
  const requests = new HandleRequests(world.connection)
  await send(world, account, 'commit')
  const [first] = await requests.due(1n, 10)
  assert.ok(first)
  await send(world, account, 'identity')
  await requests.finish(first, 'old.test' as never) // a valid handle
  assert.equal((await world.rows('handleRequests')).length, 1)
  const [second] = await requests.due(1n, 10)
  assert.ok(second)
  await send(world, account, 'deleted')
  await requests.finish(second, 'late.test' as never) // a valid handle
  assert.deepEqual(await world.rows('handles'), [])
})

test('an answer that takes a handle away counts also when its account was asked about again meanwhile', async () => {
  await using world = await Scenario.start()
  const account = 'did:plc:xxxxxxxxxxxxxxxxxxxxxxxx' as Did // valid by construction
  const requests = new HandleRequests(world.connection)
  await send(world, account, 'commit')
  const [first] = await requests.due(1n, 10)
  assert.ok(first)
  await requests.finish(first, 'lost.test' as never) // a valid handle
  await send(world, account, 'identity')
  const [second] = await requests.due(1n, 10)
  assert.ok(second)
  await send(world, account, 'identity')
  await requests.finish(second, undefined)
  assert.deepEqual(await world.rows('handles'), [])
  assert.equal((await world.rows('handleRequests')).length, 1)
})
