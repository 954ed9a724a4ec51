/** What a labeler's stream no longer holds is read from its list, whatever the list is like. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempDisposable } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { encode, toBytes } from '@atcute/cbor'
import { createResolver } from '@tributary/identity'
import type { IndexWriter } from '@tributary/index-store'
import { type Did, encodeErrorFrame, encodeFrame } from '@tributary/protocol'
import { createLogger } from '@tributary/telemetry'
import { createDid, eventually, freePort, Signer, startLabeler, startPlc } from '@tributary/testkit'
import { WebSocketServer } from 'ws'
import { openTestIndex } from '../../tests/open-test-index.ts'
import { did, rowsOf } from '../../tests/scenario.ts'
import { Tally } from '../../tests/tally.ts'
import { consumeLabels } from './label-consumer.ts'
import { LabelListing, type ListingBounds } from './label-listing.ts'
import { LabelStore } from './label-store.ts'
import type { Label, LabelResult } from './read-label.ts'

const logger = createLogger('index-test', { level: 'silent' })
const allowedPrivateHosts = ['localhost']
const quick = { pauseMs: 0, retry: { firstMs: 1, maxMs: 5 }, againMs: 1 }
/** Another order would show another history. */
const times = Array.from({ length: 10 }, (_, second) => `2026-03-04T05:06:0${second}.000Z`)

interface Answer {
  status?: number
  body: unknown
}

/** A labeler whose stream and list are what a test says. Its stream holds nothing of the past. */
class ScriptedLabeler implements AsyncDisposable {
  readonly did: Did
  readonly plcUrl: string
  /** What is answered to the query with this cursor; the first has none. */
  answer: (cursor: string | null, limit: number) => Answer = () => ({ body: { labels: [] } })
  readonly asked: (string | null)[] = []
  /** Whoever connects is told this first. */
  greeting: () => Uint8Array | undefined = () => encodeFrame('#info', { name: 'OutdatedCursor' })
  readonly #server: Server
  readonly #sockets: WebSocketServer
  readonly #signer: Signer
  readonly #live: Uint8Array[] = []

  private constructor(labelerDid: string, plcUrl: string, server: Server, signer: Signer) {
    this.did = labelerDid as Did // made by the PLC directory
    this.plcUrl = plcUrl
    this.#signer = signer
    this.#server = server
    server.on('request', (request, response) => {
      const query = new URL(request.url ?? '', 'http://x').searchParams
      assert.deepEqual([query.get('uriPatterns'), query.get('sources')], ['*', this.did])
      this.asked.push(query.get('cursor'))
      const { status = 200, body } = this.answer(query.get('cursor'), Number(query.get('limit')))
      response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body))
    })
    this.#sockets = new WebSocketServer({ server })
    this.#sockets.on('connection', (socket) => {
      const greeting = this.greeting()
      if (greeting) socket.send(greeting)
      for (const frame of this.#live) socket.send(frame)
    })
  }

  static async start(plcUrl: string): Promise<ScriptedLabeler> {
    const port = await freePort()
    const server = createServer().listen(port, '127.0.0.1')
    await once(server, 'listening')
    const signer = Signer.fromSeed(`listing-${port}`)
    const labelerDid = await createDid(plcUrl, signer, {
      alsoKnownAs: [],
      verificationMethods: { atproto_label: signer.did() },
      services: { atproto_labeler: { type: 'AtprotoLabeler', endpoint: `http://localhost:${port}` } },
    })
    return new ScriptedLabeler(labelerDid, plcUrl, server, signer)
  }

  /** Whether a second list was begun. */
  wasAskedAgain(): boolean {
    return this.asked.indexOf(null, 1) > 0
  }

  #signed(name: string, val: string, second: number, signer = this.#signer) {
    const label = { ver: 1, src: this.did, uri: did(name), val, cts: times[second] ?? '' }
    return { ...label, sig: signer.signNow(encode(label)) }
  }

  /** A label as it is listed. */
  listed(name: string, val: string, second: number, signer?: Signer): Record<string, unknown> {
    const { sig, ...label } = this.#signed(name, val, second, signer)
    return { id: 7, ...label, sig: { $bytes: Buffer.from(sig).toString('base64') } }
  }

  /** Sends a label to whoever connects. */
  label(seq: number, name: string, val: string, second: number): void {
    const { sig, ...label } = this.#signed(name, val, second)
    this.#live.push(encodeFrame('#labels', { seq, labels: [{ ...label, sig: toBytes(sig) }] }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#sockets.clients) client.terminate()
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

/** Reads a labeler's list whenever that is due; with `stream`, its stream too. */
class Reading implements AsyncDisposable {
  readonly results = new Tally<LabelResult>()
  readonly connection: IndexWriter
  readonly store: LabelStore
  readonly listing: LabelListing
  isDue: boolean | undefined
  readonly #stop = new AbortController()
  readonly #done: Promise<void>

  constructor(
    connection: IndexWriter,
    labeler: { did: string; plcUrl: string },
    { bounds = {}, stream = false }: { bounds?: Partial<ListingBounds>; stream?: boolean } = {},
  ) {
    this.connection = connection
    this.store = new LabelStore(connection)
    const options = {
      labeler: labeler.did as Did, // made by the PLC directory
      store: this.store,
      resolver: createResolver({ plcUrl: labeler.plcUrl, allowedPrivateHosts }),
      allowedPrivateHosts,
      logger,
      onLabels: this.results.add,
      onListingDue: (isDue: boolean) => (this.isDue = isDue),
      onConnected: () => undefined,
      listingBounds: { ...quick, ...bounds },
    }
    this.listing = new LabelListing(options)
    const { signal } = this.#stop
    this.#done = stream ? consumeLabels(options, signal) : this.listing.run(signal)
  }

  async untilDue(isDue: boolean): Promise<void> {
    await eventually(
      () => this.isDue === isDue,
      () => [this.isDue, this.results.counts],
    )
  }

  /** Account and `val` of each label in force. */
  async inForce(labeler: string): Promise<string[]> {
    const labels = await this.store.inForce(labeler as Did) // made by the PLC directory
    return [...labels.values()].map(({ did: subject, val }) => `${subject.slice(8, 9)} ${val}`).toSorted()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort()
    await this.#done
  }
}

/** A label as it is stored. */
function draft(src: Did, name: string): Label {
  return { src, did: did(name), uri: did(name), cid: null, val: 'draft', neg: false, cts: 1n, exp: null }
}

test('the list of a real labeler is read page by page, with signatures and negations', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'listing-'))
  await using plc = await startPlc()
  await using labeler = await startLabeler({ plcUrl: plc.url, directory: directory.path })
  await using connection = await openTestIndex()
  for (let n = 0; n < 260; n++) await labeler.label(did(`x${n}`), 'standard')
  await labeler.label(did('x0'), 'standard', { neg: true })
  await using reading = new Reading(connection, { did: labeler.did, plcUrl: plc.url })
  await reading.listing.ask()
  await reading.results.until('stored', 261)
  await reading.untilDue(false)
  const labels = await rowsOf(connection, 'labels')
  assert.equal(labels.length, 261)
  assert.deepEqual(
    labels.filter(({ neg }) => neg === 1n).map(({ did: subject }) => subject),
    [did('x0')],
  )
  assert.deepEqual(Object.fromEntries(reading.results.counts), { stored: 261 })
})

test('labels that the stream no longer holds come from the list, and those it has taken back end', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openTestIndex()
  await new LabelStore(connection).store(labeler.did, 5, [draft(labeler.did, 'a'), draft(labeler.did, 'b')])
  labeler.label(90, 'd', 'standard', 9)
  labeler.answer = () => ({
    body: {
      labels: [
        labeler.listed('b', 'draft', 0),
        labeler.listed('c', 'standard', 1),
        labeler.listed('d', 'standard', 9),
        labeler.listed('e', 'standard', 2, Signer.fromSeed('another')),
        7,
      ],
    },
  })
  await using reading = new Reading(connection, labeler, { stream: true })
  await reading.results.until('stored', 7)
  await reading.untilDue(false)
  assert.deepEqual(await reading.inForce(labeler.did), ['b draft', 'c standard', 'd standard'])
  assert.equal(await reading.store.cursor(labeler.did), 90)
  // One label of the stream, and the list twice, because a label is missing there.
  assert.deepEqual(Object.fromEntries(reading.results.counts), {
    'bad-signature': 2,
    malformed: 2,
    stored: 7,
  })
})

test('labels that a labeler which counts anew has lost are taken back', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openTestIndex()
  const refusals = [encodeErrorFrame('FutureCursor', 'cursor in the future')]
  labeler.greeting = () => refusals.shift()
  await new LabelStore(connection).store(labeler.did, 500, [draft(labeler.did, 'a'), draft(labeler.did, 'b')])
  labeler.answer = () => ({ body: { labels: [labeler.listed('b', 'draft', 0)] } })
  await using reading = new Reading(connection, labeler, { stream: true })
  await reading.results.until('stored', 2)
  await reading.untilDue(false)
  assert.deepEqual(await reading.inForce(labeler.did), ['b draft'])
  assert.equal(await reading.store.cursor(labeler.did), 0)
})

test('a part of a list takes nothing back, unless the next list does not have it either', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openTestIndex()
  const [a, b, c] = ['a', 'b', 'c'].map((name, second) => labeler.listed(name, 'draft', second))
  labeler.answer = () => ({ body: { labels: [a, b, c] } })
  await using reading = new Reading(connection, labeler)
  await reading.listing.ask()
  await reading.results.until('stored', 3)
  await reading.untilDue(false)
  const lists = [[a], [a, b, c], [a, b], [b]]
  labeler.answer = () => ({ body: { labels: lists.shift() ?? [a, b] } })
  await reading.listing.ask()
  await eventually(() => lists.length === 2)
  await reading.untilDue(false)
  assert.deepEqual(await reading.inForce(labeler.did), ['a draft', 'b draft', 'c draft'])
  await reading.listing.ask()
  await eventually(() => lists.length === 0)
  await reading.untilDue(false)
  assert.deepEqual(await reading.inForce(labeler.did), ['a draft', 'b draft'])
})

test('a list that is asked for while one is read is read after it', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openTestIndex()
  const [a, b] = ['a', 'b'].map((name, second) => labeler.listed(name, 'draft', second))
  await using reading = new Reading(connection, labeler)
  labeler.answer = (cursor) => {
    if (cursor === null) return { body: { labels: [a, b], cursor: 'next' } }
    // The first page has been read, and the label that was on it is taken back while the stream is away.
    labeler.answer = () => ({ body: { labels: [a] } })
    void reading.listing.ask()
    return { body: { labels: [] } }
  }
  await reading.listing.ask()
  await reading.results.until('stored', 2)
  await reading.untilDue(false)
  assert.deepEqual(await reading.inForce(labeler.did), ['a draft'])
})

test('a list that is due is read after a restart', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openTestIndex()
  await new LabelStore(connection).setListingDue(labeler.did, true)
  labeler.answer = () => ({ body: { labels: [labeler.listed('a', 'draft', 0)] } })
  await using reading = new Reading(connection, labeler)
  await reading.results.until('stored', 1)
  await reading.untilDue(false)
  assert.equal(await reading.store.isListingDue(labeler.did), false)
})

test('a labeler that repeats its cursor, never ends, answers hugely or not at all is asked again later', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openTestIndex()
  await new LabelStore(connection).setListingDue(labeler.did, true)
  const labels = [labeler.listed('a', 'draft', 0)]
  const bounds = { pagesMax: 4, pageBytesMax: 20_000 }
  const bad: [kind: string, pages: number, answer: (cursor: string | null) => Answer][] = [
    ['the same cursor', 2, () => ({ body: { labels, cursor: 'x' } })],
    ['no end', 4, (cursor) => ({ body: { labels, cursor: `${cursor ?? ''}x` } })],
    ['a huge answer', 1, () => ({ body: { labels, junk: 'x'.repeat(30_000) } })],
    ['more labels than asked for', 1, () => ({ body: { labels: Array.from({ length: 251 }, () => 7) } })],
    ['a failure', 1, () => ({ status: 500, body: { labels: [] } })],
    ['no list', 1, () => ({ body: { labels: 7 } })],
    ['no JSON', 1, () => ({ body: '{"labels":[' })],
    ['a number as cursor', 1, () => ({ body: { labels, cursor: 7 } })],
    ['a huge cursor', 1, () => ({ body: { labels, cursor: 'x'.repeat(513) } })],
  ]
  for (const [kind, pages, answer] of bad) {
    labeler.asked.length = 0
    labeler.answer = answer
    await using reading = new Reading(connection, labeler, { bounds })
    await eventually(
      () => labeler.wasAskedAgain(),
      () => [kind, labeler.asked],
    )
    assert.equal(labeler.asked.indexOf(null, 1), pages, kind)
    assert.equal(reading.isDue, true, kind)
  }
  labeler.answer = () => ({ body: { labels } })
  await using reading = new Reading(connection, labeler, { bounds })
  await reading.untilDue(false)
  assert.deepEqual(await reading.inForce(labeler.did), ['a draft'])
})

test('an answer that is too large is asked for again with fewer labels, and the list is read to its end', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openTestIndex()
  const names = Array.from('abcdefghijkl')
  const labels = names.map((name) => labeler.listed(name, 'draft', 0))
  const limits: number[] = []
  labeler.answer = (cursor, limit) => {
    limits.push(limit)
    const from = Number(cursor)
    const next = from + limit < labels.length ? { cursor: String(from + limit) } : {}
    return { body: { labels: labels.slice(from, from + limit), ...next } }
  }
  await using reading = new Reading(connection, labeler, { bounds: { pageBytesMax: 1500 } })
  await reading.listing.ask()
  await reading.results.until('stored', 12)
  await reading.untilDue(false)
  assert.deepEqual(
    await reading.inForce(labeler.did),
    names.map((name) => `${name} draft`),
  )
  assert.deepEqual(limits.slice(0, 7), [250, 125, 62, 31, 15, 7, 3])
})

test('a list that takes too long is given up', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openTestIndex()
  await new LabelStore(connection).setListingDue(labeler.did, true)
  labeler.answer = (cursor) => ({ body: { labels: [7], cursor: String(Number(cursor) + 1) } })
  await using reading = new Reading(connection, labeler, { bounds: { pagesMax: Infinity, msMax: 50 } })
  await eventually(() => labeler.wasAskedAgain())
  assert.equal(reading.isDue, true)
})

test('a list without any label takes nothing back', async () => {
  await using plc = await startPlc()
  await using labeler = await ScriptedLabeler.start(plc.url)
  await using connection = await openTestIndex()
  labeler.answer = () => ({ body: { labels: [labeler.listed('a', 'draft', 0)] } })
  await using reading = new Reading(connection, labeler)
  await reading.listing.ask()
  await reading.results.until('stored', 1)
  await reading.untilDue(false)
  labeler.answer = () => ({ body: { labels: [] } })
  labeler.asked.length = 0
  await reading.listing.ask()
  await eventually(() => labeler.wasAskedAgain())
  assert.equal(reading.isDue, true)
  assert.deepEqual(await reading.inForce(labeler.did), ['a draft'])
})
