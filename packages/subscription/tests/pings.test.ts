/** What is concluded from what a source sends between our pings, on a clock that a test moves. */
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Turns } from '@tributary/rates'
import { eventually } from '@tributary/testkit'
import { Subscription } from '../src/index.ts'
import { frame, opcodes, repeated, startUpgradedHost } from './raw-host.ts'

const pingMs = 1000

/** A connection with a host that says nothing by itself. Silence and messages may last for three pings. */
async function connect(t: TestContext) {
  t.mock.timers.enable({ apis: ['setInterval', 'Date'] })
  const accepted = Promise.withResolvers<Socket>()
  const host = await startUpgradedHost((socket) => accepted.resolve(socket))
  const counts = { frames: 0, events: 0 }
  const hooks = { onEvent: (): void => {} }
  const opened = Promise.withResolvers<void>()
  const subscription = new Subscription({
    url: host.url,
    cursor: undefined,
    userAgent: 'test',
    mayBeRelay: false,
    turns: new Turns(),
    times: { pingMs, silentMsMax: 3 * pingMs, messageMsMax: 3 * pingMs },
    nowMs: () => Date.now(),
    onOpen: () => opened.resolve(),
    onEvent: () => {
      counts.events++
      hooks.onEvent()
    },
    onNotice: () => undefined,
    onDefect: (error) => assert.fail(String(error)),
    onFrames: (frames) => (counts.frames += frames),
  })
  t.after(async () => {
    subscription.end({ reason: 'the test is over' })
    await subscription.ended
    await host[Symbol.asyncDispose]()
  })
  await opened.promise
  const socket = await accepted.promise
  /** Sends bytes, and resolves when so many frames more were read, control frames and beginnings of messages. */
  const send = async (bytes: Buffer, frames: number): Promise<void> => {
    const total = counts.frames + frames
    socket.write(bytes)
    await eventually(() => counts.frames >= total || !subscription.isOpen)
  }
  const passPings = (count: number): void => {
    for (let n = 0; n < count; n++) t.mock.timers.tick(pingMs)
  }
  return { subscription, send, passPings, counts, hooks }
}

const part = (opcode: number, isFinal: boolean): Buffer => frame(opcode, Buffer.alloc(600), { isFinal })
const begin = part(opcodes.binary, false)
const end = part(opcodes.continuation, true)

test('a source that is not read is neither taken for dead nor its message for endless', async (t) => {
  const { subscription, send, passPings } = await connect(t)
  await send(begin, 1)
  subscription.setPaused(true)
  passPings(10)
  assert.ok(subscription.isOpen)
  subscription.setPaused(false)
  passPings(3)
  assert.ok(subscription.isOpen)
  passPings(2)
  assert.equal((await subscription.ended).reason, 'no answer to pings')
})

test('a source that is within a message at each ping, each time another one, is read on', async (t) => {
  const { subscription, send, passPings, counts } = await connect(t)
  await send(begin, 1)
  for (let n = 0; n < 10; n++) {
    await send(Buffer.concat([end, begin]), 1)
    passPings(1)
    assert.ok(subscription.isOpen)
  }
  assert.equal(counts.events, 10)
})

test('frames without an event count between two pings, and not for ever', async (t) => {
  const { subscription, send, passPings } = await connect(t)
  for (let n = 0; n < 5; n++) {
    await send(repeated(frame(opcodes.pong), 900), 900)
    passPings(1)
    assert.ok(subscription.isOpen)
  }
  await send(repeated(frame(opcodes.pong), 1001), 1001)
  assert.equal((await subscription.ended).cause, 'flood')
})

test('a message in fragments is one frame, and one message', async (t) => {
  const { send, counts } = await connect(t)
  await send(Buffer.concat([begin, part(opcodes.continuation, false), end, frame(opcodes.ping)]), 2)
  assert.deepEqual(counts, { frames: 2, events: 1 })
})

test('a pause that is taken back and taken again lets nothing through', async (t) => {
  const { subscription, send, counts, hooks } = await connect(t)
  const total = 1000
  hooks.onEvent = () => subscription.setPaused(true)
  const sent = send(repeated(Buffer.concat([begin, end]), total), total)
  await eventually(() => counts.events > 0)
  const before = counts.events
  assert.ok(before < total, `${before}`)
  for (let n = 0; n < 20; n++) {
    subscription.setPaused(false)
    subscription.setPaused(true)
    await setImmediate()
  }
  assert.equal(counts.events, before)
  hooks.onEvent = () => {}
  subscription.setPaused(false)
  await sent
  assert.equal(counts.events, total)
})
