import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { StreamError } from './errors.ts'
import { segmentFrames } from './frames.ts'
import { readMessage } from './message.ts'

async function* chunksOf(parts: Uint8Array[]): AsyncGenerator<Uint8Array, void> {
  yield* parts
}

test('no text makes reading a message throw', () => {
  const fields = [
    '$type',
    'payload',
    'seq',
    'did',
    'time',
    'record',
    'identity',
    'sync',
    'blocks',
    '$bytes',
    'error',
  ]
  const values = fc.oneof(
    fc.json().map((text): unknown => JSON.parse(text)),
    fc.constantFrom('message', 'error', 'x#commit', 'x#sync', 'x#info', 'did:web:a.example', 'create', 1, -1),
  )
  const object = fc.dictionary(fc.constantFrom(...fields), values)
  const frame = fc.record({ $type: fc.constantFrom('message', 'error', 'x'), payload: object })
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.json(),
        frame.map((value) => JSON.stringify(value)),
      ),
      (text) => {
        const { type } = readMessage(text)
        assert.ok(['event', 'info', 'error', 'malformed'].includes(type))
      },
    ),
    { numRuns: 2000 },
  )
})

test('whatever bytes come as a segment, cutting them into frames ends, with a typed error at most', async () => {
  const header = fc.tuple(fc.nat(5), fc.nat(2000)).map(([blocks, footer]) => {
    const bytes = new Uint8Array(256)
    const view = new DataView(bytes.buffer)
    bytes.set([0x6a, 0x73, 0x73, 0x30, 1])
    view.setUint16(12, 1, true)
    view.setUint32(14, blocks, true)
    view.setUint32(58, footer, true)
    return bytes
  })
  const bytes = fc.uint8Array({ maxLength: 400 })
  await fc.assert(
    fc.asyncProperty(fc.oneof(header, bytes), fc.array(bytes, { maxLength: 6 }), async (first, rest) => {
      try {
        for await (const frame of segmentFrames(chunksOf([first, ...rest]))) assert.ok(frame.length <= 2400)
      } catch (error) {
        assert.ok(error instanceof StreamError)
      }
    }),
    { numRuns: 1000 },
  )
})
