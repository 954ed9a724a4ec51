import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import type { ClientEvent } from '@tributary/client/node'
import type { Did, Nsid, RecordKey } from '@tributary/protocol'
import { eventLine } from './event-line.ts'

const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' as Did // a constant of this test
const envelope = { seq: 7, did, time: '2026-05-01T12:34:56.789012Z' }
const commit: ClientEvent = {
  ...envelope,
  kind: 'commit',
  rev: '3aaaaaaaaaaaa',
  operation: 'create',
  collection: 'org.impact.claim.activity' as Nsid, // a constant of this test
  rkey: '3k' as RecordKey, // a constant of this test
  cid: 'bafy',
  record: { $type: 'org.impact.claim.activity', title: 'Rivers \u001b[2J', text: 'x'.repeat(200) },
}
const plain = { width: 120, hasColors: false }

test('a line says when, what, whose and where, and fits the terminal', () => {
  const line = eventLine(commit, plain)
  assert.match(
    line,
    /^12:34:56\.789 {2}create {4}did:plc:a+ {2}org\.impact\.claim\.activity\/3k {2}\{"title":"Rivers /,
  )
  assert.equal(line.length, 120)
  assert.ok(line.endsWith('…'))
  assert.ok(!line.includes('\u001b'), 'a record cannot command the terminal')
})

test('a narrow terminal shows something of the record, too', () => {
  const line = eventLine({ ...commit, rkey: '3m6huuyx2sk2a' as RecordKey }, { width: 80, hasColors: false }) // a constant of this test
  assert.match(line, /^12:34:56\.789 {2}create {4}did:plc:aa…aaaa {2}…activity\/3m6huuyx2sk2a {2}\{"title":"/)
  assert.equal(line.length, 80)
  const identity: ClientEvent = { ...envelope, kind: 'identity', identity: { did, seq: 1, time: 't' } }
  assert.ok(eventLine(identity, { width: 80, hasColors: false }).endsWith(did))
})

test('colours are added around the same words', () => {
  const line = eventLine(commit, { ...plain, hasColors: true })
  assert.ok(line.includes('\u001b[32m'))
  assert.equal(stripVTControlCharacters(line), eventLine(commit, plain))
})

test('no part of a line can command the terminal, its time neither', () => {
  const time = '2026-11-25T\u001b[2J\u001b[31mX'
  for (const hasColors of [false, true]) {
    const line = eventLine({ ...commit, time, record: { a: '\u202e\u2028' } }, { ...plain, hasColors })
    assert.doesNotMatch(stripVTControlCharacters(line), /[\p{Cc}\p{Cf}\u2028]/u)
    assert.ok(!line.includes('\u001b[2J'))
  }
})

test('a record that is too deep to make JSON of is a word', () => {
  let deep: unknown[] = []
  for (let depth = 0; depth < 100_000; depth++) deep = [deep]
  assert.match(eventLine({ ...commit, record: { deep } }, plain), / {2}\(malformed\)$/)
})

test('every kind has its line', () => {
  const upstream = { did, seq: 1, time: 't' }
  const { record: _record, cid: _cid, ...rest } = commit
  const events: [ClientEvent, RegExp][] = [
    [{ ...rest, operation: 'delete' }, /delete {4}did:\S+ {2}org\.impact\.claim\.activity\/3k$/],
    [
      { ...envelope, kind: 'identity', identity: { ...upstream, handle: 'a.example' } },
      /identity {2}did:\S+ {2}a\.example$/,
    ],
    [
      { ...envelope, kind: 'account', account: { ...upstream, active: true } },
      /account {3}did:\S+ {2}active$/,
    ],
    [
      { ...envelope, kind: 'account', account: { ...upstream, active: false, status: 'deleted' } },
      / {2}deleted$/,
    ],
    [
      { ...envelope, kind: 'sync', sync: { ...upstream, rev: '3a', blocks: { $bytes: '' } } },
      /sync {6}did:\S+ {2}3a$/,
    ],
  ]
  for (const [event, expected] of events) assert.match(eventLine(event, plain), expected)
})
