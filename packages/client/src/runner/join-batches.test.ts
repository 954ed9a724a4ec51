/** How batches of an archive are joined: what comes out, when, and that nothing is lost or waits for what does not come. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import type { StreamEvent } from '@tributary/protocol'
import { inTime } from '@tributary/testkit'
import type { StreamBatch } from '../batch.ts'
import { joinBatches } from './join-batches.ts'

const full = 1000

/** A batch whose last event is `seq`. */
function batch(seq: number, count: number, live = false): StreamBatch {
  const events = Array.from({ length: count }, (_, index) => ({ seq: seq - count + 1 + index }))
  return { events: events as unknown as StreamEvent[], gaps: [], cursor: seq, live } // only the numbers are looked at
}

/** The batches that come out: how many events, and the cursor. Checks that no event is missing or comes twice. */
async function joined(
  read: (signal: AbortSignal) => AsyncIterable<StreamBatch>,
): Promise<[number, number][]> {
  const found: [number, number][] = []
  let last = 0
  for await (const { events, cursor } of joinBatches(read, new AbortController().signal)) {
    for (const { seq } of events) assert.equal(seq, ++last)
    found.push([events.length, cursor])
  }
  return found
}

async function* of(batches: Iterable<StreamBatch>): AsyncGenerator<StreamBatch> {
  yield* batches
}

test('full batches of an archive are joined up to a bound, and with the one at the end of the archive', async () => {
  const many = Array.from({ length: 43 }, (_, index) => batch((index + 1) * full, full))
  const end = [batch(43_007, 7), batch(43_008, 1, true), batch(43_009, 1, true)]
  assert.deepEqual(await joined(() => of([...many, ...end])), [
    [20_000, 20_000],
    [20_000, 40_000],
    [3007, 43_007],
    [1, 43_008],
    [1, 43_009],
  ])
})

test('batches of large records and live ones go on as they come, however many events they have', async () => {
  const batches = [batch(8, 8), batch(16, 8), batch(16 + full, full, true), batch(16 + 2 * full, full, true)]
  assert.equal((await joined(() => of(batches))).length, 4)
})

test('what came before a fault is handed on before the fault', async () => {
  async function* failing(): AsyncGenerator<StreamBatch> {
    yield batch(full, full)
    yield batch(2 * full, full)
    throw new RangeError('planted')
  }
  const seen: number[] = []
  const reading = async (): Promise<void> => {
    for await (const { cursor } of joinBatches(failing, new AbortController().signal)) seen.push(cursor)
  }
  await assert.rejects(reading, RangeError)
  assert.deepEqual(seen, [2 * full])
})

test('what waits is handed on when nothing more comes, and a reader may leave then', async () => {
  let hasEnded = false
  async function* silent(signal: AbortSignal): AsyncGenerator<StreamBatch> {
    yield batch(full, full)
    await once(signal, 'abort')
    hasEnded = true
  }
  const read = async (): Promise<number> => {
    for await (const { cursor } of joinBatches(silent, new AbortController().signal)) return cursor
    return 0
  }
  assert.equal(await inTime(read()), full)
  assert.ok(hasEnded)
})

test('a batch that was joined says what is missing in all of its parts', async () => {
  const gap = { source: 'archive', afterSeq: 3, throughSeq: 5, detail: 'a damaged block' } as const
  const parts = [{ ...batch(full, full), gaps: [gap] }, batch(2 * full, full)]
  for await (const { cursor, gaps } of joinBatches(() => of(parts), new AbortController().signal))
    assert.deepEqual([cursor, gaps], [2 * full, [gap]])
})
