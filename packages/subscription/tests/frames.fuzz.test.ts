import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { encodeEvent, randomFrom, type Random } from '@tributary/testkit'
import fc from 'fast-check'
import { Turns } from '@tributary/rates'
import { Subscription } from '../src/index.ts'
import { frame, opcodes, startUpgradedHost } from './raw-host.ts'

// A failure prints its seed and path; pass them here to run it again: fc.assert(…, { ...fuzz, seed, path }).
const fuzz = { numRuns: 40 }

/** A server's frames in any form that the protocol allows, and what a client must make of them. */
interface Script {
  bytes: Buffer
  /** Digests of the messages, undefined for those that cannot be read. */
  messages: (string | undefined)[]
  /** Messages, control frames, and fragments that count like them. */
  frames: number
}

function anyScript(random: Random): Script {
  const parts: Buffer[] = []
  const script: Script = { bytes: Buffer.alloc(0), messages: [], frames: 0 }
  for (let left = random.below(60); left > 0; left--) {
    anyControls(random, script, parts)
    const message = random.next() < 0.1 ? Buffer.from(random.bytes(random.below(4))) : anyMessage(random)
    script.messages.push(message.length < 4 ? undefined : digest(message))
    script.frames++
    let opcode = opcodes.binary
    for (let rest = message; ;) {
      const length = random.next() < 0.3 ? random.below(rest.length + 1) : rest.length
      const isFinal = length === rest.length && random.next() < 0.8
      if (!isFinal && length < 512) script.frames++
      parts.push(frame(opcode, rest.subarray(0, length), { isFinal, lengthBytes: random.pick([0, 2, 8]) }))
      if (isFinal) break
      anyControls(random, script, parts)
      rest = rest.subarray(length)
      opcode = opcodes.continuation
    }
  }
  return { ...script, bytes: Buffer.concat(parts) }
}

function anyMessage(random: Random): Buffer {
  const length = random.below(random.pick([10, 200, 2000, 100_000]))
  return Buffer.from(encodeEvent('#x', { text: 'x'.repeat(length) }))
}

function anyControls(random: Random, script: Script, parts: Buffer[]): void {
  for (; random.next() < 0.2; script.frames++) {
    const payload = random.bytes(random.below(126))
    parts.push(frame(random.pick([opcodes.ping, opcodes.pong]), payload))
  }
}

function digest(bytes: Uint8Array): string {
  return hash('sha1', bytes, 'hex')
}

/** Sends bytes in pieces of any size, some of them in one turn, and ends the connection. */
async function send(socket: Socket, bytes: Buffer, random: Random): Promise<void> {
  const most = random.pick([3, 100, 10_000, 1_000_000])
  const pieces = bytes.length / most > 5000 ? 10_000 : most
  for (let at = 0; at < bytes.length;) {
    const length = 1 + random.below(pieces)
    socket.write(bytes.subarray(at, at + length))
    at += length
    if (random.next() < 0.3) await setImmediate()
  }
  socket.end()
}

/** What a client makes of bytes, which it stops to read now and then. */
async function read(bytes: Buffer, random: Random) {
  const messages: (string | undefined)[] = []
  let frames = 0
  let nowMs = 0
  await using host = await startUpgradedHost((socket) => void send(socket, bytes, random))
  const pauseAwhile = async (): Promise<void> => {
    subscription.setPaused(true)
    for (let turns = random.below(20); turns > 0; turns--) await setImmediate()
    subscription.setPaused(false)
  }
  const subscription = new Subscription({
    url: host.url,
    cursor: undefined,
    userAgent: 'test',
    mayBeRelay: false,
    turns: new Turns(() => (nowMs += random.below(8))),
    onOpen: () => undefined,
    onEvent: (message) => {
      messages.push(message.ok ? digest(message.bytes) : undefined)
      if (random.next() < 0.1) void pauseAwhile()
    },
    onNotice: () => assert.fail('there is none'),
    onDefect: (error) => assert.fail(String(error)),
    onFrames: (more) => (frames += more),
  })
  const { reason } = await subscription.ended
  return { messages, frames, reason }
}

test('frames in any form, pieces of any size and pauses at any time give the messages that were sent', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer(), async (seed) => {
      const random = randomFrom(seed)
      const { bytes, messages, frames } = anyScript(random)
      const { reason, ...outcome } = await read(bytes, random)
      assert.deepEqual(outcome, { messages, frames }, reason)
    }),
    fuzz,
  )
})

test('a flood with bytes changed anywhere ends, and what came before the change is read', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer(), async (seed) => {
      const random = randomFrom(seed)
      const before = anyScript(random)
      const after = anyScript(random).bytes
      for (let changes = random.below(20); after.length > 0 && changes > 0; changes--)
        after[random.below(after.length)] = random.below(256)
      const outcome = await read(Buffer.concat([before.bytes, after]), random)
      assert.deepEqual(outcome.messages.slice(0, before.messages.length), before.messages, outcome.reason)
    }),
    fuzz,
  )
})
