import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { sampleMessage } from '../../tests/sample-message.ts'
import { sampleSource } from '../../tests/sample-source.ts'
import { newAccount } from '../../tests/sample-account.ts'
import { finish, newEvent } from './upstream-event.ts'

const did = 'did:plc:a' as Did // only a name here

test('the cursor passes an event when it is done and what it left behind is durable, in order', () => {
  const source = sampleSource()
  const [logged, refused, marked, last] = [11, 12, 13, 14].map((upstreamSeq) => {
    const event = newEvent(source, newAccount(did), sampleMessage(upstreamSeq), 0)
    source.begin(event.receipt)
    return event
  })
  assert.ok(logged && refused && marked && last)
  finish(refused, 0)
  finish(marked, 0, 7)
  finish(last, 0)
  assert.ok(!source.advance(7))
  finish(logged, 6)
  assert.ok(!source.advance(5))
  assert.ok(source.advance(6))
  assert.equal(source.cursor, 12)
  assert.ok(source.advance(7))
  assert.equal(source.cursor, 14)
  assert.equal(source.eventsLogged, 1)
})

/** A source of which events up to a seq have begun. */
function sourceWith(count: number) {
  const source = sampleSource()
  const account = newAccount(did)
  const events = Array.from({ length: count }, (_, i) => {
    const event = newEvent(source, account, sampleMessage(i + 1), 0)
    source.begin(event.receipt)
    return event
  })
  return { source, account, events }
}

test('what is logged above the cursor is stored by name once it is durable, so that it is not logged twice', () => {
  const { source, events } = sourceWith(3)
  assert.ok(events[1])
  finish(events[1], 7)
  assert.ok(!source.advance(6))
  assert.deepEqual(source.stored(6).ahead, [])
  assert.ok(source.advance(7))
  assert.deepEqual([source.cursor, source.stored(7).ahead], [0, [2]])
  assert.ok(!source.advance(7))
})

test('what the log has of a source at a start is named until the cursor has passed it', () => {
  const { source, events } = sourceWith(6)
  source.cursor = 2
  source.noteLogged(1, did)
  assert.ok(!source.advance(0), 'the cursor has passed it')
  source.noteLogged(5, did)
  assert.ok(source.advance(0))
  assert.ok(!source.advance(0))
  assert.deepEqual(
    [source.fateOf(did, 1), source.fateOf(did, 4), source.fateOf(did, 5), source.stored(0).ahead],
    ['overtaken', 'overtaken', 'done', [5]],
  )
  for (const event of events) finish(event, 0)
  assert.ok(source.advance(0))
  assert.deepEqual([source.cursor, source.fateOf(did, 5), source.stored(0).ahead], [6, undefined, []])
})

test('a new numbering forgets what was logged of the old one, whose events move no cursor', () => {
  const { source, events } = sourceWith(3)
  source.noteLogged(2, did)
  source.beginEpoch(0, 0)
  for (const event of events) finish(event, 0)
  source.advance(0)
  assert.deepEqual(
    [source.epoch, source.cursor, source.fateOf(did, 2), source.receivedSeq],
    [2, 0, undefined, 0],
  )
})

test('a loss is stored until what came of it is stored', () => {
  const source = sampleSource()
  source.lostAtMs = 1
  source.endLoss(7)
  assert.deepEqual([source.lostAtMs, source.stored(6).lostAtMs, source.stored(7).lostAtMs], [0, 1, 0])
  source.lostAtMs = 2
  assert.equal(source.stored(6).lostAtMs, 2)
})

test('how far a walk has come is stored when what came of it is, and only for its loss', () => {
  const source = sampleSource()
  source.lostAtMs = 1
  source.noteWalk(1, 'did:plc:b', 7)
  assert.deepEqual([source.stored(6).walkFrom, source.stored(7).walkFrom], ['', 'did:plc:b'])
  source.noteWalk(1, 'did:plc:c', 9)
  source.noteWalk(1, 'did:plc:d', 11)
  assert.deepEqual([source.stored(8).walkFrom, source.stored(9).walkFrom], ['did:plc:b', 'did:plc:c'])
  source.lostAtMs = 2
  assert.equal(source.stored(9).walkFrom, '')
})

test('a reconnect asks for what comes after all that was received, done or not', () => {
  const { source } = sourceWith(3)
  assert.deepEqual([source.cursor, source.receivedSeq], [0, 3])
})

test('the first event that is not done is known however many were passed, and accounts know what is under way', () => {
  const { source, account, events } = sourceWith(3000)
  for (const event of events.slice(0, 2000)) finish(event, 0)
  assert.deepEqual([source.openSpan, account.underWay], [1000, 1000])
  source.advance(0)
  assert.deepEqual([source.oldest?.receipt.upstreamSeq, source.openSpan, source.pending], [2001, 1000, 1000])
  for (const event of events.slice(2000)) finish(event, 0)
  assert.deepEqual([source.oldest, account.underWay], [undefined, 0])
})

test('a source that is moved on is read from there, and its cursor stays before what is not done', () => {
  const { source, events } = sourceWith(2)
  source.skipTo(9)
  source.advance(0)
  assert.deepEqual([source.receivedSeq, source.cursor, source.stored(0).ahead], [9, 0, [9]])
  for (const event of events) finish(event, 0)
  source.advance(0)
  assert.deepEqual([source.receivedSeq, source.cursor, source.pending], [9, 9, 0])
  source.skipTo(7)
  assert.equal(source.receivedSeq, 9, 'never back')
})
