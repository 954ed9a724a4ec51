import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decode, encode } from '@atcute/cbor'
import { readDidDocument } from '@tributary/identity'
import { decodeFrame } from '@tributary/protocol'
import { isSigned, readMessage, verifyMessage } from '@tributary/repo-verify'
import type { NewRow } from '../src/archive/archive.ts'
import { commitRows, markerRow } from '../src/ingest/event-rows.ts'
import { LiveRun } from '../src/delivery/live-run.ts'
import { frameRow } from '../src/delivery/render.ts'
import { messageOf } from '../src/delivery/rendition.ts'
import { v1Rendition } from '../src/delivery/v1-rendition.ts'
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

/** A row in the form of version 1, as text. */
function asV1(own: Uint8Array): string {
  const message = Buffer.from(messageOf(v1Rendition.frame(own)))
  assert.equal(v1Rendition.messageBytes(own), message.length)
  return message.toString()
}

/** Names of fields, and of those of the object that has the name of the kind, in order. */
function fieldsOf(event: Record<string, unknown>, except: readonly string[] = []): string[] {
  const inner = event[String(event['kind'])] as object
  return [...Object.keys(event).filter((name) => !except.includes(name)), ...Object.keys(inner)]
}

test('real frames of the public relay give the events that a production server sent for them', () => {
  const rendered = corpusFrames()
    .flatMap(rowsOf)
    .flatMap(({ draft, content }, i) => {
      const row = { ...draft, seq: i + 1, indexedAt: 0, witnessedAt: 1_750_000_000_000_123 }
      const fromArchive = frameRow(row)
      const live = new LiveRun([content ? { row, content } : { row }])
      assert.deepEqual(live.frames, fromArchive, 'a live row and an archived one read the same')
      return [asV1(fromArchive)]
    })
  const expected = corpusExpectedV1()
  const events = rendered.map((text) => JSON.parse(text) as Record<string, unknown>)
  assert.equal(events.length, 152)
  assert.deepEqual(
    events,
    // The server of the capture had a clock of its own and no cursors.
    expected.map((event, i) => ({ ...event, time_us: 1_750_000_000_000_123, cursor: i + 1 })),
  )
  // Fields come in the same order, too; those of records are sorted here.
  for (const [i, text] of rendered.entries()) {
    const event: Record<string, unknown> = events[i] ?? {}
    assert.deepEqual(fieldsOf(event, ['cursor']), fieldsOf(expected[i] ?? {}))
    assert.equal(JSON.stringify(event), text)
  }
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
