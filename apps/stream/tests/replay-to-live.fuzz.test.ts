import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { compileFilter, type EventFilter, eventKinds } from '@tributary/protocol'
import fc from 'fast-check'
import { eventually, randomFrom, type Random } from '@tributary/testkit'
import type { NewRow } from '../src/archive/archive.ts'
import { eventKindOf } from '../src/archive/event-kind.ts'
import { EventReader } from './event-reader.ts'
import { type LiveArchive, startLiveArchive } from './live-archive.ts'
import { newRow } from './rows.ts'

const dids = ['did:plc:a', 'did:plc:b', 'did:plc:c', 'did:web:d.test']
const collections = ['app.a.b', 'app.a.c', 'org.x.y', 'org.x.z']
const patterns = [...collections, 'app.a.*', 'org.x.*', 'org.none.*']

interface Subscription {
  filter: EventFilter
  cursor: number | undefined
  reader: EventReader
}

function pick<T>(random: Random, values: readonly T[]): T[] {
  return values.filter(() => random.next() < 0.4)
}

function anyFilter(random: Random): EventFilter {
  if (random.next() < 0.3) return {}
  const kinds = pick(random, eventKinds)
  const wantsCommits = kinds.length === 0 || kinds.includes('commit')
  return { kinds, collections: wantsCommits ? pick(random, patterns) : [], dids: pick(random, dids) }
}

function anyRow(random: Random, n: number): NewRow {
  return newRow({
    n,
    kind: random.pick([1, 1, 1, 2, 3, 4, 5, 6, 7] as const),
    did: random.pick(dids),
    collection: random.pick(collections),
    payloadBytes: random.next() < 0.1 ? 4000 : 20,
  })
}

/** Rows in bursts, with pauses in which blocks are written and subscribers come, stop reading, and go on. */
async function writeAndSubscribe(
  live: LiveArchive,
  random: Random,
  rows: readonly NewRow[],
): Promise<Subscription[]> {
  const subscriptions: Subscription[] = []
  let paused: EventReader | undefined
  for (let at = 0; at < rows.length;) {
    const burst = 1 + random.below(150)
    live.append(rows.slice(at, at + burst))
    at += burst
    for (let turns = random.below(8); turns > 0; turns--) await setImmediate()
    if (random.next() < 0.1) await live.archive.seal()
    if (random.next() < 0.4) {
      const head = live.delivery.headSeq
      const cursor = random.next() < 0.2 ? undefined : random.below(head + 2)
      const filter = anyFilter(random)
      const reader = await EventReader.open(live.url, {
        ...filter,
        ...(cursor === undefined ? {} : { cursor }),
      })
      subscriptions.push({ filter, cursor, reader })
    }
    paused?.socket.resume()
    paused = subscriptions[random.below(subscriptions.length)]?.reader
    paused?.socket.pause()
  }
  paused?.socket.resume()
  return subscriptions
}

/** One run: a failure prints the number, which as the only value of `fc.constantFrom` gives the run again. */
async function check(seed: number): Promise<void> {
  const random = randomFrom(seed)
  // Next to nothing stays in memory, so that subscribers cross between blocks and memory all the time.
  await using live = await startLiveArchive({ tailBytesMax: 5000, cacheBytesMax: 20_000, blockAgeMsMax: 2 })
  const rows = Array.from({ length: 2500 }, (_, i) => anyRow(random, i + 1))
  const subscriptions = await writeAndSubscribe(live, random, rows)
  await live.archive.whenDurable()
  await eventually(
    () => live.delivery.headSeq >= rows.length,
    () => live.delivery.headSeq,
  )

  for (const { filter, cursor, reader } of subscriptions) {
    const matches = compileFilter(filter)
    const wanted = rows.flatMap(({ draft }, i) =>
      matches({ kind: eventKindOf(draft.kind), did: draft.did, collection: draft.collection }) ? i + 1 : [],
    )
    if (cursor !== undefined || reader.seqs.length > 0) {
      const first = cursor ?? reader.seqs[0] ?? 0
      const expected = wanted.filter((seq) => seq >= first)
      if (expected.length > 0) await reader.until(() => reader.seqs.at(-1) === expected.at(-1))
      assert.deepEqual(reader.seqs, expected)
    }
    const closed = once(reader.socket, 'close')
    reader.close()
    await closed
  }
  assert.deepEqual(live.unreadable, [])
  // A group ends with its last member.
  await eventually(
    () => live.delivery.groupCount === 0,
    () => live.delivery.groupCount,
  )
}

test('every subscriber gets exactly what its filter wants, once and ascending', async () => {
  await fc.assert(fc.asyncProperty(fc.nat(), check), { numRuns: 5, endOnFailure: true })
})
