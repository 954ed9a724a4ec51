import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { microsecondsToTid } from '@tributary/protocol'
import { parseDidKey, readRepoHead, RepoHeadReader, type RepoHead, type Refusal } from '../src/index.ts'
import { readCar } from '../src/car.ts'
import { block, blockOf, carOf, signedCommit, type CarBlock } from './frame-builder.ts'
import { sampleCommit, sampleDid } from './sample-commit.ts'

const { keypair, key, commit: oracleCommit } = await sampleCommit()
const options = { did: sampleDid, key, nowMs: Date.now() }
const rev = '3migo7fijwi2k'
const parts = { did: sampleDid, rev, data: block({ tree: true }).cid }
const commit = await signedCommit(keypair, parts)
const other = block({ text: 'another block' })

function blockOfSize(size: number): CarBlock {
  return blockOf(Buffer.alloc(size, 7))
}

function reasonOf(outcome: RepoHead | Refusal): string {
  return outcome.ok ? 'passed' : outcome.reason
}

/** What a reader says to a CAR in pieces that end at these places. */
function readInPieces(car: Uint8Array, ends: readonly number[], bytesMax?: number): RepoHead | Refusal {
  const reader = new RepoHeadReader(bytesMax === undefined ? options : { ...options, bytesMax })
  let start = 0
  for (const end of [...ends.toSorted((a, b) => a - b), car.length]) {
    // A copy that is wiped afterwards: nothing may be kept of a piece without copying it.
    const piece = Uint8Array.from(car.subarray(start, end))
    const outcome = reader.push(piece)
    piece.fill(0)
    start = end
    if (outcome) return outcome
  }
  return reader.end()
}

const big = blockOfSize(3000)
const cases: [what: string, expected: string, car: Uint8Array][] = [
  ['the commit first', 'passed', carOf([commit.cid], [commit, other, big])],
  ['the commit alone', 'passed', carOf([commit.cid], [commit])],
  ['the commit last', 'passed', carOf([commit.cid], [other, big, commit])],
  ['a second root', 'passed', carOf([commit.cid, other.cid], [other, commit])],
  [
    'what follows the commit',
    'passed',
    Buffer.concat([carOf([commit.cid], [commit]), Buffer.alloc(9, 0xff)]),
  ],
  ['what a PDS sends', 'passed', oracleCommit.blocks],
  ['no commit', 'malformed-car', carOf([commit.cid], [other, big])],
  ['nothing', 'malformed-car', new Uint8Array()],
  ['no root', 'malformed-car', carOf([], [commit])],
  [
    '17 roots',
    'malformed-car',
    carOf(
      Array.from({ length: 17 }, () => commit.cid),
      [commit],
    ),
  ],
  ['version 2', 'malformed-car', carOf([commit.cid], [commit], 2)],
  ['a header of a megabyte', 'malformed-car', Buffer.concat([Uint8Array.of(0x80, 0x80, 0x40), commit.bytes])],
  ['a header without bytes', 'malformed-car', Uint8Array.of(0, 0)],
  ['a length of five bytes', 'malformed-car', Uint8Array.of(0x80, 0x80, 0x80, 0x80, 0x01)],
  ['a length not in its shortest form', 'malformed-car', Uint8Array.of(0xba, 0x00)],
  ['an empty block', 'malformed-car', carOf([commit.cid], [blockOfSize(0), commit])],
  [
    'a section without a CID',
    'malformed-car',
    Buffer.concat([carOf([commit.cid], []), Uint8Array.of(3, 1, 2, 3)]),
  ],
  [
    'a block of another codec',
    'malformed-car',
    carOf([commit.cid], [{ ...other, cid: other.cid.map((byte, i) => (i === 1 ? 0x55 : byte)) }, commit]),
  ],
  ['a commit that was changed', 'bad-block-hash', carOf([commit.cid], [{ ...commit, bytes: other.bytes }])],
  ['a root that is no commit', 'malformed-commit', carOf([other.cid], [other])],
  ['a commit of 10 kB', 'oversize', carOf([big.cid], [{ cid: big.cid, bytes: Buffer.alloc(10_000) }])],
]

for (const [what, expected, car] of cases) {
  test(`${what}: ${expected}, however the CAR is cut`, () => {
    const whole = readRepoHead(car, options)
    assert.equal(reasonOf(whole), expected, JSON.stringify(whole))
    const everyByte = Array.from(car, (_, i) => i)
    assert.deepEqual(readInPieces(car, everyByte), whole)
    const step = car.length < 500 ? 1 : 17
    for (let end = 0; end < car.length; end += step) assert.deepEqual(readInPieces(car, [end]), whole)
    fc.assert(
      fc.property(fc.array(fc.nat(car.length)), (ends) => {
        assert.deepEqual(readInPieces(car, ends), whole)
      }),
      { numRuns: 30 },
    )
  })
}

test('a head is what the commit says, with a CAR of the commit alone', () => {
  const head = readRepoHead(carOf([commit.cid], [other, commit, big]), options)
  assert.ok(head.ok)
  assert.equal(head.rev, rev)
  assert.equal(Buffer.from(head.data, 'latin1').compare(parts.data.subarray(4)), 0)
  assert.deepEqual(Buffer.from(head.car), Buffer.from(carOf([commit.cid], [commit])))
  const again = readRepoHead(head.car, options)
  assert.deepEqual(again, head)
})

test('a commit that is not of the account, not by its key, or of the future is refused', async () => {
  const reason = async (change: object, more: object = {}) => {
    const changed = await signedCommit(keypair, { ...parts, ...change })
    return reasonOf(readRepoHead(carOf([changed.cid], [changed]), { ...options, ...more }))
  }
  const [stranger] = [(await sampleCommit()).keypair]
  assert.equal(await reason({}), 'passed')
  assert.equal(await reason({ did: 'did:plc:22222222222222222222222a' }), 'mismatched-fields')
  assert.equal(await reason({}, { key: parseDidKey(stranger.did()) }), 'bad-signature')
  assert.equal(await reason({ rev: microsecondsToTid((Date.now() + 6 * 60_000) * 1000, 0) }), 'future-rev')
})

test('a commit whose CAR fits a #sync to the byte passes, a larger one does not', async () => {
  const withPadding = async (size: number) => {
    const padded = await signedCommit(keypair, parts, { zz: 'x'.repeat(size) })
    const car = carOf([padded.cid], [padded])
    return { reason: reasonOf(readRepoHead(car, options)), bytes: car.length }
  }
  const { bytes } = await withPadding(9000)
  const room = 9000 + 10_000 - bytes
  for (const size of [room - 200, room - 60, room - 3, room, room + 1]) {
    const padded = await withPadding(size)
    if (padded.reason === 'passed') assert.ok(padded.bytes <= 10_000)
    else assert.ok(padded.reason === 'oversize' && padded.bytes > 9_990, JSON.stringify(padded))
  }
})

test('the commit is looked for in so many bytes, and not in one more', () => {
  const car = carOf([commit.cid], [big, other, commit])
  for (const ends of [[], [10, 500, 3100], Array.from(car, (_, i) => i)]) {
    assert.equal(reasonOf(readInPieces(car, ends, car.length)), 'passed')
    assert.equal(reasonOf(readInPieces(car, ends, car.length - 1)), 'oversize')
  }
})

test('a header over its bound is refused by its length, before it comes', () => {
  assert.equal(new RepoHeadReader(options).push(Uint8Array.of(0x80, 0x08)), undefined)
  const outcome = new RepoHeadReader(options).push(Uint8Array.of(0x81, 0x08))
  assert.equal(outcome && reasonOf(outcome), 'malformed-car')
})

test('an outcome is final', () => {
  const car = carOf([commit.cid], [commit])
  const good = new RepoHeadReader(options)
  const outcome = good.push(car)
  assert.equal(outcome?.ok, true)
  assert.equal(good.push(Uint8Array.of(1, 2, 3)), outcome)
  assert.equal(good.end(), outcome)
  const bad = new RepoHeadReader(options)
  const refusal = bad.push(Uint8Array.of(0, 0))
  assert.equal(refusal?.ok, false)
  assert.equal(bad.push(car), refusal)
  assert.equal(bad.end(), refusal)
})

test('blocks before the commit are not held, however large', () => {
  const reader = new RepoHeadReader(options)
  const size = 60_000_000
  const length = 36 + size
  const head = Uint8Array.of(
    (length & 0x7f) | 0x80,
    ((length >> 7) & 0x7f) | 0x80,
    ((length >> 14) & 0x7f) | 0x80,
    length >> 21,
  )
  const start = Buffer.concat([carOf([commit.cid], []), head, other.cid])
  const before = process.memoryUsage().arrayBuffers
  assert.equal(reader.push(start), undefined)
  const piece = new Uint8Array(60_000)
  for (let sent = 0; sent < size; sent += piece.length) assert.equal(reader.push(piece), undefined)
  assert.ok(process.memoryUsage().arrayBuffers - before < 1_000_000)
  const outcome = reader.push(carOf([commit.cid], [commit]).subarray(carOf([commit.cid], []).length))
  assert.equal(outcome && reasonOf(outcome), 'passed')
})

test('random CARs and random changes to good ones fare the same in pieces, and as the reader of whole CARs says', () => {
  const blocks = fc.array(fc.constantFrom(commit, other, big, blockOfSize(1)), { maxLength: 5 })
  const change = fc.record({ at: fc.nat(), byte: fc.nat(255), isCut: fc.boolean() })
  fc.assert(
    fc.property(blocks, fc.array(change, { maxLength: 2 }), fc.array(fc.nat()), (some, changes, cuts) => {
      let car = Uint8Array.from(carOf([commit.cid], some))
      for (const { at, byte, isCut } of changes) {
        if (isCut) car = car.slice(0, at % (car.length + 1))
        else if (car.length > 0) car[at % car.length] = byte
      }
      const whole = readRepoHead(car, options)
      const ends = cuts.map((cut) => cut % (car.length + 1))
      assert.deepEqual(readInPieces(car, ends), whole)
      if (changes.length === 0) {
        const held = readCar(Buffer.from(car), 0, car.length).blocks
        assert.equal(whole.ok, held.has(Buffer.from(commit.cid.subarray(4)).toString('latin1') as never)) // a digest
      }
    }),
    { numRuns: 500 },
  )
})
