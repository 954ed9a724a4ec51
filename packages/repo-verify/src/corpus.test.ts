import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { zstdDecompressSync } from 'node:zlib'
import { decodeFrame, type Did } from '@tributary/protocol'
import {
  digestToCid,
  isSigned,
  parseMultikey,
  readMessage,
  readRepoCar,
  trustMessage,
  verifyEvent,
  type Message,
} from './index.ts'

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

function messageOf(frame: Buffer): Extract<Message, { did: Did }> {
  const message = readMessage(frame)
  assert.ok(message.ok && 'did' in message, JSON.stringify(message))
  return message
}

test('every message of the network verifies, and says what another decoder reads in it', () => {
  const kinds: Record<string, number> = {}
  for (const frame of frames()) {
    const message = messageOf(frame)
    const event = verifyEvent(frame, { key: keyOf(message.did), nowMs, strict: true })
    assert.ok(event.ok, JSON.stringify(event))
    kinds[event.kind] = (kinds[event.kind] ?? 0) + 1
    const { t, body } = decodeFrame(frame)
    assert.deepEqual([`#${message.kind}`, message.upstreamSeq], [t, body['seq']])
    assert.equal(message.did, message.kind === 'commit' ? body['repo'] : body['did'])
    assert.deepEqual(isSigned(message) ? trustMessage(message) : message, event)
  }
  assert.deepEqual(kinds, { commit: 148, identity: 1, account: 1 })
})

test('the place of the sequence number is where its bytes can be replaced', () => {
  for (const frame of frames()) {
    const { seqStart, seqEnd } = messageOf(frame)
    const replaced = Buffer.concat([
      frame.subarray(0, seqStart),
      Buffer.from([0x18, 77]),
      frame.subarray(seqEnd),
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
    const { did } = messageOf(frame)
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
