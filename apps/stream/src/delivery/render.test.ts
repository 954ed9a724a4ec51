import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode, toBytes } from '@atcute/cbor'
import { type Row, type RowKind, rowKind } from '@tributary/segment'
import { renderError, renderInfo, rowText } from './render.ts'

const relay = { did: 'did:plc:a', seq: 7, time: '2026-01-01T00:00:00.000Z' }

function payloadOf(kind: RowKind, more: Record<string, unknown> = {}): Record<string, unknown> {
  const row: Row = {
    seq: 12,
    witnessedAt: 1_725_911_162_329_308,
    indexedAt: 0,
    kind,
    collection: kind < 4 || kind === 7 ? 'app.a.b' : '',
    did: 'did:plc:a',
    rkey: kind < 4 || kind === 7 ? 'k' : '',
    rev: '3kabcdefghijk',
    payload: kind === rowKind.delete ? new Uint8Array(0) : encode({ ...relay, ...more }),
  }
  const message = JSON.parse(rowText(row)) as {
    $type: string
    payload: Record<string, unknown>
  }
  assert.equal(message.$type, 'message')
  return message.payload
}

const envelope = { seq: 12, did: 'did:plc:a', time: '2024-09-09T19:46:02.329308Z' }
const name = (kind: string): string => `network.social.stream.subscribeEvents#${kind}`

test('creates, updates and records of a resync carry record and CID, deletes neither', () => {
  const common = {
    $type: name('commit'),
    ...envelope,
    rev: '3kabcdefghijk',
    collection: 'app.a.b',
    rkey: 'k',
  }
  const cid = 'bafyreifibqknt55cyqa4ciur6q4pdwg4iyhxvobeg4ukuc6ozycwmzo7oy'
  assert.deepEqual(payloadOf(rowKind.delete), { ...common, operation: 'delete' })
  for (const [kind, operation] of [
    [rowKind.create, 'create'],
    [rowKind.createResync, 'create'],
    [rowKind.update, 'update'],
  ] as const) {
    const payload = payloadOf(kind)
    assert.match(String(payload['cid']), /^bafyrei[a-z2-7]{52}$/)
    assert.deepEqual({ ...payload, cid }, { ...common, operation, cid, record: relay })
  }
})

test('markers carry the upstream event, without fields that the lexicon does not know', () => {
  const more = { handle: 'a.test', active: false, status: 'deleted', future: { deep: [1] } }
  assert.deepEqual(payloadOf(rowKind.identity, more), {
    $type: name('identity'),
    ...envelope,
    identity: { ...relay, handle: 'a.test' },
  })
  assert.deepEqual(payloadOf(rowKind.account, more), {
    $type: name('account'),
    ...envelope,
    account: { ...relay, active: false, status: 'deleted' },
  })
  assert.deepEqual(payloadOf(rowKind.sync, { rev: 'r', blocks: toBytes(Uint8Array.of(1, 2, 3, 4)) }), {
    $type: name('sync'),
    ...envelope,
    sync: { ...relay, rev: 'r', blocks: { $bytes: 'AQIDBA' } },
  })
})

test('notices and errors escape what they are given', () => {
  assert.deepEqual(JSON.parse(renderInfo({ name: 'FutureCursor', message: 'a "b"\n' })), {
    $type: 'message',
    payload: { $type: name('info'), name: 'FutureCursor', message: 'a "b"\n' },
  })
  assert.deepEqual(JSON.parse(renderError('ConsumerTooSlow', '"')), {
    $type: 'error',
    error: 'ConsumerTooSlow',
    message: '"',
  })
})
