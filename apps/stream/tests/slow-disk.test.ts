/** A disk that takes blocks slowly: rows that no block has stay in memory, which has a bound. */
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { mkdir, mkdtempDisposable, open as openFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Fanout, frameText } from '@tributary/fanout'
import { readMessage } from '@tributary/repo-verify'
import type { SegmentDisk } from '@tributary/segment/node'
import { createLogger } from '@tributary/telemetry'
import {
  commitBody,
  encodeEvent,
  eventually,
  SignedRepo,
  Signer,
  startPlc,
  startScriptedHost,
} from '@tributary/testkit'
import { Archive } from '../src/archive/archive.ts'
import { Delivery } from '../src/delivery/delivery.ts'
import { Ingest } from '../src/ingest/ingest.ts'
import type { RelayConnectionOptions } from '../src/ingest/relay-connection.ts'
import { RepoStates } from '../src/ingest/repo-states.ts'
import { IngestReport } from '../src/ingest/report.ts'
import { createStreamMetrics } from '../src/metrics.ts'
import { WatchedCollections } from '../src/policy/watched-collections.ts'
import { openStateDatabase } from '../src/state-database.ts'
import { storedRows } from './rows.ts'
import { apiKey, startTestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'
const tailBytesMax = 256 * 1024
const recordBytes = 20_000
/** A message, and what is kept beside it. */
const messageBytesMax = recordBytes + 2000

/** A disk on which blocks become durable only while the gate is open. */
class SlowDisk implements SegmentDisk {
  readonly rename = rename
  readonly rm = rm
  readonly mkdir = mkdir
  #gate = Promise.withResolvers<void>()

  constructor() {
    this.#gate.resolve()
  }

  shut(): void {
    this.#gate = Promise.withResolvers()
  }

  release(): void {
    this.#gate.resolve()
  }

  async open(path: string, flags: 'r' | 'r+' | 'w+') {
    const file = await openFile(path, flags)
    const [sync, datasync] = [file.sync.bind(file), file.datasync.bind(file)]
    return Object.assign(file, {
      sync: async () => await this.#gate.promise.then(sync),
      datasync: async () => await this.#gate.promise.then(datasync),
    })
  }
}

/** Ingest, archive and delivery, wired as the service does, with a relay whose events come from the test. */
async function start(directory: string) {
  const disk = new SlowDisk()
  const parts = new AsyncDisposableStack()
  const database = openStateDatabase(join(directory, 'state.sqlite'))
  parts.defer(() => void database.close())
  const states = new RepoStates(database)
  const { archive } = await Archive.open({
    directory,
    covered: states.covered,
    segmentBytesMax: 1 << 28,
    segmentAgeMsMax: 2 ** 50,
    blockAgeMsMax: 2 ** 31 - 1,
    onFailure: assert.fail,
    disk: { log: fs, segments: disk },
  })
  parts.defer(() => archive.close())
  const fanout = new Fanout({ errorFrame: frameText, clientMessages: 'refuse' })
  parts.defer(() => fanout.close())
  const delivery = new Delivery({
    segments: archive.segments,
    fanout,
    tailBytesMax,
    cacheBytesMax: 1 << 20,
    onUnreadableRow: assert.fail,
    onUnreadableBlock: assert.fail,
  })
  archive.onVisible((rows) => delivery.publish(rows))
  archive.onBlockWritten((seq) => delivery.coveredByBlocks(seq))
  archive.boundTail(() => delivery.isTailFull())
  const relay = { isPaused: false, onEvent: assert.fail as RelayConnectionOptions['onEvent'] }
  const ended = Promise.withResolvers<void>()
  const ingest = new Ingest({
    relayUrl: 'ws://relay.example.com',
    checks: undefined,
    watched: new WatchedCollections(database, [follow], 1),
    states,
    sink: archive,
    unapplied: [],
    unappliedOfBackfill: [],
    observer: new IngestReport(createLogger('test', { level: 'silent' }), createStreamMetrics()),
    connect: ({ onEvent }) => {
      relay.onEvent = onEvent
      return {
        run: async (signal) => {
          signal.addEventListener('abort', () => ended.resolve())
          await ended.promise
        },
        markHealthy: () => {},
        pause: () => (relay.isPaused = true),
        resume: () => (relay.isPaused = false),
      }
    },
  })
  ingest.start()
  parts.defer(() => ingest.close())
  parts.defer(() => disk.release())
  return { disk, archive, delivery, relay, [Symbol.asyncDispose]: () => parts.disposeAsync() }
}

test('while blocks cannot be written, the relay waits before rows take more memory than they may, and none is lost', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'slow-disk-'))
  await using stream = await start(directory.path)
  const { disk, archive, delivery, relay } = stream
  const repo = new SignedRepo('did:plc:aaaaaaaaaaaaaaaaaaaaaaaa', Signer.fromSeed('slow disk'))
  const sent: string[] = []
  const send = async (): Promise<void> => {
    const record = { text: 'x'.repeat(recordBytes) }
    const signed = repo.commit([{ action: 'create', collection: follow, rkey: `r${sent.length}`, record }])
    sent.push(signed.rev)
    const bytes = Buffer.from(
      encodeEvent('#commit', { ...commitBody(signed), seq: sent.length, time: new Date().toISOString() }),
    )
    const message = readMessage(bytes)
    assert.ok(message.ok && message.kind === 'commit')
    relay.onEvent(message, bytes.length)
    await archive.whenDurable()
  }
  disk.shut()
  while (!relay.isPaused && sent.length < 60) await send()
  assert.equal(archive.blockSeq, 0)
  assert.ok(relay.isPaused && sent.length > 6, `${sent.length} events were read`)
  assert.ok(delivery.tailBytes < tailBytesMax + 2 * messageBytesMax, `${delivery.tailBytes} bytes`)
  disk.release()
  await eventually(() => !relay.isPaused)
  while (sent.length < 60) {
    await eventually(() => !relay.isPaused)
    await send()
    assert.ok(delivery.tailBytes < tailBytesMax + 2 * messageBytesMax, `${delivery.tailBytes} bytes`)
  }
  await archive.seal()
  const stored = await storedRows(archive.segments)
  assert.deepEqual(
    stored.map(({ rev }) => rev),
    sent,
  )
})

test('rows that take more than tailMegabytes are written to a block before they fill it', async () => {
  await using plc = await startPlc()
  await using host = await startScriptedHost({ plcUrl: plc.url })
  await using stream = await startTestStream({
    relayUrl: host.url.replace('http', 'ws'),
    verify: 'off',
    collections: [follow],
    tailMegabytes: 1,
  })
  const account = await host.createAccount({ announce: false })
  const rows = 30
  for (let n = 0; n < rows; n++) account.create(follow, { text: 'x'.repeat(100_000) }, `r${n}`)
  await eventually(async () => (await stream.metric('stream_rows_total')) === rows)
  await stream.seal()
  const planned = await stream.archive('planSnapshot', {
    method: 'POST',
    headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' },
    body: '{}',
  })
  const { stats } = (await planned.json()) as { stats: { blocksMatched: number } } // by its lexicon
  assert.ok(stats.blocksMatched > 1, `${stats.blocksMatched} block`)
})
