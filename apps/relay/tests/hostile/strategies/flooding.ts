/** More of everything than anybody needs: control frames, notices, tiny and huge messages, connections. */
import { toBytes } from '@atcute/cbor'
import { encodeEvent, type HostConnection } from '@tributary/testkit'
import { pause, repeat, type Stage, type Strategy } from '../stage.ts'

/** Written at once. */
const chunkBytes = 64 * 1024
/** Bytes that the relay has not taken yet, above which nothing more is written. */
const unsentMax = 1_000_000

const ping = Uint8Array.of(0x89, 0x00)
const pong = Uint8Array.of(0x8a, 0x00)
const emptyMessage = Uint8Array.of(0x82, 0x00)
const emptyText = Uint8Array.of(0x81, 0x00)
const info = encodeEvent('#info', { name: 'OutdatedCursor', message: 'a notice' })

export const flooding: Readonly<Record<string, Strategy>> = {
  /** Hundreds of thousands of pings a second. */
  pings: (stage) => pour(stage, 'pings', ping),
  /** As many pongs that nobody asked for. */
  pongs: (stage) => pour(stage, 'pongs', pong),
  /** Pings with as much in them as they may hold. */
  'long-pings': (stage) =>
    pour(stage, 'pings', Buffer.concat([Uint8Array.of(0x89, 125), Buffer.alloc(125, 'p')])),
  /** Messages of no bytes, and texts of none. */
  'empty-messages': (stage) => pour(stage, 'messages', emptyMessage),
  'empty-texts': (stage) => pour(stage, 'texts', emptyText),
  /** Notices without end. */
  notices: (stage) => pour(stage, 'notices', frame(info)),
  /** Messages of an unknown kind, as small as they come. */
  'tiny-messages': (stage) => pour(stage, 'messages', frame(encodeEvent('#x', {}))),
  /** A message in fragments of one byte, without end. */
  fragments: (stage) => pour(stage, 'fragments', Uint8Array.of(0x00, 1, 0x61), Uint8Array.of(0x02, 1, 0x61)),

  /** Messages just below the limit: one field of text or bytes that nobody knows, or half a million small ones. */
  'large-messages': async (stage) => {
    const bodies = [
      { padding: 'x'.repeat(4_900_000) },
      { padding: toBytes(new Uint8Array(4_900_000)) },
      { list: Array.from({ length: 2_400_000 }, () => 0) },
      { map: Object.fromEntries(Array.from({ length: 300_000 }, (_, index) => [`key${index}`, index])) },
    ]
    const large = bodies.flatMap((body) => [
      encodeEvent('#commit', { ...body, repo: 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa', seq: 1 }),
      encodeEvent('#other', body),
    ])
    await repeat(stage, 40, () => {
      const { reader } = stage.random.pick(stage.hosts)
      if (!reader || reader.unsentBytes > unsentMax) return
      reader.send(stage.random.pick(large))
      stage.count('messages')
    })
  },

  /** Connections that are ended as soon as they are there, or refused in every way. */
  'reconnect-storm': async (stage) => {
    await Promise.all(
      stage.hosts.map(async (host) => {
        while (!stage.signal.aborted) {
          host.refuseWithStatus = stage.random.pick([undefined, undefined, 429, 500, 301, 101])
          for (const connection of host.connections) end(stage, connection)
          stage.count('cuts')
          await pause(stage, 20)
        }
        host.refuseWithStatus = undefined
      }),
    )
  },

  /** Half a frame, and then nothing; or the rest, byte by byte. */
  'half-messages': async (stage) => {
    const whole = frame(
      encodeEvent('#identity', { did: 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa', padding: 'x'.repeat(200) }),
    )
    await repeat(stage, 20, () => {
      const host = stage.random.pick(stage.hosts)
      const { reader } = host
      if (!reader) return
      const heads = [
        Uint8Array.of(0x82, 127, 0, 0, 0, 0, 0, 0x4c, 0x4b, 0x40),
        Uint8Array.of(0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
        Uint8Array.of(0xc2, 0x01, 0x00),
        Uint8Array.of(0x83, 0x00),
        Uint8Array.of(0x09, 0x00),
        whole.subarray(0, stage.random.below(whole.length)),
      ]
      reader.writeRaw(stage.random.pick(heads))
      stage.count('halves')
    })
    for (const host of stage.hosts) for (const connection of host.connections) connection.terminate()
  },
}

/** An unmasked binary frame, as servers send them. */
function frame(message: Uint8Array): Uint8Array {
  if (message.length < 126) return Buffer.concat([Uint8Array.of(0x82, message.length), message])
  const head = Buffer.alloc(4)
  head[0] = 0x82
  head[1] = 126
  head.writeUInt16BE(message.length, 2)
  return Buffer.concat([head, message])
}

/** Writes `unit` again and again to all subscriptions, as fast as they are taken; `first` goes ahead on each. */
async function pour(stage: Stage, what: string, unit: Uint8Array, first?: Uint8Array): Promise<void> {
  const count = Math.floor(chunkBytes / unit.length)
  const chunk = Buffer.concat(Array<Uint8Array>(count).fill(unit))
  const started = new WeakSet<HostConnection>()
  while (!stage.signal.aborted) {
    for (const host of stage.hosts) {
      const connection = host.connections.at(-1)
      if (!connection || connection.unsentBytes > unsentMax) continue
      if (first && !started.has(connection)) connection.writeRaw(first)
      started.add(connection)
      connection.writeRaw(chunk)
      stage.count(what, count)
    }
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  // What the relay has not taken yet would be ahead of all that later strategies send.
  for (const host of stage.hosts) for (const connection of host.connections) connection.terminate()
}

function end(stage: Stage, connection: HostConnection): void {
  const how = stage.random.below(4)
  if (how === 0) connection.terminate()
  else if (how === 1) connection.close(stage.random.pick([1000, 1001, 1008, 1011, 3000, 4999]), 'again')
  else if (how === 2) connection.writeRaw(Uint8Array.of(0x88, 0x01, 0x03))
  else connection.writeRaw(Buffer.from('HTTP/1.1 200 OK\r\n\r\n'))
}
