import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { encodeError, encodeEvent, eventually } from '@tributary/testkit'
import { Turns } from '@tributary/rates'
import { Subscription, type Ending, type EventMessage, type SubscriptionOptions } from '../src/index.ts'
import { frame, opcodes, pour, repeated, startRawHost, startUpgradedHost, type RawHost } from './raw-host.ts'

const patientMs = 60_000
const patient = {
  handshakeMsMax: patientMs,
  pingMs: patientMs,
  silentMsMax: patientMs,
  messageMsMax: patientMs,
  closingMsMax: patientMs,
}

function subscribe({ url }: RawHost, options: Partial<SubscriptionOptions> = {}) {
  const messages: EventMessage[] = []
  const notices: string[] = []
  const subscription = new Subscription({
    url,
    cursor: undefined,
    userAgent: 'test',
    mayBeRelay: false,
    turns: new Turns(),
    onOpen: () => undefined,
    onEvent: (message) => messages.push(message),
    onNotice: (notice) => notices.push(notice.kind),
    onDefect: (error) => assert.fail(String(error)),
    ...options,
    times: { ...patient, ...options.times },
  })
  return { subscription, messages, notices }
}

interface Outcome extends Ending {
  /** The seqs that were handed on. */
  seqs: (number | undefined)[]
  messages: EventMessage[]
}

/** How the connection to a host ends that shakes hands and then does something else than it should. */
async function outcomeOf(
  misbehave: (socket: Socket) => void,
  options: Partial<SubscriptionOptions> = {},
): Promise<Outcome> {
  await using host = await startUpgradedHost(misbehave)
  const { subscription, messages } = subscribe(host, options)
  const ending = await subscription.ended
  return { ...ending, messages, seqs: messages.map(seqOf) }
}

function seqOf(message: EventMessage): number | undefined {
  return message.ok ? message.upstreamSeq : undefined
}

const event = (seq: number): Buffer =>
  frame(
    opcodes.binary,
    encodeEvent('#identity', { seq, did: 'did:web:a.test', time: '2026-01-01T00:00:00Z' }),
  )

const events = (...seqs: number[]): Buffer => Buffer.concat(seqs.map((seq) => event(seq)))

test('an error with a long message is read as one, and ends the connection', async () => {
  const { reason, cause } = await outcomeOf((socket) =>
    socket.write(frame(opcodes.binary, encodeError('FutureCursor', 'x'.repeat(40_000)))),
  )
  assert.match(reason, /^FutureCursor: xxx/)
  assert.equal(cause, 'renumbered')
})

test('the event at the position that was asked for, which some relays repeat, is left out once', async () => {
  const { seqs } = await outcomeOf((socket) => socket.end(events(7, 8, 7, 9)), { cursor: 7 })
  assert.deepEqual(seqs, [8, 7, 9])
  const fresh = await outcomeOf((socket) => socket.end(events(1, 2)), { cursor: 0 })
  assert.deepEqual(fresh.seqs, [1, 2])
})

test('a first event below the position that was asked for shows that the source numbers from its start', async () => {
  const { cause, seqs } = await outcomeOf((socket) => socket.write(events(6, 7)), { cursor: 7 })
  assert.deepEqual([cause, seqs], ['renumbered', []])
})

test('a host that does not answer pings is left', async () => {
  const { reason } = await outcomeOf(() => undefined, { times: { pingMs: 10, silentMsMax: 25 } })
  assert.equal(reason, 'no answer to pings')
})

test('a host that does not answer pings is left, though the date is set back', async (t) => {
  let date = Date.now()
  t.mock.method(Date, 'now', () => (date -= 3_600_000))
  const { reason } = await outcomeOf(() => undefined, { times: { pingMs: 10, silentMsMax: 25 } })
  assert.equal(reason, 'no answer to pings')
})

test('a message of which bytes keep coming and that never ends is cut off, though pings are answered', async () => {
  const begin = frame(opcodes.binary, Buffer.alloc(600), { isFinal: false })
  const { reason } = await outcomeOf(
    (socket) => {
      socket.write(begin)
      const timer = setInterval(() => socket.write(frame(opcodes.pong)), 1)
      socket.on('close', () => clearInterval(timer))
    },
    { times: { pingMs: 10, messageMsMax: 50 } },
  )
  assert.equal(reason, 'a message that does not end')
})

test('a message over the limit ends the connection with that cause, before its bytes come', async () => {
  const tooLong = frame(opcodes.binary, Buffer.alloc(5_000_001)).subarray(0, 10)
  const { cause } = await outcomeOf((socket) => socket.write(tooLong))
  assert.equal(cause, 'oversize')
})

const floods = {
  pings: frame(opcodes.ping, Buffer.alloc(125)),
  'empty pings': frame(opcodes.ping),
  'pongs that nobody asked for': frame(opcodes.pong),
  notices: frame(opcodes.binary, encodeEvent('#info', { name: 'x' })),
}

for (const [name, flood] of Object.entries(floods)) {
  test(`a flood of ${name} ends the connection after a bounded number of frames`, async () => {
    let frames = 0
    const { cause, messages } = await outcomeOf((socket) => pour(socket, repeated(flood, 10_000)), {
      onFrames: (more) => (frames += more),
    })
    assert.deepEqual([cause, messages], ['flood', []])
    assert.ok(frames <= 1000, `${frames}`)
  })
}

test('a message in one-byte fragments ends the connection after a bounded number of them', async () => {
  const { cause } = await outcomeOf((socket) => {
    socket.write(frame(opcodes.binary, Buffer.alloc(1), { isFinal: false }))
    pour(socket, repeated(frame(opcodes.continuation, Buffer.alloc(1), { isFinal: false }), 10_000))
  })
  assert.equal(cause, 'flood')
})

test('a message of 5 MB in fragments of 1 kB, as servers with small buffers send it, is read', async () => {
  const data = Buffer.alloc(4_999_000)
  // A map of one field, whose value is a byte string of so many bytes.
  const head = Buffer.from([0xa1, 0x61, 0x64, 0x5a, 0, 0, 0, 0])
  head.writeUInt32BE(data.length, 4)
  const whole = Buffer.concat([encodeEvent('#x', {}).subarray(0, -1), head, data])
  const { messages, reason } = await outcomeOf((socket) => {
    for (let at = 0; at < whole.length; at += 1024) {
      const isFinal = at + 1024 >= whole.length
      const part = whole.subarray(at, at + 1024)
      socket.write(frame(at === 0 ? opcodes.binary : opcodes.continuation, part, { isFinal }))
    }
    socket.end(frame(opcodes.close))
  })
  assert.match(reason, /^closed with 1005/)
  const [message, another] = messages
  assert.ok(message?.ok && message.bytes.equals(whole) && !another)
})

test('a frame that arrives in too many parts ends the connection', async () => {
  const { reason } = await outcomeOf((socket) => {
    socket.setNoDelay(true)
    socket.write(frame(opcodes.binary, Buffer.alloc(1_000_000)).subarray(0, 10))
    void drip(socket)
  })
  assert.equal(reason, 'Too many buffered chunks')
})

/** Writes single bytes, each in a turn of its own. */
async function drip(socket: Socket): Promise<void> {
  while (!socket.destroyed) {
    socket.write(Buffer.alloc(1))
    await setImmediate()
  }
}

test('a host that says that it closes, and does not, is left', { timeout: 20_000 }, async () => {
  const { reason } = await outcomeOf(
    (socket) => {
      // It does not see that the client has closed. ws alone would wait for 30 s, which is more than this test may take.
      socket.pause()
      socket.write(frame(opcodes.close, Buffer.from([0x03, 0xe8])))
    },
    { times: { closingMsMax: 20 } },
  )
  assert.equal(reason, 'closed with 1000')
})

test('compressed frames, text and masked frames end the connection', async () => {
  const compressed = event(1)
  compressed[0] = 0xc2
  assert.match((await outcomeOf((socket) => socket.write(compressed))).reason, /RSV1/)
  const text = await outcomeOf((socket) => socket.write(frame(opcodes.text, Buffer.from('x'))))
  assert.equal(text.reason, 'a text message')
  const masked = Buffer.concat([Buffer.from([0x82, 0x81, 1, 2, 3, 4]), Buffer.alloc(1)])
  assert.match((await outcomeOf((socket) => socket.write(masked))).reason, /MASK/)
})

test('every message and control frame is counted, an empty message too', async () => {
  let frames = 0
  const empty = frame(opcodes.binary)
  const sent = Buffer.concat([events(1, 2), frame(opcodes.ping), empty, frame(opcodes.pong), event(3)])
  await outcomeOf((socket) => socket.end(sent), { onFrames: (more) => (frames += more) })
  assert.equal(frames, 6)
})

test('pings that come together get the first answer at once and one more, to the latest', async () => {
  await using host = await startUpgradedHost((socket) => {
    for (let n = 0; n < 100; n++) socket.write(frame(opcodes.ping, Buffer.from([n])))
  })
  const { subscription } = subscribe(host)
  await eventually(() => Buffer.concat(host.received).length >= 14)
  const answers = Buffer.concat(host.received)
  assert.equal(answers.length, 14, 'two answers of a head, a mask and one byte each')
  assert.deepEqual([unmasked(answers, 0), unmasked(answers, 7)], [0, 99])
  subscription.end({ reason: 'for the test' })
})

/** The byte of a masked frame that has one. */
function unmasked(bytes: Buffer, at: number): number {
  return (bytes[at + 2] ?? 0) ^ (bytes[at + 6] ?? 0)
}

test('a pause takes effect within what was received already, and reading goes on where it was', async () => {
  const seqs = Array.from({ length: 1000 }, (_, n) => n + 1)
  await using host = await startUpgradedHost((socket) => socket.end(events(...seqs)))
  const { subscription, messages } = subscribe(host, {
    onEvent: (message) => {
      messages.push(message)
      if (messages.length === 1) subscription.setPaused(true)
    },
  })
  await eventually(() => messages.length > 0)
  for (let turn = 0; turn < 100; turn++) await setImmediate()
  assert.ok(messages.length <= 16, `${messages.length} messages after the pause`)
  subscription.setPaused(false)
  await subscription.ended
  assert.deepEqual(messages.map(seqOf), seqs)
})

test('what is thrown by whoever takes a message costs that message alone', async () => {
  const notice = frame(opcodes.binary, encodeEvent('#info', { name: 'thrown at' }))
  await using host = await startUpgradedHost((socket) =>
    socket.end(Buffer.concat([events(1, 2), notice, events(3)])),
  )
  const defects: [unknown, Buffer][] = []
  const planted = new Error('planted')
  const { subscription, messages } = subscribe(host, {
    onEvent: (message) => {
      if (seqOf(message) === 2) throw planted
      messages.push(message)
    },
    onNotice: () => {
      throw planted
    },
    onDefect: (error, message) => defects.push([error, Buffer.from(message)]),
  })
  await subscription.ended
  assert.deepEqual(messages.map(seqOf), [1, 3])
  assert.deepEqual(
    defects.map(([error]) => error),
    [planted, planted],
  )
  assert.deepEqual(
    Buffer.concat(defects.map(([, message]) => frame(opcodes.binary, message))),
    Buffer.concat([event(2), notice]),
  )
})

test('everything comes in order when each turn has time for one step only', async () => {
  let nowMs = 0
  const seqs = Array.from({ length: 3000 }, (_, n) => n + 1)
  const { seqs: received } = await outcomeOf((socket) => socket.end(events(...seqs)), {
    turns: new Turns(() => (nowMs += 100)),
  })
  assert.deepEqual(received, seqs)
})

test('a connection that is cut while it is paused hands nothing more on', async () => {
  const { promise, resolve } = Promise.withResolvers<Socket>()
  await using host = await startUpgradedHost((socket) => {
    socket.write(events(...Array.from({ length: 1000 }, (_, n) => n + 1)))
    resolve(socket)
  })
  const { subscription, messages } = subscribe(host, {
    onEvent: (message) => {
      messages.push(message)
      subscription.setPaused(true)
    },
  })
  await eventually(() => messages.length > 0)
  const before = messages.length
  const socket = await promise
  subscription.end({ reason: 'for the test' })
  socket.resetAndDestroy()
  await subscription.ended
  assert.equal(messages.length, before)
})

test('a connection that was paused before it opened reads nothing until it is read again', async () => {
  await using host = await startUpgradedHost((socket) => socket.end(events(1)))
  const { promise, resolve } = Promise.withResolvers<void>()
  const { subscription, messages } = subscribe(host, { onOpen: () => resolve() })
  subscription.setPaused(true)
  await promise
  for (let turn = 0; turn < 100; turn++) await setImmediate()
  assert.deepEqual(messages, [])
  subscription.setPaused(false)
  await subscription.ended
  assert.equal(messages.length, 1)
})

const slowly = (socket: Socket, text: string): void => {
  const timer = setInterval(() => socket.write(text), 1)
  socket.on('close', () => clearInterval(timer))
}

const handshakes: Record<string, { answer: (socket: Socket) => void; reason: RegExp }> = {
  'drops the connection': { answer: (socket) => socket.destroy(), reason: /hang up|ECONNRESET/ },
  redirects: {
    answer: (socket) => socket.write('HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\n\r\n'),
    reason: /^answered with status 302$/,
  },
  'answers 200 with a body that does not end': {
    answer: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      pour(socket, Buffer.alloc(65_536))
    },
    reason: /^answered with status 200$/,
  },
  'sends one header after the other': {
    answer: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n')
      pour(socket, repeated(Buffer.from('x: y\r\n'), 100))
    },
    reason: /Header overflow/i,
  },
  'sends one header that does not end, slowly': {
    answer: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nx: ')
      slowly(socket, 'y')
    },
    reason: /^no handshake in time$/,
  },
  'sends provisional answers without end': {
    answer: (socket) => pour(socket, repeated(Buffer.from('HTTP/1.1 103 Early Hints\r\n\r\n'), 100)),
    reason: /^no end of provisional answers$/,
  },
  'answers with the wrong key': {
    answer: (socket) =>
      socket.write(
        'HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n',
      ),
    reason: /Sec-WebSocket-Accept/,
  },
}

for (const [name, { answer, reason }] of Object.entries(handshakes)) {
  test(`a host that ${name} is left`, async () => {
    let requests = 0
    await using host = await startRawHost((socket) => {
      requests++
      answer(socket)
    })
    const times = { handshakeMsMax: name.endsWith('slowly') ? 50 : patientMs }
    const { subscription, messages } = subscribe(host, { times })
    assert.match((await subscription.ended).reason, reason)
    assert.deepEqual([requests, messages], [1, []])
  })
}

test('a relay is left where a PDS is expected', async () => {
  await using host = await startRawHost((socket) =>
    socket.write(
      'HTTP/1.1 101 x\r\nServer: tributary (atproto-relay)\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
    ),
  )
  assert.equal((await subscribe(host).subscription.ended).cause, 'relay-loop')
  const { subscription } = subscribe(host, { mayBeRelay: true })
  assert.equal((await subscription.ended).cause, undefined)
})
