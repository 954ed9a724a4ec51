import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { decode } from '@atcute/cbor'
import { EventLog } from '@tributary/event-log'
import { frameMessage } from '@tributary/fanout'
import { encodeFrame } from '@tributary/protocol'
import { EncodedEvents } from './encoded-events.ts'

const failing = (): never => assert.fail('every event can be encoded')

/** A log of `#identity` events. The ones named as broken hold bytes that are no message. */
async function logOf(count: number, broken: readonly number[] = []) {
  const directory = mkdtempSync(join(tmpdir(), 'encoded-events-'))
  const log = await EventLog.open({ directory })
  for (let seq = 1; seq <= count; seq++) {
    const event = { seq, did: 'did:plc:ewvi7nxzyoun6zhxrhs64oiz', time: '2024-01-01T00:00:00.000Z' }
    const message = broken.includes(seq) ? Buffer.from('no message') : encodeFrame('#identity', event)
    log.append({ kind: 1, account: 0n, source: 0, epoch: 0, upstreamSeq: 0 }, frameMessage('binary', message))
  }
  await log.flush()
  return {
    async read(encoded: EncodedEvents) {
      const slices = await log.read(0, 10_000_000)
      return slices.flatMap((slice) =>
        Array.from({ length: slice.count }, (_, row) => encoded.frameOf(slice, row)),
      )
    },
    async [Symbol.asyncDispose]() {
      await log.close()
      rmSync(directory, { recursive: true })
    },
  }
}

test('readers of a framing get one and the same encoding of an event', async () => {
  await using log = await logOf(100)
  const encoded = new EncodedEvents('json', 1_000_000, failing)
  const first = await log.read(encoded)
  const second = await log.read(encoded)
  assert.equal(first.length, 100)
  for (const [i, frame] of first.entries()) assert.equal(second[i], frame)
  const message = JSON.parse((first[41] ?? Buffer.alloc(0)).toString('utf8', 4)) as {
    payload: { seq: number }
  } // the framing of the message
  assert.equal(message.payload.seq, 42)
})

test('what is kept has a bound in bytes, and what is gone is encoded again', async () => {
  await using log = await logOf(1000)
  const encoded = new EncodedEvents('cbor', 50_000, failing)
  const first = await log.read(encoded)
  assert.ok(encoded.bytes <= 50_000 && encoded.bytes > 40_000, `${encoded.bytes}`)
  const again = await log.read(encoded)
  assert.deepEqual(again, first)
  assert.ok(encoded.bytes <= 50_000, `${encoded.bytes}`)
  const last = decode((again.at(-1) ?? Buffer.alloc(0)).subarray(4)) as { payload: { seq: number } } // as above
  assert.equal(last.payload.seq, 1000)
})

test('an event that cannot be encoded is left out and told of once, and the others come', async () => {
  await using log = await logOf(5, [3])
  const told: number[] = []
  const encoded = new EncodedEvents('json', 1_000_000, (seq) => told.push(seq))
  for (let readers = 0; readers < 3; readers++) {
    const frames = await log.read(encoded)
    assert.deepEqual(
      frames.map((frame) => frame !== undefined),
      [true, true, false, true, true],
    )
  }
  assert.deepEqual(told, [3])
})
