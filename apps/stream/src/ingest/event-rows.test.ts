import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { encode, toBytes } from '@atcute/cbor'
import { ByteWriter, limits } from '@tributary/protocol'
import { type Digest, digestToCid } from '@tributary/repo-verify'
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

/** Rows show this of their records, as text. */
function shownOf(rows: ReturnType<typeof commitRows>): (string | undefined)[] {
  return rows.map(({ content }) => content && Buffer.from(content).toString())
}

test('a record that many operations of a commit name is turned into JSON once', () => {
  const message = costlyRecord(190)
  const records = Array.from({ length: 25 }, () => message.subarray(0))
  const rows = commitRows(commitOf(records), 0, assert.fail)
  assert.deepEqual([rows.length, new Set(rows.map(({ content }) => content)).size], [25, 1])
  assert.equal(shownOf(rows)[0]?.split('{"$bytes":""}').length, 191)
})

test('the CID of a record is that of the commit where its hash was checked, and is hashed where it was not', () => {
  const record = encode({ a: 1 })
  const cidOf = (cid?: string): string | undefined => {
    const { ops, ...commit } = commitOf([record])
    const rows = commitRows(
      { ...commit, ops: ops.map((op) => ({ ...op, cid: cid as Digest })) },
      0,
      assert.fail,
    )
    return /^,"cid":"(.*)","record":{"a":1}$/.exec(shownOf(rows)[0] ?? '')?.[1]
  }
  assert.equal(cidOf(), digestToCid(hash('sha256', record, 'binary') as Digest))
  const checked = Buffer.from(Array.from({ length: 32 }, (_, i) => i * 8)).toString('latin1')
  assert.equal(cidOf(checked), digestToCid(checked as Digest))
})

test('a record of too many values is read once, up to the first one too many, and gives no rows', (t) => {
  const message = costlyRecord(199_990)
  const records = Array.from({ length: 25 }, () => message.subarray(0))
  // It is called at most once for each value of a record.
  // oxlint-disable-next-line typescript/unbound-method -- called on its object below
  const { text } = ByteWriter.prototype
  let calls = 0
  ByteWriter.prototype.text = function (this: ByteWriter, value) {
    calls++
    text.call(this, value)
  }
  t.after(() => {
    ByteWriter.prototype.text = text
  })
  const dropped: string[] = []
  const rows = commitRows(commitOf(records), 0, (reason) => dropped.push(reason))
  assert.equal(rows.length, 0)
  assert.ok(calls > 0 && calls <= limits.recordValues, `${calls} calls`)
  assert.deepEqual(new Set(dropped), new Set(['unreadable-record']))
  assert.equal(dropped.length, 25)
})

test('a record that is no map, or larger than a record may be, gives no row, whoever is trusted with it', () => {
  const text = (bytes: number): Uint8Array => encode({ a: 'x'.repeat(bytes) })
  const over = text(limits.recordBytes).length - limits.recordBytes
  const records = [
    text(limits.recordBytes - over),
    text(limits.recordBytes - over + 1),
    encode(['a']),
    encode('a'),
  ]
  const dropped: string[] = []
  const rows = commitRows(commitOf(records), 0, (reason) => dropped.push(reason))
  assert.deepEqual(
    rows.map(({ draft }) => draft.payload.length),
    [limits.recordBytes],
  )
  assert.deepEqual(
    dropped,
    Array.from({ length: 3 }, () => 'unreadable-record'),
  )
})

test('records that begin at the same place of other messages, or end elsewhere, are told apart', () => {
  const [one, two] = [Buffer.from('a1616101', 'hex'), Buffer.from('a1616102', 'hex')]
  const both = Buffer.concat([one, two])
  const records = [new Uint8Array(one), new Uint8Array(two), both.subarray(0, 4), both.subarray(4), both]
  const dropped: string[] = []
  const rows = commitRows(commitOf(records), 0, (reason) => dropped.push(reason))
  const shown = shownOf(rows).map((text) => text?.replace(/^.*"record":/, ''))
  assert.deepEqual(shown, ['{"a":1}', '{"a":2}', '{"a":1}', '{"a":2}'])
  assert.deepEqual(dropped, ['unreadable-record'])
})
