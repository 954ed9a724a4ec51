import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decode, encode } from '@atcute/cbor'
import { readDidDocument } from '@tributary/identity'
import { decodeFrame } from '@tributary/protocol'
import { isSigned, readMessage, verifyMessage } from '@tributary/repo-verify'
import type { NewRow } from '../src/archive/archive.ts'
import { commitRows, markerRow } from '../src/ingest/event-rows.ts'
import { renderRow } from '../src/replay/render.ts'
import { corpusCapturedMs, corpusDidDocuments, corpusExpectedV1, corpusFrames } from './corpus.ts'

/** The rows of a frame, as the ingest makes them. */
function rowsOf(frame: Buffer): NewRow[] {
  const message = readMessage(frame)
  assert.ok(message.ok)
  if (message.kind === 'identity') return [markerRow(4, message, 0)]
  if (message.kind === 'account') return [markerRow(5, message, 0)]
  assert.equal(message.kind, 'commit')
  if (!isSigned(message)) return []
  const document = corpusDidDocuments().get(message.did)
  const key = readDidDocument(document, message.did, 0)?.signingKey
  const options = { key, nowMs: corpusCapturedMs, strict: true, isWanted: () => true }
  const commit = verifyMessage(message, options)
  assert.ok(commit.ok && commit.kind === 'commit')
  return commitRows(commit, 0, (reason) => assert.fail(reason))
}

/** An event of ours in the form of version 1, without what only one of the two has. */
function asV1(text: string): unknown {
  const { $type, payload } = JSON.parse(text) as { $type: string; payload: Record<string, unknown> }
  assert.equal($type, 'message')
  const { $type: name, did, seq: _seq, time: _time, ...rest } = payload
  const kind = String(name).split('#')[1] ?? ''
  return kind === 'commit' ? { did, kind, commit: rest } : { did, kind, ...rest }
}

test('real frames of the public relay give the events that a production server sent for them', () => {
  const rendered = corpusFrames()
    .flatMap(rowsOf)
    .flatMap(({ draft, recordJson }, i) => {
      const row = { ...draft, seq: i + 1 }
      const fromArchive = renderRow(row)
      assert.equal(renderRow(row, recordJson), fromArchive, 'a live row and an archived one read the same')
      return [asV1(fromArchive)]
    })
  const expected = corpusExpectedV1().map(({ time_us: _time, ...event }) => event)
  assert.equal(rendered.length, 152)
  assert.deepEqual(rendered, expected)
})

test('the payload of an identity or account row is the body of the frame, byte for byte', () => {
  const markers = corpusFrames().filter((frame) => decodeFrame(frame).t !== '#commit')
  assert.equal(markers.length, 2)
  for (const frame of markers) {
    const [row] = rowsOf(frame)
    assert.ok(row)
    assert.deepEqual(row.draft.payload, frame.subarray(-row.draft.payload.length))
    assert.deepEqual(Buffer.from(encode(decode(row.draft.payload))), row.draft.payload)
  }
})
