import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode, toBytes } from '@atcute/cbor'
import { recordCborToJson } from '@tributary/protocol'
import type { GoodCommit } from '../verify/verified.ts'
import { commitRows } from './event-rows.ts'

/** A list of so many empty byte strings: each is one byte, and 14 characters of JSON. */
function costlyRecord(items: number): Uint8Array {
  const empty = toBytes(new Uint8Array(0))
  return encode({ a: Array.from({ length: items }, () => empty) })
}

function commitOf(records: readonly Uint8Array[]): GoodCommit {
  const ops = records.map((record, i) => ({
    action: 'create',
    collection: 'org.impact.one',
    rkey: `r${i}`,
    record,
  }))
  return { did: 'did:plc:a', rev: '3aaaaaaaaaaa2', ops, dropped: [] } as unknown as GoodCommit // as far as it is looked at
}

test('a record that many operations of a commit name is turned into JSON once', (t) => {
  const message = costlyRecord(190)
  const records = Array.from({ length: 25 }, () => message.subarray(0))
  const json = recordCborToJson(message)
  // It is called once for each text of a record, and this record has one.
  const stringify = t.mock.method(JSON, 'stringify')
  const rows = commitRows(commitOf(records), 0, assert.fail)
  assert.equal(stringify.mock.callCount(), 1)
  assert.deepEqual(
    rows.map(({ recordJson }) => recordJson),
    Array.from({ length: 25 }, () => json),
  )
})

test('a record of too many values is read once, up to the first one too many, and gives no rows', (t) => {
  const message = costlyRecord(199_990)
  const records = Array.from({ length: 25 }, () => message.subarray(0))
  const stringify = t.mock.method(JSON, 'stringify')
  const dropped: string[] = []
  const rows = commitRows(commitOf(records), 0, (reason) => dropped.push(reason))
  assert.deepEqual([rows.length, stringify.mock.callCount()], [0, 1])
  assert.deepEqual(new Set(dropped), new Set(['unreadable-record']))
  assert.equal(dropped.length, 25)
})

test('records that begin at the same place of other messages, or end elsewhere, are told apart', () => {
  const [one, two] = [Buffer.from('a1616101', 'hex'), Buffer.from('a1616102', 'hex')]
  const both = Buffer.concat([one, two])
  const records = [new Uint8Array(one), new Uint8Array(two), both.subarray(0, 4), both.subarray(4), both]
  const dropped: string[] = []
  const rows = commitRows(commitOf(records), 0, (reason) => dropped.push(reason))
  assert.deepEqual(
    rows.map(({ recordJson }) => recordJson),
    ['{"a":1}', '{"a":2}', '{"a":1}', '{"a":2}'],
  )
  assert.deepEqual(dropped, ['unreadable-record'])
})
