import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { sampleMessage } from '../../tests/sample-message.ts'
import { sampleSource } from '../../tests/sample-source.ts'
import { SourceReader, type EventReceiver } from './source-reader.ts'
import { livePosition } from './source.ts'

/** Reads events of these numbers from a position. @returns how often numbers were left out. */
function gapsOf(position: number, seqs: readonly number[]): number {
  const source = sampleSource()
  source.cursor = position
  const receiver: EventReceiver = {
    receive: (_, message, __, lastSeq) =>
      ('upstreamSeq' in message ? message.upstreamSeq : undefined) ?? lastSeq,
  }
  const reader = new SourceReader(source, receiver)
  for (const seq of seqs) reader.take(sampleMessage(seq), 10)
  return source.gaps
}

test('numbers that a source left out are counted, also between two connections', () => {
  assert.equal(gapsOf(5, [6, 7]), 0)
  assert.equal(gapsOf(5, [5, 6]), 0, 'some send the event at the position again')
  assert.equal(gapsOf(5, [6, 9, 10]), 1)
  assert.equal(gapsOf(5, [90, 91]), 1, 'nothing else tells of what a relay has not kept')
  for (const position of [0, livePosition]) assert.equal(gapsOf(position, [90, 91]), 0, 'it begins there')
})

/** A connection on which an account sends an event every 1.1 seconds. */
function readOn() {
  let nowMs = Date.UTC(2026, 0, 1)
  const source = sampleSource(() => nowMs)
  source.reading.open()
  const reader = new SourceReader(source, { receive: () => 0 })
  let accounts = 0
  const take = (ageMs: number, account = `${accounts++}`): number => {
    nowMs += 1100
    const did = `did:plc:${account}` as Did // only a name here
    reader.take({ ...sampleMessage(1), did, time: new Date(nowMs - ageMs).toISOString() }, 10)
    return source.reading.lagMs
  }
  return { source, take, pass: (ms: number) => void (nowMs += ms) }
}

const [hourMs, yearsMs] = [3_600_000, 2e11]

test('some accounts of a source write any time into their events, and its lag is what most of them say', () => {
  for (const [honestMs, writtenMs] of [
    [0, yearsMs],
    [72 * hourMs, -yearsMs],
  ] as const) {
    const { take } = readOn()
    const lags = Array.from({ length: 100 }, (_, n) => take(n % 3 === 2 ? writtenMs : honestMs))
    assert.deepEqual([...new Set(lags)], [honestMs])
  }
})

test('an account that sends more than all others says no more of the lag than each of them', () => {
  const { take } = readOn()
  for (const account of ['a', 'b', 'c']) take(0, account)
  for (let n = 0; n < 40; n++) assert.equal(take(yearsMs, 'z'), 0)
})

test('a source that is behind has its lag with the first event of a connection, and after it was not read', () => {
  const { source, take, pass } = readOn()
  assert.equal(take(72 * hourMs), 72 * hourMs)
  for (let n = 0; n < 30; n++) take(0)
  source.reading.setPause('backlog')
  pass(hourMs)
  source.reading.setPause(undefined)
  assert.equal(take(hourMs), hourMs)
  for (let n = 0; n < 30; n++) take(0)
  pass(60_000)
  assert.equal(take(hourMs), hourMs, 'it was silent for longer than looks count')
})

test('a source that falls behind while it is read has its lag once half of the newest looks say so', () => {
  const { take } = readOn()
  for (let n = 0; n < 300; n++) take(0, `${n % 60}`)
  const lags = Array.from({ length: 20 }, () => take(hourMs))
  assert.deepEqual([lags.indexOf(hourMs), lags.at(-1)], [10, hourMs])
})

test('the lag is that of the events that come, though the date was set back', () => {
  const { source, take, pass } = readOn()
  for (let n = 0; n < 30; n++) take(0)
  source.reading.setPause('backlog')
  source.reading.setPause(undefined)
  pass(-hourMs)
  assert.equal(take(60_000), 60_000)
})
