/** Consumers that may send text: what reaches their subscription, what it costs, and what moves them to another group. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { ArrivingTexts, type TextSender } from './arriving-texts.ts'
import { clientFrame, connectBare } from './bare-consumer.ts'
import { CloseReason, frameMessage, type CatchUpSource } from './index.ts'
import { startGroup } from './start-front.ts'

/** Bytes that a text may have. */
const textBytesMax = 10_000_000
const message = (text: string): Buffer => frameMessage('text', Buffer.from(text))

/** A source with named messages, each at the place of its seq. */
const sourceOf = (all: readonly string[], name: string): CatchUpSource => ({
  headSeq: () => all.length,
  read: (afterSeq) => ({
    frames: all.slice(afterSeq).map((text) => message(`${name}${text}`)),
    lastSeq: all.length,
  }),
})
const nothing = sourceOf([], '')

/** Messages and the end of a connection, as they come. */
function listen(socket: WebSocket): { texts: string[]; closed: Promise<[number, string]> } {
  const texts: string[] = []
  socket.on('message', (data: Buffer) => texts.push(data.toString()))
  const closed = once(socket, 'close').then(
    ([code, reason]) => [code as number, String(reason)] as [number, string], // as ws documents the event
  )
  return { texts, closed }
}

test('text of a dialogue reaches its subscription whole and in order; what is binary does not', async () => {
  await using front = await startGroup(nothing)
  const socket = new WebSocket(`${front.url}/?dialogue`)
  await once(socket, 'open')
  const large = 'é'.repeat(textBytesMax / 2)
  socket.send('one')
  socket.send(Buffer.from('binary'))
  socket.send(large)
  socket.send('in ', { fin: false })
  socket.send('parts', { fin: true })
  while (front.texts.length < 3) await nextTurn()
  assert.deepEqual(front.texts, ['one', large, 'in parts'])
  socket.terminate()
})

test('texts that are being read count for the bound of all, and hold up their sender alone', async () => {
  await using front = await startGroup(nothing)
  front.isReadingSlow = true
  const senders = range(6).map(() => new WebSocket(`${front.url}/?dialogue`))
  await Promise.all(senders.map(async (each) => once(each, 'open')))
  for (const [i, each] of senders.entries()) {
    each.on('error', () => {}) // those that are cut off may find that out by a reset
    each.send(`${i}`.repeat(textBytesMax))
    // 32 MiB hold three of them.
    if (i < 3) while (front.begun <= i) await nextTurn()
    else each.send(`after ${i}`)
  }
  while (front.fanout.size > 3) await nextTurn()
  const small = new WebSocket(`${front.url}/?dialogue`)
  await once(small, 'open')
  assert.equal(front.texts.length, 0)
  front.isReadingSlow = false
  small.send('small')
  while (front.texts.length < 4 || !front.texts.includes('small')) await nextTurn()
  assert.equal(front.fanout.size, 4)
  const shown = front.texts.map((text) => text.slice(0, 7))
  for (const text of shown.filter((each) => each.startsWith('after')))
    assert.ok(shown.indexOf(text) > shown.indexOf(text.slice(-1).repeat(7)), text)
  for (const each of [...senders, small]) each.terminate()
})

test('texts that come together are read one after the other', async () => {
  await using front = await startGroup(nothing)
  front.isReadingSlow = true
  const socket = await connectBare(front.port, '/?dialogue')
  const sent = range(20).map((i) => `text ${i}`)
  socket.write(Buffer.concat(sent.map((each) => clientFrame('text', each))))
  while (front.begun === 0) await nextTurn()
  for (let i = 0; i < 10; i++) await nextTurn()
  assert.equal(front.begun, 1)
  front.isReadingSlow = false
  while (front.texts.length < 20) await nextTurn()
  assert.deepEqual(front.texts, sent)
  socket.destroy()
})

test('text of a consumer that only listens reaches nothing', async () => {
  await using front = await startGroup(nothing)
  const [silent, speaker] = [new WebSocket(front.url), new WebSocket(`${front.url}/?dialogue`)]
  await Promise.all([silent, speaker].map(async (socket) => once(socket, 'open')))
  silent.send('not heard')
  silent.ping()
  await once(silent, 'pong')
  speaker.send('heard')
  while (front.texts.length === 0) await nextTurn()
  assert.deepEqual(front.texts, ['heard'])
  for (const socket of [silent, speaker]) socket.terminate()
})

test('what a dialogue may not send closes it with the code of the fault, and nobody else', async () => {
  await using front = await startGroup(nothing)
  const witness = new WebSocket(`${front.url}/?dialogue`)
  await once(witness, 'open')
  const faults: [number, (socket: WebSocket) => void][] = [
    [1009, (socket) => socket.send('x'.repeat(textBytesMax + 1))],
    [1007, (socket) => socket.send(Buffer.from([0xc3, 0x28]), { binary: false })],
    [1008, (socket) => range(200).forEach(() => socket.send('{}'))],
    [1008, (socket) => range(200).forEach(() => socket.ping())],
    [1008, (socket) => range(100).forEach(() => socket.send('x', { fin: false }))],
  ]
  for (const [code, send] of faults) {
    const socket = new WebSocket(`${front.url}/?dialogue`)
    const { closed } = listen(socket)
    await once(socket, 'open')
    send(socket)
    assert.equal((await closed)[0], code)
  }
  assert.equal(witness.readyState, WebSocket.OPEN)
  witness.terminate()
})

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

test('a reason is told with the code alone, cut to what a close frame holds', async () => {
  await using front = await startGroup(nothing)
  front.onText = () => {
    throw new CloseReason(1008, 'InvalidOptions', 'é'.repeat(100))
  }
  const socket = new WebSocket(`${front.url}/?dialogue`)
  const { texts, closed } = listen(socket)
  await once(socket, 'open')
  socket.send('{}')
  assert.deepEqual(await closed, [1008, 'é'.repeat(61)])
  assert.deepEqual(texts, [])
})

test('what was sent after the text that ended a dialogue is not heard', async () => {
  await using front = await startGroup(nothing)
  front.onText = () => {
    throw new CloseReason(1007, 'InvalidJson', 'no')
  }
  const socket = await connectBare(front.port, '/?dialogue')
  socket.write(Buffer.concat(range(50).map(() => clientFrame('text', '{}'))))
  socket.resume()
  socket.end()
  await once(socket, 'close')
  assert.equal(front.texts.length, 1)
})

test('a bad handshake of a dialogue is answered in plain text', async () => {
  await using front = await startGroup(nothing)
  const socket = connect(front.port, '127.0.0.1')
  socket.end('GET /?dialogue HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
  const answer = await text(socket)
  assert.match(answer, /^HTTP\/1\.1 400 [^]*Content-Type: text\/plain[^]*\r\n\r\n[^{]+\n$/)
})

test('a live reader that is moved has what was published before, and then what its new group has', async () => {
  const all: string[] = []
  await using front = await startGroup(sourceOf(all, 'a'))
  const readers = range(20).map(() => new WebSocket(`${front.url}/?dialogue`))
  await Promise.all(readers.map(async (reader) => once(reader, 'open')))
  const heard = readers.map(listen)
  front.onText = (_, subscriber) => front.group.move(subscriber, front.other)
  const publish = (text: string): void => {
    all.push(text)
    front.group.publish([message(`a${text}`)], all.length)
    front.other.publish([message(`b${text}`)], all.length)
  }
  for (const text of ['1', '2', '3']) publish(text)
  // Nobody in the group wants this one, so what they were sent last is before it.
  all.push('unwanted')
  readers[0]?.send('move')
  while (front.texts.length === 0) await nextTurn()
  assert.deepEqual([front.group.size, front.other.size], [19, 1])
  for (const text of ['4', '5']) publish(text)
  while (heard.some(({ texts }) => texts.length < 5)) await nextTurn()
  assert.deepEqual(heard[0]?.texts, ['a1', 'a2', 'a3', 'b4', 'b5'])
  assert.deepEqual(heard[1]?.texts, ['a1', 'a2', 'a3', 'a4', 'a5'])
  readers[0]?.terminate()
  while (front.other.size > 0) await nextTurn()
  assert.equal(front.group.size, 19)
  for (const reader of readers) reader.terminate()
})

test('a reader that is moved while something is read for it gets that from its new group', async () => {
  const go = Promise.withResolvers<void>()
  const freed: string[] = []
  let isFirst = true
  await using front = await startGroup({
    headSeq: () => 2,
    read: async (afterSeq) => {
      const text = isFirst ? 'old' : 'new'
      isFirst = false
      await go.promise
      return { frames: [message(`${text} after ${afterSeq}`)], lastSeq: 2, free: () => freed.push(text) }
    },
  })
  front.onText = (_, subscriber) => {
    front.group.move(subscriber, front.other)
    go.resolve()
  }
  const reader = new WebSocket(`${front.url}/?dialogue&cursor=1`)
  const { texts } = listen(reader)
  await once(reader, 'open')
  reader.send('move')
  while (texts.length === 0 || freed.length < 2) await nextTurn()
  assert.deepEqual(texts, ['new after 1'])
  reader.terminate()
})

test('a reader that is moved to a position reads from there', async () => {
  const all = ['1', '2', '3']
  await using front = await startGroup(sourceOf(all, ''))
  front.onText = (_, subscriber) => front.group.move(subscriber, front.other, 1)
  const reader = new WebSocket(`${front.url}/?dialogue`)
  const { texts } = listen(reader)
  await once(reader, 'open')
  reader.send('move')
  while (texts.length < 2) await nextTurn()
  assert.deepEqual(texts, ['2', '3'])
  reader.terminate()
})

/** A sender that notes that it was cut off. */
function sender(remoteAddress: string, cutOff: string[], name: string): TextSender {
  return { remoteAddress, feed: { cutOff: () => void cutOff.push(name) } }
}

test('beyond the bound of unfinished messages the largest of the busiest network is cut off', () => {
  const cut: string[] = []
  const texts = new ArrivingTexts(10_000, (address) => address)
  const [a, b, c] = [sender('x', cut, 'a'), sender('x', cut, 'b'), sender('y', cut, 'c')]
  texts.add(a, 2000)
  texts.add(b, 3000)
  texts.add(c, 3500)
  assert.deepEqual(cut, [])
  texts.add(c, 1000)
  assert.deepEqual(cut, ['b'])
  assert.equal(texts.bytes, 2000 + 4500 + 3 * 256)
  texts.arrived(c, 100)
  texts.forget(a)
  assert.equal(texts.bytes, 100)
})

test('control frames are not counted as parts of a message', () => {
  const texts = new ArrivingTexts(1000, (address) => address)
  const cut: string[] = []
  const one = sender('x', cut, 'a')
  for (let i = 0; i < 100; i++) {
    texts.add(one, 16)
    texts.lessChunk(one, 16)
  }
  assert.deepEqual([texts.bytes, cut], [0, []])
})

test('messages that never end, of many consumers, are kept within the bound of all', async () => {
  await using front = await startGroup(nothing)
  const senders = range(20).map(() => new WebSocket(`${front.url}/?dialogue`))
  await Promise.all(senders.map(async (each) => once(each, 'open')))
  for (const each of senders) {
    each.on('error', () => {}) // those that are cut off may find that out by a reset
    each.send('x'.repeat(4_000_000), { fin: false })
  }
  // 32 MiB hold some eight of them.
  while (front.fanout.size > 9) await nextTurn()
  const small = new WebSocket(`${front.url}/?dialogue`)
  await once(small, 'open')
  small.send('small')
  while (front.texts.length === 0) await nextTurn()
  assert.ok(front.fanout.size > 4)
  for (const each of [...senders, small]) each.terminate()
})
