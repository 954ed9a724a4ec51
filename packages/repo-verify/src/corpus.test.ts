import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { zstdDecompressSync } from 'node:zlib'
import { decodeFrame, type Did } from '@tributary/protocol'
import { digestToCid, parseMultikey, peekFrame, readRepoCar, readTrustedEvent, verifyEvent } from './index.ts'

const captured = new URL('../vectors/corpus/', import.meta.url)
const nowMs = Date.parse('2026-07-04T14:40:00Z')

function read(name: string): Buffer {
  return readFileSync(new URL(name, captured))
}

/** Messages of a relay of the network, as they came. */
function* frames(): Generator<Buffer> {
  const bytes = zstdDecompressSync(read('frames.bin.zst'))
  for (let at = 0; at < bytes.length; at += 4 + bytes.readUInt32LE(at)) {
    yield bytes.subarray(at + 4, at + 4 + bytes.readUInt32LE(at))
  }
}

interface Document {
  verificationMethod: { id: string; publicKeyMultibase: string }[]
}

const documents = JSON.parse(zstdDecompressSync(read('did_docs.json.zst')).toString()) as Record<
  string,
  Document
> // our own file

function keyOf(did: string | undefined) {
  const method = documents[did ?? '']?.verificationMethod.find(({ id }) => id.endsWith('#atproto'))
  return method && parseMultikey(method.publicKeyMultibase)
}

test('every message of the network verifies, and a glance at it tells the same', () => {
  const kinds: Record<string, number> = {}
  for (const frame of frames()) {
    const peeked = peekFrame(frame)
    const event = verifyEvent(frame, { key: keyOf(peeked?.did), nowMs, strict: true })
    assert.ok(event.ok, JSON.stringify(event))
    kinds[event.kind] = (kinds[event.kind] ?? 0) + 1
    assert.ok('upstreamSeq' in event)
    assert.deepEqual(peeked, { op: 1, t: `#${event.kind}`, did: event.did, upstreamSeq: event.upstreamSeq })
    assert.equal(decodeFrame(frame).body['seq'], event.upstreamSeq)
    assert.deepEqual(readTrustedEvent(frame), event)
  }
  assert.deepEqual(kinds, { commit: 148, identity: 1, account: 1 })
})

test('the place of the sequence number is where its bytes can be replaced', () => {
  for (const frame of frames()) {
    const event = verifyEvent(frame, { key: keyOf(peekFrame(frame)?.did), nowMs, strict: true })
    assert.ok(event.ok && 'seqStart' in event)
    const replaced = Buffer.concat([
      frame.subarray(0, event.seqStart),
      Buffer.from([0x18, 77]),
      frame.subarray(event.seqEnd),
    ])
    assert.deepEqual(decodeFrame(replaced), {
      ...decodeFrame(frame),
      body: { ...decodeFrame(frame).body, seq: 77 },
    })
  }
})

test("with another account's key no commit of the network verifies", () => {
  const others = Object.keys(documents)
  for (const frame of frames()) {
    const did = peekFrame(frame)?.did
    const event = verifyEvent(frame, {
      key: keyOf(others.find((other) => other !== did)),
      nowMs,
      strict: true,
    })
    if (!event.ok) assert.equal(event.reason, 'bad-signature')
    else assert.notEqual(event.kind, 'commit')
  }
})

test('a real repository reads as the records that its owner lists', () => {
  const did = 'did:plc:53iucmf5ldftgqyf2ac7hmhd' as Did // a DID as it stands
  const car = read('repo.car')
  const expected = read('car_expected_records.tsv').toString().trim().split('\n')
  // Its key is not part of the corpus, so the signature is the one thing that cannot pass.
  const key = keyOf(Object.keys(documents)[0])
  assert.ok(key)
  const refusal = readRepoCar(car, { did, key, nowMs })
  assert.equal(refusal.ok || refusal.reason, 'bad-signature')
  const repo = readRepoCar(car, { did, key: 'unchecked', nowMs })
  assert.ok(repo.ok, JSON.stringify(repo))
  assert.equal(repo.rev, '3migo7fijwi2k')
  assert.equal(digestToCid(repo.data), 'bafyreidigqr65jj2zsmitco3fcuag6pi7std6quxa2bcp2xrpin44ikzsy')
  assert.deepEqual(
    repo.records.map(({ collection, rkey, cid }) => `${collection}/${rkey}\t${digestToCid(cid)}`),
    expected,
  )
})
