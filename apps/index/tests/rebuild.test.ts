/** On both databases: an index builds itself again while it is read, and what the stream does not tell stays. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import {
  type AccountReport,
  openGenerations,
  openIndexReader,
  openIndexWriter,
  parseDatetime,
} from '@tributary/index-store'
import type { Did, StreamEvent } from '@tributary/protocol'
import { readSettings, toEnvironment } from '@tributary/settings'
import { createLogger } from '@tributary/telemetry'
import { eventually, newPostgresDatabase, SmallStream } from '@tributary/testkit'
import { Fold } from '../src/fold/fold.ts'
import { sourceOf } from '../src/fold/followed-stream.ts'
import { startIndex } from '../src/service.ts'
import { indexSettings } from '../src/settings.ts'
import { day, did, putEvent, rowsOf, views } from './scenario.ts'

const evaluation = 'org.impact.context.evaluation'
const policy = { updateContentTypes: [] }
const labeler = 'did:web:labeler.example' as Did // DID syntax

function at(hour: number): string {
  return `${day}T${String(hour).padStart(2, '0')}:00:00.000000Z`
}

function put(seq: number, name: string, rkey: string, hour: number): StreamEvent {
  return putEvent(seq, at(12), name, evaluation, rkey, { seq, createdAt: at(hour) }).event
}

async function newPlace(t: TestContext): Promise<string> {
  const database = await newPostgresDatabase()
  if (database !== undefined) return database
  const directory = mkdtempSync(join(tmpdir(), 'rebuild-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return join(directory, 'index.sqlite')
}

/** An index that has folded these events, and has heard more than the stream tells. */
async function grown(place: string, url: string, events: readonly StreamEvent[]): Promise<void> {
  await using writer = await openIndexWriter(place)
  const fold = new Fold(writer, policy, views)
  await fold.apply(sourceOf(url), events, events.at(-1)?.seq ?? 0)
  await writer.write(async (batch) => {
    const label = { src: labeler, did: did('x'), uri: did('x'), val: 'standard', neg: 0n, cts: 5n } as const
    await batch.put('labels', [{ ...label, cid: null, exp: null }])
    await batch.put('cursors', [{ source: `labels:${labeler}`, cursor: 7n }])
    await batch.put('handles', [{ did: did('x'), handle: 'x.test' }])
    await batch.remove('handleRequests', [did('x'), did('gone')])
  })
  const seq = (await fold.statusSeq(did('gone'))) ?? 0n
  assert.ok(await fold.setHostStatus(did('gone'), seq, 'deactivated'))
}

function start(place: string, streamUrl: string) {
  const isUrl = place.startsWith('postgres:')
  const settings = readSettings(indexSettings, {
    env: toEnvironment(indexSettings, {
      port: 0,
      streamUrl,
      plcUrl: 'http://127.0.0.1:1',
      ...(isUrl ? { databaseUrl: place } : { databasePath: place }),
    }),
  })
  const logger = createLogger('rebuild-test', { level: 'silent' })
  return startIndex(settings, { logger, signal: new AbortController().signal })
}

/** Reads an account again and again, and notes each answer that differs from the one before. */
class Reading implements AsyncDisposable {
  readonly entries: string[] = []
  readonly #reader
  readonly #did: Did
  readonly #done: Promise<void>
  #isOver = false

  constructor(place: string, account: Did) {
    this.#reader = openIndexReader(place)
    this.#did = account
    this.#done = this.#read()
  }

  report(): Promise<AccountReport> {
    return this.#reader.snapshot({ timeoutMs: 60_000 }, (view) => view.account(this.#did))
  }

  async #read(): Promise<void> {
    while (!this.#isOver) {
      const { entries, handle } = await this.report()
      const seen = `${entries.map(({ kind, count }) => `${count} ${kind}`).join()} of ${handle}`
      if (this.entries.at(-1) !== seen) this.entries.push(seen)
      // The index runs in this process too.
      await setTimeout(1)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true
    await this.#done
    await this.#reader[Symbol.asyncDispose]()
  }
}

async function rebuilt(place: string): Promise<void> {
  await using generations = openGenerations(place)
  const before = await generations.current()
  await generations.askForRebuild()
  await eventually(
    async () => (await generations.current()) === before + 1,
    () => before,
  )
}

test('an index that is built again keeps first times, labels, handles and hosts’ words, and readers see no gap', async (t) => {
  const place = await newPlace(t)
  const first = [
    put(1, 'x', 'edited', 8),
    put(2, 'gone', 'hidden', 9),
    put(3, 'x', 'edited', 11),
    put(4, 'x', 'b', 10),
  ]
  await using stream = await SmallStream.start(first.slice(1))
  await grown(place, stream.url, first)
  {
    await using index = await start(place, stream.url)
    await using reading = new Reading(place, did('x'))
    await rebuilt(place)
    const health = (await (await fetch(`${index.address}/_health`)).json()) as { generation: number } // of status-server.ts
    assert.equal(health.generation, 2)
    stream.send(put(5, 'x', 'late', 13))
    await eventually(
      () => reading.entries.some((seen) => seen.startsWith('3 ')),
      () => reading.entries,
    )
    assert.deepEqual(reading.entries, ['2 evaluation.create of x.test', '3 evaluation.create of x.test'])
  }
  await using writer = await openIndexWriter(place)
  const records = await rowsOf(writer, 'records')
  const edited = records.find(({ uri }) => uri.endsWith('edited'))
  assert.equal(edited?.createdAt, parseDatetime(at(8)))
  assert.deepEqual(
    (await rowsOf(writer, 'entries')).map(({ did: author }) => author === did('x')),
    [true, true, true],
  )
  assert.deepEqual(
    (await rowsOf(writer, 'labels')).map(({ val, cts }) => [val, cts]),
    [['standard', 5n]],
  )
  assert.deepEqual(
    (await rowsOf(writer, 'cursors')).map(({ cursor }) => cursor).toSorted((a, b) => Number(a - b)),
    [5n, 7n],
  )
  const gone = (await rowsOf(writer, 'accounts')).find((account) => account.did === did('gone'))
  assert.deepEqual([gone?.hostStatus, gone?.hidden], ['deactivated', 1n])
})

test('another stream is followed after a rebuild, and what it does not have is gone', async (t) => {
  const place = await newPlace(t)
  const followed = [put(1, 'x', 'kept', 8), put(2, 'gone', 'hidden', 9), put(3, 'x', 'lost', 10)]
  const edited = putEvent(2, at(12), 'x', evaluation, 'kept', { createdAt: at(11) }).event
  await using stream = await SmallStream.start([edited])
  await grown(place, stream.url, followed)
  {
    await using index = await start(place, stream.url)
    await using reading = new Reading(place, did('x'))
    await eventually(
      async () => {
        const answer = (await (await fetch(`${index.address}/ready`)).json()) as { reason?: string } // of status-server.ts
        return answer.reason?.includes('tributary index rebuild') === true
      },
      () => 'the stream is refused',
    )
    await rebuilt(place)
    await eventually(
      () => reading.entries.at(-1)?.startsWith('1 ') === true,
      () => reading.entries,
    )
  }
  await using writer = await openIndexWriter(place)
  const records = await rowsOf(writer, 'records')
  assert.deepEqual(
    records.map(({ uri, createdAt }) => [uri.split('/').at(-1), createdAt]),
    [['kept', parseDatetime(at(8))]],
  )
  assert.equal((await rowsOf(writer, 'handles')).length, 1)
})
