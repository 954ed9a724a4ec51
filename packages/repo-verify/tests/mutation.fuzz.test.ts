import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode } from '@atcute/cbor'
import { decodeFrame, encodeFrame } from '@tributary/protocol'
import fc from 'fast-check'
import {
  isSigned,
  readMessage,
  readRepoCar,
  trustMessage,
  verifyEvent,
  type VerifiedEvent,
} from '../src/index.ts'
import { commitFrame, syncFrame } from './frame-builder.ts'
import { carOfBlocks, sampleCommit, sampleDid } from './sample-commit.ts'

const { commit, blocks, options } = await sampleCommit()

/** What nobody signs, and the chain of an account cannot prove: the caller compares `since` with what it knows. */
const unprovable = new Set(['seq', 'time', 'since'])

/** Without `prevData` there is no chain to prove; callers refuse that for an account which they know. */
function isFirstCommit(event: VerifiedEvent): boolean {
  return event.kind === 'commit' && event.prevData === undefined
}

function provable(frame: Uint8Array): unknown {
  const { body } = decodeFrame(frame)
  return Object.fromEntries(Object.entries(body).filter(([name]) => !unprovable.has(name)))
}

for (const [name, frame] of [
  ['commit', commitFrame(commit)],
  ['sync', syncFrame({ ...commit, blocks: carOfBlocks(blocks.slice(0, 1)) })],
] as const) {
  test(`of a ${name} no bit can be turned that matters`, () => {
    assert.equal(verifyEvent(frame, options).ok, true)
    const expected = provable(frame)
    for (let bit = 0; bit < frame.length * 8; bit++) {
      const mutant = Uint8Array.from(frame)
      mutant[bit >> 3] = (mutant[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      const event = verifyEvent(mutant, options)
      if (!event.ok || event.kind === 'unknown') continue
      assert.equal(event.kind, name, `bit ${bit}`)
      if (!isFirstCommit(event)) assert.deepEqual(provable(mutant), expected, `bit ${bit}`)
    }
  })
}

test('random bytes are refused, never thrown at', () => {
  const header = encode({ op: 1, t: '#commit' })
  const anything = fc.oneof(
    fc.uint8Array({ maxLength: 400 }),
    fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.concat([header, bytes])),
    fc.uint8Array({ maxLength: 400 }).map((blocks) => commitFrame({ ...commit, blocks })),
    fc
      .dictionary(fc.string({ maxLength: 10 }), fc.oneof(fc.string(), fc.integer(), fc.boolean()), {
        maxKeys: 8,
      })
      .map((body) => encodeFrame('#account', body)),
  )
  fc.assert(
    fc.property(anything, (bytes) => {
      const event = verifyEvent(bytes, options)
      if (event.ok && event.kind === 'commit') assert.fail('random bytes passed')
      const message = readMessage(bytes)
      if (message.ok && isSigned(message)) trustMessage(message)
      const repo = readRepoCar(bytes, { did: sampleDid, key: 'unchecked', nowMs: options.nowMs })
      assert.equal(repo.ok, false)
    }),
    { numRuns: 3000 },
  )
})

test('a good message with some of its bytes replaced is refused or says the same', () => {
  const frame = commitFrame(commit)
  const expected = provable(frame)
  const change = fc.record({
    at: fc.nat(frame.length - 1),
    bytes: fc.uint8Array({ minLength: 1, maxLength: 6 }),
    removed: fc.nat(6),
  })
  fc.assert(
    fc.property(change, ({ at, bytes, removed }) => {
      const mutant = Uint8Array.from([...frame.subarray(0, at), ...bytes, ...frame.subarray(at + removed)])
      const event = verifyEvent(mutant, options)
      if (event.ok && event.kind === 'commit' && !isFirstCommit(event))
        assert.deepEqual(provable(mutant), expected)
    }),
    { numRuns: 5000 },
  )
})
