import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { encode, toBytes } from '@atcute/cbor'
import { createResolver } from '@tributary/identity'
import { type IndexWriter, openIndexWriter } from '@tributary/index-store'
import { type Did, encodeErrorFrame, encodeFrame } from '@tributary/protocol'
import { createLogger } from '@tributary/telemetry'
import { createDid, freePort, Signer, startLabeler, startPlc, updateDid } from '@tributary/testkit'
import { WebSocketServer } from 'ws'
import { did, rowsOf } from '../../tests/scenario.ts'
import { Tally } from '../../tests/tally.ts'
import { consumeLabels } from './label-consumer.ts'
import { LabelStore } from './label-store.ts'
import type { LabelResult } from './read-label.ts'

const logger = createLogger('index-test', { level: 'silent' })
const allowedPrivateHosts = ['localhost']

/** A consumer at work on a database of its own. */
class Following implements AsyncDisposable {
  readonly results = new Tally<LabelResult>()
  readonly connections = new Tally<boolean>()
  readonly connection: IndexWriter
  readonly #stop = new AbortController()
  readonly #done: Promise<void>
  nowMs = Date.now()

  constructor(connection: IndexWriter, labeler: Did, plcUrl: string) {
    this.connection = connection
    const nowMs = (): number => this.nowMs
    const resolver = createResolver({ plcUrl, allowedPrivateHosts, nowMs })
    const onLabels = this.results.add
    const onConnected = this.connections.add
    const store = new LabelStore(connection)
    const onListingDue = (): void => undefined
    const of = { labeler, store, resolver, allowedPrivateHosts, logger, nowMs, lookEveryMs: 20 }
    this.#done = consumeLabels({ ...of, onLabels, onConnected, onListingDue }, this.#stop.signal)
  }

  /** `val` of each label in the order of storing, with a `-` in front of negations. */
  async labels(): Promise<string[]> {
    const rows = await rowsOf(this.connection, 'labels')
    return rows.map(({ val, neg }) => `${neg === 1n ? '-' : ''}${val}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort()
    await this.#done
  }
}

test('labels of a real labeler are stored with their history, over a restart of either side', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'labels-'))
  await using plc = await startPlc()
  await using labeler = await startLabeler({ plcUrl: plc.url, directory: directory.path })
  await using connection = await openIndexWriter(join(directory.path, 'index.sqlite'))
  const labelerDid = labeler.did as Did // made by the PLC directory
  const organization = did('O')
  await labeler.label(organization, 'likely-test')
  await labeler.label(organization, 'spam')
  {
    await using following = new Following(connection, labelerDid, plc.url)
    await following.results.until('stored', 1)
    await labeler.label(organization, 'likely-test', { neg: true })
    await following.results.until('stored', 2)
    await labeler.stop()
    await following.connections.until(false, 1)
    await labeler.start()
    await labeler.label(organization, 'standard')
    await following.results.until('stored', 3)
    assert.deepEqual(await following.labels(), ['likely-test', '-likely-test', 'standard'])
    assert.equal(following.results.counts.get('irrelevant'), 1)
  }
  await labeler.label(organization, 'high-quality')
  await using again = new Following(connection, labelerDid, plc.url)
  await again.results.until('stored', 1)
  assert.deepEqual(await again.labels(), ['likely-test', '-likely-test', 'standard', 'high-quality'])
})

/** A server, and what a DID document tells of it. */
async function listen() {
  const port = await freePort()
  const server = new WebSocketServer({ host: '127.0.0.1', port })
  await once(server, 'listening')
  const services = { atproto_labeler: { type: 'AtprotoLabeler', endpoint: `http://localhost:${port}` } }
  return { server, services, port }
}

/** A labeler under the test's control: a DID in a real directory, and a server that sends what it is told. */
class ScriptedLabeler implements AsyncDisposable {
  readonly did: Did
  readonly plcUrl: string
  server: WebSocketServer
  readonly rotationKey: Signer
  signer: Signer
  readonly queries: string[] = []
  readonly #sent: { seq: number; frame: Uint8Array }[] = []
  /** Sent to whoever connects next, instead of everything else. */
  refusal: Uint8Array | undefined

  constructor(labelerDid: string, plcUrl: string, server: WebSocketServer, signer: Signer) {
    this.did = labelerDid as Did // made by the PLC directory
    this.plcUrl = plcUrl
    this.server = server
    this.rotationKey = signer
    this.signer = signer
    this.#answer(server)
  }

  #answer(server: WebSocketServer): void {
    server.on('connection', (socket, request) => {
      const { search, searchParams } = new URL(request.url ?? '', 'ws://x')
      this.queries.push(search)
      const cursor = Number(searchParams.get('cursor'))
      const { refusal } = this
      this.refusal = undefined
      if (refusal !== undefined) socket.send(refusal)
      else for (const { seq, frame } of this.#sent) if (seq > cursor) socket.send(frame)
    })
  }

  static async start(plcUrl: string): Promise<ScriptedLabeler> {
    const { server, services, port } = await listen()
    const signer = Signer.fromSeed(`scripted-${port}`)
    const labelerDid = await createDid(plcUrl, signer, {
      alsoKnownAs: [],
      verificationMethods: { atproto_label: signer.did() },
      services,
    })
    return new ScriptedLabeler(labelerDid, plcUrl, server, signer)
  }

  /** Goes to another address, which its document tells. Nobody answers at the old one. */
  async move(): Promise<void> {
    await this[Symbol.asyncDispose]()
    await this.goTo(await listen())
  }

  /** Goes to this address, which its document tells. */
  async goTo({ server, services }: Awaited<ReturnType<typeof listen>>): Promise<void> {
    this.server = server
    this.#answer(server)
    await updateDid(this.plcUrl, this.did, this.rotationKey, { services })
  }

  /** Sends one message with one label to everybody, now and after each connect before it. */
  label(
    seq: number,
    val: string,
    { signer = this.signer, cts = `2026-03-04T05:06:07.00${seq}Z` } = {},
  ): void {
    const label = { ver: 1, src: this.did, uri: did('O'), val, cts }
    this.send(
      encodeFrame('#labels', { seq, labels: [{ ...label, sig: toBytes(signer.signNow(encode(label))) }] }),
      seq,
    )
  }

  /** @param seq without one it is sent after every connect */
  send(frame: Uint8Array, seq = Infinity): void {
    this.#sent.push({ seq, frame })
    for (const client of this.server.clients) client.send(frame)
  }

  async rotateKey(): Promise<void> {
    this.signer = Signer.fromSeed(`${this.did}-next`)
    await updateDid(this.plcUrl, this.did, this.rotationKey, {
      verificationMethods: { atproto_label: this.signer.did() },
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.server.clients) client.terminate()
    await new Promise((resolve) => this.server.close(resolve))
  }
}

test('a labeler that has much to say at once is read to the end', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openIndexWriter(':memory:')
  for (let n = 0; n < 3000; n++) labeler.send(encodeFrame('#somethingNew', { n }))
  labeler.label(1, 'standard')
  await using following = new Following(connection, labeler.did, plc.url)
  await following.results.until('stored', 1)
  assert.deepEqual(await following.labels(), ['standard'])
})

test('what a labeler signs wrongly, or sends in no known form, is refused and passed over', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openIndexWriter(':memory:')
  await using following = new Following(connection, labeler.did, plc.url)
  labeler.label(1, 'draft', { signer: Signer.fromSeed('another') })
  labeler.send(new Uint8Array([1, 2, 3]))
  labeler.send(encodeFrame('#labels', { seq: 'two', labels: [] }))
  labeler.send(encodeFrame('#labels', { seq: 3, labels: [7] }))
  labeler.send(encodeFrame('#somethingNew', { any: 'thing' }))
  labeler.label(4, 'standard')
  await following.results.until('stored', 1)
  assert.deepEqual(await following.labels(), ['standard'])
  assert.deepEqual(Object.fromEntries(following.results.counts), {
    'bad-signature': 1,
    malformed: 3,
    stored: 1,
  })
  assert.equal(await new LabelStore(connection).cursor(labeler.did), 4)
})

test('after a change of key the document is read again, however young it is, before a new label is refused', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openIndexWriter(':memory:')
  await using following = new Following(connection, labeler.did, plc.url)
  labeler.label(1, 'draft')
  await following.results.until('stored', 1)
  const cts = new Date().toISOString()
  following.nowMs += 1000
  await labeler.rotateKey()
  labeler.label(2, 'standard', { cts })
  await following.results.until('stored', 2)
  assert.deepEqual(await following.labels(), ['draft', 'standard'])
  assert.equal(following.results.counts.has('bad-signature'), false)
  // One that fits no key is refused when the document was read for it.
  following.nowMs += 60_000
  labeler.label(3, 'draft', { signer: Signer.fromSeed('another'), cts })
  labeler.label(4, 'high-quality', { cts })
  await following.results.until('stored', 3)
  assert.deepEqual(following.results.counts.get('bad-signature'), 1)
  // So is one of the future, which is younger than any document.
  following.nowMs += 60_000
  labeler.label(5, 'draft', { signer: Signer.fromSeed('another'), cts: '2200-01-01T00:00:00.000Z' })
  labeler.label(6, 'high-quality', { cts })
  await following.results.until('stored', 4)
  assert.deepEqual(following.results.counts.get('bad-signature'), 2)
})

test('a labeler that moved is found within two minutes, and one that comes back while the directory is away', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openIndexWriter(':memory:')
  await using following = new Following(connection, labeler.did, plc.url)
  labeler.label(1, 'draft')
  await following.results.until('stored', 1)
  await labeler.move()
  following.nowMs += 120_000
  labeler.label(2, 'standard')
  await following.results.until('stored', 2)
  await plc.stop()
  following.nowMs += 120_000
  labeler.label(3, 'high-quality')
  for (const client of labeler.server.clients) client.terminate()
  labeler.label(4, 'draft')
  await following.results.until('stored', 4)
  assert.deepEqual(await following.labels(), ['draft', 'standard', 'high-quality', 'draft'])
})

test('an address and a key that a labeler has left count no longer, though the address stays connected', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openIndexWriter(':memory:')
  await using following = new Following(connection, labeler.did, plc.url)
  labeler.label(1, 'draft')
  await following.results.until('stored', 1)
  const old = { server: labeler.server, signer: labeler.signer }
  await labeler.goTo(await listen())
  labeler.label(2, 'standard')
  following.nowMs += 120_000
  await following.results.until('stored', 2)
  assert.equal(old.server.clients.size, 0)
  old.server.close()
  // Nothing comes that the new key has signed, so only the document tells of it.
  await labeler.rotateKey()
  following.nowMs += 120_000
  await following.connections.until(false, 2)
  labeler.label(3, 'likely-test', { signer: old.signer })
  labeler.label(4, 'high-quality')
  await following.results.until('stored', 3)
  assert.deepEqual(await following.labels(), ['draft', 'standard', 'high-quality'])
})

test('a labeler that ends its stream with an error of no known form is asked again', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openIndexWriter(':memory:')
  const strange = { toString: 1 }
  labeler.refusal = Buffer.concat([encode({ op: -1 }), encode({ error: strange, message: strange })])
  labeler.label(1, 'standard')
  await using following = new Following(connection, labeler.did, plc.url)
  await following.results.until('stored', 1)
  assert.deepEqual(await following.labels(), ['standard'])
})

test('a labeler whose number was far too high once is heard on the same connection', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openIndexWriter(':memory:')
  const cts = '2026-03-04T05:06:07.000Z'
  labeler.label(Number.MAX_SAFE_INTEGER, 'draft', { cts })
  await using following = new Following(connection, labeler.did, plc.url)
  await following.results.until('stored', 1)
  labeler.label(7, 'standard')
  await following.results.until('stored', 2)
  assert.deepEqual(await following.labels(), ['draft', 'standard'])
  assert.equal(await new LabelStore(connection).cursor(labeler.did), 7)
})

test('a labeler that counts anew is read from its beginning, and its old labels stay one row', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openIndexWriter(':memory:')
  await new LabelStore(connection).store(labeler.did, 500, [])
  labeler.refusal = encodeErrorFrame('FutureCursor', 'cursor in the future')
  labeler.label(1, 'draft')
  labeler.label(2, 'standard')
  await using following = new Following(connection, labeler.did, plc.url)
  await following.results.until('stored', 2)
  assert.deepEqual(labeler.queries, ['?cursor=500', '?cursor=0'])
  await new LabelStore(connection).rewind(labeler.did)
  for (const client of labeler.server.clients) client.terminate()
  await following.results.until('stored', 4)
  assert.deepEqual(await following.labels(), ['draft', 'standard'])
})
