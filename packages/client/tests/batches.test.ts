/** The runner of whole batches: a database that keeps the cursor has each event once, whatever happens. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import {
  type BatchStore,
  createStreamClient,
  plainEvent,
  runBatches,
  type StreamBatch,
  type StreamGap,
} from '../src/node.ts'
import { row, rows, StreamServer } from './stream-server.ts'

/** Counts events in a database. `fail` may throw before a transaction is written, and after it. */
class Counts implements BatchStore, Disposable {
  readonly #database = new DatabaseSync(':memory:')
  fail: (at: 'before' | 'after') => void = () => undefined

  constructor() {
    this.#database.exec(
      'create table counts (seq integer primary key, count integer) strict; create table place (cursor integer) strict',
    )
  }

  async load(): Promise<number | undefined> {
    const found = this.#database.prepare('select cursor from place').get()
    return found && Number(found['cursor'])
  }

  async write({ events, cursor }: StreamBatch): Promise<void> {
    this.#database.exec('begin')
    try {
      const count = this.#database.prepare(
        'insert into counts values (?, 1) on conflict do update set count = count + 1',
      )
      for (const event of events) count.run(plainEvent(event).seq)
      this.#database.exec('delete from place')
      this.#database.prepare('insert into place values (?)').run(cursor)
      this.fail('before')
      this.#database.exec('commit')
    } catch (error) {
      this.#database.exec('rollback')
      throw error
    }
    this.fail('after')
  }

  /** The seqs that were counted, and how often. */
  all(): Record<string, unknown>[] {
    return this.#database
      .prepare('select seq, count from counts order by seq')
      .all()
      .map((each) => ({ ...each }))
  }

  [Symbol.dispose](): void {
    this.#database.close()
  }
}

test('whatever fails on the way, each event is in the database once', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 40))
  await server.append(...rows(41, 59), row(60))
  using counts = new Counts()
  const client = createStreamClient({ url: server.url, apiKey: 'key' })
  let writes = 0
  counts.fail = (at) => {
    if (at === 'before' ? writes++ % 3 === 0 : writes % 3 === 2) throw new RangeError('planted')
  }
  let failures = 0
  for (let isDone = false; !isDone;) {
    const onReport = ({ gap }: { gap: StreamGap }): void => assert.fail(gap.detail)
    const run = runBatches({ client, store: counts, onReport, read: { throughSeq: 60 } })
    isDone = await run.then(
      () => true,
      (error: unknown) => {
        assert.ok(error instanceof RangeError)
        assert.ok(++failures < 10)
        return false
      },
    )
  }
  assert.ok(failures >= 2, `${failures} failures`)
  assert.deepEqual(
    counts.all(),
    Array.from({ length: 60 }, (_, index) => ({ seq: index + 1, count: 1 })),
  )
})

test('what cannot be read is told before the batch without it is written, and a signal ends the run', async () => {
  const gap = { source: 'archive', afterSeq: 3, throughSeq: 5, detail: 'a damaged block' } as const
  const batch = (cursor: number): StreamBatch => ({ events: [], gaps: [gap], cursor, live: true })
  async function* replay(): AsyncGenerator<StreamBatch, void> {
    yield batch(6)
    yield batch(7)
  }
  const told: unknown[] = []
  const stop = new AbortController()
  await runBatches({
    client: { replay },
    store: {
      load: async () => undefined,
      write: async ({ cursor }) => {
        told.push(cursor)
        stop.abort()
      },
    },
    onReport: (report) => told.push(report),
    signal: stop.signal,
  })
  assert.deepEqual(told, [{ type: 'gap', gap }, 6])
})
