import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BytesWrapper, encode, toBytes } from '@atcute/cbor'
import { decodeFrame, encodeFrame, microsecondsToTid } from '@tributary/protocol'
import { readMessage, verifyEvent, withFields, type RefusalReason } from '../src/index.ts'
import {
  block,
  blockOf,
  carOf,
  commitFrame,
  link,
  signedCommit,
  syncFrame,
  type CarBlock,
} from './frame-builder.ts'
import { recordFrame } from './forged-tree.ts'
import { carOfBlocks, isSame, sampleCommit, sampleDid } from './sample-commit.ts'

const sample = await sampleCommit()
const { commit, blocks, keypair, options } = sample
const [commitBlock, ...otherBlocks] = blocks
assert.ok(commitBlock)
const [created, updated, deleted] = commit.ops
assert.ok(created?.cid && updated?.cid && updated.prev && deleted?.prev)
const createdCid = created.cid
const root = treeRoot()
const otherCid = block({ other: true }).cid
const dataLink = { did: sampleDid, rev: commit.rev, data: root }

/** The CID of the root of the sample's tree. */
function treeRoot(): Uint8Array {
  const event = verifyEvent(commitFrame(commit), options)
  assert.ok(event.ok && event.kind === 'commit', JSON.stringify(event))
  return Buffer.concat([Uint8Array.of(1, 0x71, 0x12, 0x20), Buffer.from(event.data, 'latin1')])
}

function withBlocks(changed: readonly CarBlock[]): Uint8Array {
  return commitFrame({ ...commit, blocks: carOfBlocks(changed) })
}

/** The sample with another commit object in the place of its own. */
function withCommit(other: CarBlock): Uint8Array {
  return commitFrame({ ...commit, commit: other.cid, blocks: carOfBlocks([other, ...otherBlocks]) })
}

function withOps(...ops: typeof commit.ops): Uint8Array {
  return commitFrame({ ...commit, ops })
}

/** The sample with another block in the place of the one with this CID. */
function replaced(cid: Uint8Array, by: CarBlock): Uint8Array {
  return withBlocks(blocks.map((each) => (isSame(each.cid, cid) ? by : each)))
}

const good = commitFrame(commit)
const futureRev = microsecondsToTid((Date.now() + 6 * 60_000) * 1000, 0)
const flipped = Uint8Array.from(blocks.find(({ cid }) => isSame(cid, createdCid))?.bytes ?? [])
flipped[flipped.length - 1] = (flipped.at(-1) ?? 0) ^ 1

const tampered: [what: string, RefusalReason, frame: Uint8Array][] = [
  ['an empty message', 'malformed-frame', new Uint8Array()],
  ['a message cut off', 'malformed-frame', good.subarray(0, good.length - 1)],
  ['a byte after the end', 'malformed-frame', Buffer.concat([good, Uint8Array.of(0)])],
  ['a header without a body', 'malformed-frame', encode({ op: 1, t: '#commit' })],
  ['a header without a type', 'malformed-frame', Buffer.concat([encode({ op: 1 }), encode({})])],
  ['a float in an unknown field', 'malformed-frame', commitFrame(commit, { extra: 1.5 })],
  ['nesting of 33 levels', 'malformed-frame', commitFrame(commit, { extra: nested(32) })],
  ['a body that is no map', 'malformed-event', Buffer.concat([encode({ op: 1, t: '#commit' }), encode([])])],
  ['a missing field', 'malformed-event', commitFrame(commit, { since: undefined })],
  ['a field of the wrong type', 'malformed-event', commitFrame(commit, { ops: 'none' })],
  ['a sequence number of 0', 'malformed-event', commitFrame(commit, { seq: 0 })],
  ['an account that is no DID', 'malformed-event', commitFrame(commit, { repo: 'alice' })],
  ['a rev that is no TID', 'malformed-event', commitFrame(commit, { rev: '2026' })],
  ['201 operations', 'oversize', withOps(...Array.from({ length: 201 }, () => created))],
  ['a message over 5,000,000 bytes', 'oversize', new Uint8Array(5_000_001)],
  ['blocks of 2,000,001 bytes', 'oversize', padded(2_000_001)],
  ['a sync of 10,001 bytes', 'oversize', syncFrame({ ...commit, blocks: paddedCar(10_001, [commitBlock]) })],
  ['empty blocks', 'malformed-car', commitFrame({ ...commit, blocks: new Uint8Array() })],
  [
    'a CAR of version 2',
    'malformed-car',
    commitFrame({ ...commit, blocks: carOf([commit.commit], blocks, 2) }),
  ],
  ['a CAR without roots', 'malformed-car', commitFrame({ ...commit, blocks: carOf([], blocks) })],
  [
    'a CAR that is cut off',
    'malformed-car',
    commitFrame({ ...commit, blocks: commit.blocks.subarray(0, -1) }),
  ],
  [
    'a block of another codec',
    'malformed-car',
    replaced(createdCid, { ...blockOf(flipped), cid: rawCid(createdCid) }),
  ],
  ['a CAR without its commit', 'malformed-car', withBlocksOnly(otherBlocks)],
  ['a block that was changed', 'bad-block-hash', replaced(createdCid, { cid: createdCid, bytes: flipped })],
  [
    'a commit of version 2',
    'malformed-commit',
    withCommit(await signedCommit(keypair, dataLink, { version: 2 })),
  ],
  [
    'a commit without signature',
    'malformed-commit',
    withCommit(await signedCommit(keypair, dataLink, {}, { sig: undefined })),
  ],
  [
    'an empty signature',
    'malformed-commit',
    withCommit(await signedCommit(keypair, dataLink, {}, { sig: toBytes(new Uint8Array()) })),
  ],
  [
    'a commit without prev',
    'malformed-commit',
    withCommit(await signedCommit(keypair, dataLink, { prev: undefined })),
  ],
  [
    'a commit of no DID',
    'malformed-commit',
    withCommit(await signedCommit(keypair, { ...dataLink, did: 'alice' })),
  ],
  [
    'a rev six minutes ahead that the key of the account did not sign',
    'bad-signature',
    commitFrame({ ...commit, rev: futureRev, ...(await ahead({ sig: toBytes(new Uint8Array(64)) })) }),
  ],
  ['a rev six minutes ahead', 'future-rev', commitFrame({ ...commit, rev: futureRev, ...(await ahead()) })],
  [
    'a commit changed after signing',
    'bad-signature',
    withCommit(await signedCommit(keypair, dataLink, {}, { rev: commit.since })),
  ],
  [
    'a signature that was changed',
    'bad-signature',
    withCommit(await signedCommit(keypair, dataLink, {}, { sig: toBytes(new Uint8Array(64)) })),
  ],
  [
    'an event of another account',
    'mismatched-fields',
    commitFrame({ ...commit, did: 'did:plc:22222222222222222222222a' }),
  ],
  ['an event of another rev', 'mismatched-fields', commitFrame({ ...commit, rev: commit.since ?? '' })],
  ['an event of another commit', 'mismatched-fields', commitFrame({ ...commit, commit: otherCid })],
  ['tooBig', 'deprecated-flag', commitFrame(commit, { tooBig: true })],
  ['rebase', 'deprecated-flag', commitFrame(commit, { rebase: true })],
  ['a time that is none', 'malformed-time', commitFrame(commit, { time: 'yesterday' })],
  ['a path without key', 'invalid-ops', withOps({ ...created, path: 'org.impact.claim' }, updated, deleted)],
  [
    'a path of three parts',
    'invalid-ops',
    withOps({ ...created, path: `${created.path}/x` }, updated, deleted),
  ],
  ['an unknown action', 'invalid-ops', withOps({ ...created, action: 'move' }, updated, deleted)],
  ['a path that comes twice', 'invalid-ops', withOps(created, created, updated, deleted)],
  ['a create with prev', 'invalid-ops', withOps({ ...created, prev: otherCid }, updated, deleted)],
  ['a create without cid', 'invalid-ops', withOps({ ...created, cid: null }, updated, deleted)],
  ['a delete with cid', 'invalid-ops', withOps(created, updated, { ...deleted, cid: otherCid })],
  ['an update to the same', 'invalid-ops', withOps(created, { ...updated, prev: updated.cid }, deleted)],
  ['an update without prev', 'missing-op-prev', withOps(created, { ...updated, prev: undefined }, deleted)],
  ['a delete without prev', 'missing-op-prev', withOps(created, updated, { ...deleted, prev: undefined })],
  [
    'a record that was not sent',
    'missing-block',
    withBlocks(blocks.filter(({ cid }) => !isSame(cid, createdCid))),
  ],
  [
    'the root of the tree not sent',
    'missing-block',
    withBlocks(blocks.filter(({ cid }) => !isSame(cid, root))),
  ],
  ['an operation that was left out', 'invalid-mst', withOps(created, updated)],
  [
    'an operation that was made up',
    'invalid-mst',
    withOps(...commit.ops, { ...deleted, path: `${deleted.path}x` }),
  ],
  [
    'another action',
    'invalid-mst',
    withOps(created, { ...updated, action: 'create', prev: undefined }, deleted),
  ],
  ['another record', 'invalid-mst', withOps({ ...created, cid: updated.cid }, updated, deleted)],
  ['another prev', 'invalid-mst', withOps(created, { ...updated, prev: otherCid }, deleted)],
  ['another prevData', 'invalid-mst', commitFrame({ ...commit, prevData: otherCid })],
]

function nested(levels: number): unknown {
  return levels === 0 ? null : [nested(levels - 1)]
}

function rawCid(cid: Uint8Array): Uint8Array {
  return Uint8Array.from(cid, (byte, i) => (i === 1 ? 0x55 : byte))
}

function withBlocksOnly(some: readonly CarBlock[]): Uint8Array {
  return commitFrame({ ...commit, blocks: carOf([commit.commit], some) })
}

async function ahead(changed: Record<string, unknown> = {}) {
  const other = await signedCommit(keypair, { ...dataLink, rev: futureRev }, {}, changed)
  return { commit: other.cid, blocks: carOfBlocks([other, ...otherBlocks]) }
}

/** A CAR of exactly so many bytes, filled up with a block that belongs to nothing. */
function paddedCar(size: number, some: readonly CarBlock[]): Uint8Array {
  const bare = carOfBlocks([...some, blockOf(new Uint8Array(9000))]).length - 9000
  return carOfBlocks([...some, blockOf(new Uint8Array(size - bare - (size > 20_000 ? 1 : 0)))])
}

function padded(size: number): Uint8Array {
  return commitFrame({ ...commit, blocks: paddedCar(size, blocks) })
}

test('the commit that the others are made of is good', () => {
  assert.equal(verifyEvent(good, options).ok, true)
})

for (const [what, reason, frame] of tampered) {
  test(`${what}: ${reason}`, () => {
    const refusal = verifyEvent(frame, options)
    assert.equal(refusal.ok ? 'passed' : refusal.reason, reason, JSON.stringify(refusal))
  })
}

test('blocks of exactly 2,000,000 bytes and a sync of exactly 10,000 pass', () => {
  assert.equal(paddedCar(2_000_000, blocks).length, 2_000_000)
  assert.equal(verifyEvent(padded(2_000_000), options).ok, true)
  const sync = verifyEvent(syncFrame({ ...commit, blocks: paddedCar(10_000, [commitBlock]) }), options)
  assert.ok(sync.ok && sync.kind === 'sync')
})

test('a message passes when it has at most 5,000,000 bytes with any other seq, too', () => {
  const withBytes = (bytes: number, seq: number) => {
    const frameOf = (padding: number) =>
      commitFrame(commit, { seq, zzzzzzzzzzzz: toBytes(new Uint8Array(padding)) })
    return frameOf(bytes - frameOf(100_000).length + 100_000)
  }
  const read = (bytes: number, seq: number) =>
    partOf(verifyEvent(withBytes(bytes, seq), options), 'ok', 'reason')
  for (const [seq, seqBytes] of [
    [1, 1],
    [100_000, 5],
    [2 ** 40, 9],
  ] as const) {
    assert.equal(read(4_999_991 + seqBytes, seq)['ok'], true)
    assert.deepEqual(read(4_999_992 + seqBytes, seq), { ok: false, reason: 'oversize' })
  }
})

test('an account event can be read with a status put in, or is refused', () => {
  const read = (count: number, more: Record<string, unknown> = {}) => {
    const others = Array.from({ length: count - 4 - Object.keys(more).length }, (_, i) => [
      `field${i + 10}`,
      i,
    ])
    const body = { seq: 1, did: sampleDid, time: '2026-07-04T14:39:14.123Z', active: true, ...more }
    return readMessage(encodeFrame('#account', { ...body, ...Object.fromEntries(others) }))
  }
  const largest = read(63)
  assert.ok(largest.ok)
  assert.ok(readMessage(withFields(largest, new Map([['status', encode('throttled')]]))).ok)
  assert.ok(read(64, { status: 'throttled' }).ok)
  assert.equal(partOf(read(64), 'reason')['reason'], 'malformed-event')
})

test('a message has at most 524,288 bytes of text and 10,000 values beside what is known of it', () => {
  const known = { seq: 1, did: sampleDid, time: '2026-07-04T14:39:14.123Z', active: true }
  const read = (more: unknown) => partOf(readMessage(encodeFrame('#account', { ...known, more })), 'reason')
  assert.deepEqual(read('x'.repeat(524_000)), { reason: undefined })
  assert.deepEqual(read('x'.repeat(524_289)), { reason: 'malformed-event' })
  assert.deepEqual(read(['x'.repeat(300_000), 'é'.repeat(150_000)]), { reason: 'malformed-event' })
  assert.deepEqual(read(new Uint8Array(4_000_000)), { reason: undefined })
  assert.deepEqual(read(Array.from({ length: 9999 }, () => 0)), { reason: undefined })
  assert.deepEqual(read(Array.from({ length: 10_000 }, () => 0)), { reason: 'malformed-event' })
})

test('without a key nothing signed passes', () => {
  for (const frame of [good, syncFrame({ ...commit, blocks: carOfBlocks([commitBlock]) })]) {
    const refusal = verifyEvent(frame, { ...options, key: undefined })
    assert.equal(refusal.ok || refusal.reason, 'missing-key')
  }
})

test('lenient mode lets pass what hosts before Sync 1.1 send, says so, and nothing else', () => {
  const waived = (frame: Uint8Array) => {
    const event = verifyEvent(frame, { ...options, strict: false })
    return event.ok && event.kind === 'commit' ? event.waived : event
  }
  assert.deepEqual(waived(good), [])
  const lenient = new Set([
    'deprecated-flag',
    'malformed-time',
    'missing-op-prev',
    'missing-block',
    'invalid-mst',
  ])
  for (const [what, reason, frame] of tampered) {
    const result = waived(frame)
    if (lenient.has(reason)) assert.deepEqual(result, [reason], what)
    else assert.ok(!Array.isArray(result), what)
  }
})

test('unknown fields are ignored, but every key must be in its place, and none may come twice', () => {
  const { body } = decodeFrame(good)
  const header = encode({ op: 1, t: '#commit' })
  const inOrder = Object.entries(body).toSorted(([a], [b]) => a.length - b.length || (a < b ? -1 : 1))
  const read = (pairs: [string, unknown][]) => verifyEvent(Buffer.concat([header, mapOf(pairs)]), options)
  const first: [string, unknown] = ['a', -5]
  const last: [string, unknown] = ['unknownField', { a: [1, null, true, 'ü', link(otherCid)] }]
  assert.deepEqual(read([first, ...inOrder, last]), read(inOrder))
  assert.equal(read(inOrder).ok, true)
  assert.equal(partOf(read(inOrder.toReversed()), 'reason')['reason'], 'malformed-frame')
  assert.equal(partOf(read([...inOrder, ['prevData', null]]), 'reason')['reason'], 'malformed-frame')
  assert.equal(partOf(read([first, first, ...inOrder]), 'reason')['reason'], 'malformed-frame')
})

test('a value that decoders in use cannot keep is refused, wherever it stands', () => {
  const read = (value: unknown) =>
    partOf(verifyEvent(commitFrame(commit, { zzzzzzzzzz: value }), options), 'ok', 'reason')
  const refused = { ok: false, reason: 'malformed-event' }
  assert.deepEqual(read({ plain: [1, 'x', link(otherCid)] })['ok'], true)
  for (const key of ['constructor', '$link', '$bytes']) {
    const bytes = commitFrame(commit, { zzzzzzzzzz: { ['x'.repeat(key.length)]: 1 } })
    const at = Buffer.from(bytes).lastIndexOf('x'.repeat(key.length))
    const changed = Buffer.from(bytes)
    changed.write(key, at)
    assert.deepEqual(partOf(verifyEvent(changed, options), 'ok', 'reason'), refused, key)
  }
  assert.deepEqual(read('\ufeffx'), refused)
  assert.deepEqual(read(2 ** 53 - 1)['ok'], true)
  // The two integers that are one too large, in the place of the two largest.
  for (const [value, hex, larger] of [
    [2 ** 53 - 1, '1b001fffffffffffff', '1b0020000000000000'],
    [1 - 2 ** 53, '3b001ffffffffffffe', '3b001fffffffffffff'],
  ] as const) {
    const bytes = Buffer.from(commitFrame(commit, { zzzzzzzzzz: value })).toString('hex')
    assert.ok(bytes.includes(hex))
    const changed = Buffer.from(bytes.replace(hex, larger), 'hex')
    assert.deepEqual(partOf(verifyEvent(changed, options), 'ok', 'reason'), refused)
  }
  assert.deepEqual(read(link(Uint8Array.of(1, 0x71, 0x12, 0x20, 1))), refused)
  assert.deepEqual(read(1.5), { ok: false, reason: 'malformed-frame' })
})

test('the time of every event is a datetime', () => {
  const known = { seq: 9, did: sampleDid, time: '2026-07-04T14:39:14Z' }
  for (const [type, body] of [
    ['#account', { ...known, active: true }],
    ['#identity', known],
    ['#sync', { ...known, rev: commit.rev, blocks: commit.blocks }],
  ] as const) {
    const read = (time: string) => partOf(readMessage(encodeFrame(type, { ...body, time })), 'ok', 'reason')
    assert.deepEqual(read(known.time), { ok: true, reason: undefined }, type)
    assert.deepEqual(read('yesterday'), { ok: false, reason: 'malformed-event' }, type)
  }
})

test('an event that names two accounts is refused, whichever comes first', () => {
  const other = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa'
  const reason = (frame: Uint8Array) => partOf(verifyEvent(frame, options), 'reason')['reason']
  assert.equal(reason(commitFrame(commit, { did: other })), 'malformed-event')
  const account = { seq: 9, did: sampleDid, time: '2026-07-04T14:39:14Z', active: true }
  assert.equal(reason(encodeFrame('#account', { ...account, repo: other })), 'malformed-event')
  const { did, ...nameless } = account
  assert.equal(reason(encodeFrame('#account', { ...nameless, repo: did })), 'malformed-event')
  assert.equal(reason(encodeFrame('#account', account)), undefined)
})

/** A map of at most 23 pairs in the order in which they are given. */
function mapOf(pairs: [string, unknown][]): Uint8Array {
  return Buffer.concat([
    Uint8Array.of(0xa0 + pairs.length),
    ...pairs.flatMap(([key, value]) => [encode(key), encode(value)]),
  ])
}

test('events without blocks are read, and their optional fields may be missing', () => {
  const read = (t: string, body: Record<string, unknown>) => verifyEvent(encodeFrame(t, body), options)
  const common = { seq: 9, did: sampleDid, time: '2026-07-04T14:39:14Z' }
  assert.deepEqual(
    partOf(read('#identity', { ...common, handle: 'alice.test' }), 'kind', 'did', 'handle', 'upstreamSeq'),
    {
      kind: 'identity',
      did: sampleDid,
      handle: 'alice.test',
      upstreamSeq: 9,
    },
  )
  assert.deepEqual(
    partOf(read('#account', { ...common, active: false, status: 'deleted' }), 'active', 'status'),
    {
      active: false,
      status: 'deleted',
    },
  )
  assert.deepEqual(partOf(read('#info', { name: 'OutdatedCursor' }), 'ok', 'kind', 'name', 'message'), {
    ok: true,
    kind: 'info',
    name: 'OutdatedCursor',
    message: undefined,
  })
  assert.deepEqual(partOf(read('#handle', { ...common, handle: 'x' }), 'kind', 'op', 't', 'upstreamSeq'), {
    kind: 'unknown',
    op: 1,
    t: '#handle',
    upstreamSeq: 9,
  })
  assert.equal(partOf(read('#identity', common), 'handle')['handle'], undefined)
  assert.equal(partOf(read('#account', common), 'reason')['reason'], 'malformed-event')
  const error = verifyEvent(
    Buffer.concat([encode({ op: -1 }), encode({ error: 'FutureCursor', message: 'ahead' })]),
    options,
  )
  assert.deepEqual(partOf(error, 'kind', 'error', 'message'), {
    kind: 'error',
    error: 'FutureCursor',
    message: 'ahead',
  })
})

function partOf(value: object, ...names: string[]): Record<string, unknown> {
  const all = value as Record<string, unknown> // only looked at
  return Object.fromEntries(names.map((name) => [name, all[name]]))
}

test('records must be maps that any consumer can decode, of at most 1,000,000 bytes', async () => {
  const reason = async (bytes: Uint8Array) => {
    const event = verifyEvent(await recordFrame(keypair, bytes), options)
    return event.ok || event.reason
  }
  assert.equal(
    await reason(
      encode({ $type: 'org.impact.claim.activity', x: 1.5, y: new BytesWrapper(new Uint8Array(3)) }),
    ),
    true,
  )
  assert.equal(await reason(encode({ text: 'x'.repeat(999_989) })), true)
  assert.equal(await reason(encode({ text: 'x'.repeat(999_990) })), 'record-too-large')
  assert.equal(await reason(encode(['not', 'a', 'map'])), 'malformed-record')
  assert.equal(await reason(Buffer.from('a1617801', 'hex').subarray(0, 3)), 'malformed-record')
  assert.equal(await reason(Buffer.from('a2617801617801', 'hex')), 'malformed-record')
  assert.equal(await reason(Buffer.from('a16178fb7ff8000000000000', 'hex')), 'malformed-record')
  assert.equal(await reason(Buffer.from('bf617801ff', 'hex')), 'malformed-record')
  assert.equal(await reason(Buffer.from('a16178c11a00000000', 'hex')), 'malformed-record')
  assert.equal(await reason(Buffer.from('a1617861ff', 'hex')), 'malformed-record')
  assert.equal(await reason(Buffer.from('a161781801', 'hex')), 'malformed-record')
})
