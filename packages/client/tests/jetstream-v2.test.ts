/** Answers of a Jetstream v2 server, made from the golden files of that project: segments, blocks, and live messages. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type ClientEvent, createStreamClient, plainEvent } from '../src/node.ts'
import { createStreamClient as createBrowserClient } from '../src/index.ts'
import { StreamServer } from './stream-server.ts'

const vectors = join(import.meta.dirname, '../../segment/vectors')
const corpus = join(import.meta.dirname, '../../../apps/stream/vectors/corpus')
const nsidPrefix = 'network.bsky.jetstream'
const kinds = ['', 'create', 'update', 'delete', 'identity', 'account', 'sync', 'create']

interface ExpectedRow {
  seq: number
  kind: number
  did: string
  collection: string
  rkey: string
  rev: string
}

function expectedRows(file: string): ExpectedRow[] {
  const text = readFileSync(join(vectors, `${file}.expected.json`), 'utf8')
  return (JSON.parse(text) as { blocks: { events: ExpectedRow[] }[] }).blocks.flatMap(({ events }) => events) // by its README
}

/** What the expected rows and the events both say. */
function summaryOf(event: ClientEvent): unknown {
  const { seq, did, kind } = event
  const { operation, collection, rkey, rev } = event.kind === 'commit' ? event : { operation: kind }
  return { seq, kind: operation, did, collection, rkey, rev: rev ?? '' }
}

const clients = { Node: createStreamClient, browsers: createBrowserClient }
const files = [
  'corpus/golden_corpus_segment',
  'derived/synthetic_all_kinds',
  'derived/synthetic_compacted',
  'derived/synthetic_empty',
]

for (const [platform, create] of Object.entries(clients)) {
  for (const file of files) {
    test(`in ${platform} ${file} is read, as a segment and by its blocks`, async () => {
      await using server = await StreamServer.start()
      server.addSegment(new Uint8Array(readFileSync(join(vectors, `${file}.jss`))))
      for (const plansBlocks of [false, true]) {
        server.plansBlocks = plansBlocks
        const events: ClientEvent[] = []
        const client = create({ url: server.url, nsidPrefix, apiKey: 'key' })
        for await (const batch of client.snapshot()) {
          assert.deepEqual(batch.gaps, [])
          events.push(...batch.events.map(plainEvent))
        }
        assert.deepEqual(
          events.map(summaryOf),
          expectedRows(file).map(({ seq, kind, did, collection, rkey, rev }) => {
            const isCommit = kind < 4 || kind === 7
            const place = isCommit ? { collection, rkey } : { collection: undefined, rkey: undefined }
            return { seq, kind: kinds[kind], did, ...place, rev: isCommit ? rev : '' }
          }),
        )
      }
      assert.ok(server.requests.every((request) => !request.startsWith('subscribe')))
    })
  }

  test(`in ${platform} records of a golden segment have the CIDs of their repository`, async () => {
    await using server = await StreamServer.start()
    server.addSegment(new Uint8Array(readFileSync(join(vectors, 'corpus/golden_corpus_segment.jss'))))
    const cids: string[] = []
    for await (const { events } of create({ url: server.url, nsidPrefix }).snapshot())
      for (const event of events)
        if (event.kind === 'commit') cids.push(`${event.collection}/${event.rkey}\t${event.cid}`)
    const wanted = readFileSync(join(vectors, 'corpus/car_expected_records.tsv'), 'utf8').trim().split('\n')
    assert.deepEqual(cids, wanted)
  })

  test(`in ${platform} live messages are read as version 2 writes them`, async () => {
    const lines = readFileSync(join(corpus, 'expected_v1.jsonl'), 'utf8').trim().split('\n')
    const wanted = lines.map((line, i) => {
      const { did, kind, time_us: micros, commit, ...body } = JSON.parse(line) as Record<string, unknown> // as it was sent
      const time = `${new Date(Number(micros) / 1000).toISOString().slice(0, 23)}${String(Number(micros)).slice(13)}Z`
      return { kind: String(kind), payload: { seq: i + 1, did, time, ...(commit as object), ...body } }
    })
    await using server = await StreamServer.start()
    server.onSubscriber = (socket) => {
      for (const { kind, payload } of wanted) {
        const fields = Object.entries(payload).toSorted(([a], [b]) => (a < b ? -1 : 1))
        const message = {
          $type: 'message',
          payload: { $type: `${nsidPrefix}.subscribeEvents#${kind}`, ...Object.fromEntries(fields) },
        }
        // Go escapes these.
        const text = JSON.stringify(message).replace(
          /[<>&]/g,
          (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`,
        )
        socket.send(text)
      }
    }
    const events: ClientEvent[] = []
    for await (const batch of create({ url: server.url, nsidPrefix }).live({ cursor: 0 })) {
      assert.deepEqual(batch.gaps, [])
      events.push(...batch.events)
      if (batch.cursor === lines.length) break
    }
    assert.deepEqual(
      events,
      wanted.map(({ kind, payload }) => ({ kind, ...payload })),
    )
  })
}
