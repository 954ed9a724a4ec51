/** Consumers of relay and stream that do anything but read. Each has an address of its own. */
import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { WebSocket } from 'ws'
import { apiKey, pause, repeat, type Stage, type Strategy } from '../stage.ts'

const addresses = ['127.0.8.1', '127.0.8.2', '127.0.8.3']
const relayPath = '/xrpc/com.atproto.sync.subscribeRepos'
const streamPath = '/xrpc/network.social.stream.subscribeEvents'
const socketsMax = 200

export const consuming: Readonly<Record<string, Strategy>> = {
  /** Consumers from the oldest event that never read a byte. */
  'never-read': async (stage) => {
    const sockets: Socket[] = []
    await repeat(stage, 50, () => {
      if (sockets.length >= socketsMax) return
      const socket = open(stage, stage.random.pick(services(stage)), '?cursor=0')
      socket.pause()
      sockets.push(socket)
      stage.count('consumers')
    })
    for (const socket of sockets) socket.destroy()
  },

  /** Messages to us in fragments of one byte that never end. */
  'consumer-fragments': (stage) =>
    pourInto(
      stage,
      () => Buffer.concat(Array<Uint8Array>(2000).fill(masked(0x00, Buffer.from('x')))),
      masked(0x02, Buffer.from('x')),
    ),

  /** Pings without end. */
  'consumer-pings': (stage) =>
    pourInto(stage, () => Buffer.concat(Array<Uint8Array>(4000).fill(masked(0x89, Buffer.alloc(0))))),

  /** Large messages to us, whole ones. */
  'consumer-messages': (stage) => pourInto(stage, () => masked(0x82, Buffer.alloc(60_000))),

  /** Connections that come and go, some in the middle of the handshake. */
  'consumer-reconnects': async (stage) => {
    await repeat(stage, 200, () => {
      const service = stage.random.pick(services(stage))
      const socket = open(stage, service, stage.random.pick(['', '?cursor=0', '?cursor=1']))
      const afterMs = stage.random.below(50)
      setTimeout(() => (stage.random.next() < 0.5 ? socket.destroy() : socket.resetAndDestroy()), afterMs)
      stage.count('connections')
    })
  },

  /** Cursors, filters and subprotocols that nobody should ask for; and those that somebody may, read to the end. */
  'odd-subscriptions': async (stage) => {
    const sockets: WebSocket[] = []
    await repeat(stage, 40, () => {
      const service = stage.random.pick(services(stage))
      const queries = service.path === relayPath ? relayQueries : streamQueries
      const url = `${service.url.replace('http', 'ws')}${service.path}?${stage.random.pick(queries)(stage)}`
      const protocols = stage.random.pick(subprotocols)
      const socket = new WebSocket(url, protocols, { localAddress: stage.random.pick(addresses) })
      socket.on('error', () => undefined)
      socket.on('message', () => stage.count('messages'))
      sockets.push(socket)
      if (sockets.length > 60) sockets.shift()?.terminate()
      stage.count('subscriptions')
    })
    for (const socket of sockets) socket.terminate()
  },

  /** Framings of proposal 0015, read from the oldest event by many. */
  'other-framings': async (stage) => {
    const sockets = Array.from({ length: 20 }, (_, index) => {
      const socket = new WebSocket(
        `${stage.relayUrl.replace('http', 'ws')}${relayPath}?cursor=0`,
        [index % 2 === 0 ? 'xrpc.v1.json' : 'xrpc.v1.cbor'],
        { localAddress: addresses[0] },
      )
      socket.on('error', () => undefined)
      socket.on('message', () => stage.count('messages'))
      return socket
    })
    await repeat(stage, 2, () => undefined)
    for (const socket of sockets) socket.terminate()
  },

  /** Questions over HTTP with odd parameters, and answers that nobody reads. */
  'odd-requests': async (stage) => {
    await repeat(stage, 100, () => {
      const { url } = stage.random.pick(services(stage))
      const { hostname, port } = new URL(url)
      const socket = connect({
        host: hostname,
        port: Number(port),
        localAddress: stage.random.pick(addresses),
      })
      socket.on('error', () => undefined)
      socket.write(stage.random.pick(requests)(stage))
      setTimeout(() => socket.destroy(), stage.random.below(2000))
      stage.count('requests')
    })
  },
}

interface ServicePlace {
  url: string
  path: string
}

function services({ relayUrl, streamUrl }: Stage): ServicePlace[] {
  return [
    { url: relayUrl, path: relayPath },
    { url: streamUrl, path: streamPath },
  ]
}

/** Opens a WebSocket by hand: what is written after that need not be WebSocket. */
function open(stage: Stage, { url, path }: ServicePlace, query: string): Socket {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), localAddress: stage.random.pick(addresses) })
  socket.on('error', () => undefined)
  const lines = [
    `GET ${path}${query} HTTP/1.1`,
    `Host: ${hostname}:${port}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
  ]
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  return socket
}

/** Writes to some consumers' connections, as fast as they are taken. */
async function pourInto(stage: Stage, chunk: () => Buffer, first?: Buffer): Promise<void> {
  const sockets = new Map<Socket, boolean>()
  const data = chunk()
  while (!stage.signal.aborted) {
    while (sockets.size < 20) {
      const socket = open(stage, stage.random.pick(services(stage)), '')
      socket.on('data', () => undefined)
      socket.once('data', () => {
        if (first) socket.write(first)
        sockets.set(socket, true)
      })
      socket.on('close', () => sockets.delete(socket))
      sockets.set(socket, false)
      stage.count('consumers')
    }
    for (const [socket, isOpen] of sockets) {
      if (!isOpen || socket.writableLength > 500_000) continue
      socket.write(data)
      stage.count('bytes', data.length)
    }
    await pause(stage, 2)
  }
  for (const socket of sockets.keys()) socket.destroy()
}

/** A frame with a mask of zeros, as clients must mask theirs. */
function masked(head: number, payload: Buffer): Buffer {
  const size =
    payload.length < 126
      ? Buffer.of(0x80 | payload.length)
      : Buffer.of(0x80 | 126, payload.length >> 8, payload.length & 0xff)
  return Buffer.concat([Buffer.of(head), size, Buffer.alloc(4), payload])
}

const subprotocols: readonly string[][] = [
  [],
  ['xrpc.v0.cbor'],
  ['xrpc.v1.json'],
  ['xrpc.v1.cbor'],
  ['constructor'],
  ['xrpc.v9', 'xrpc.v1.json'],
  Array.from({ length: 500 }, (_, index) => `p${index}`),
]

type Query = (stage: Stage) => string

const oddCursors: readonly Query[] = [
  () => 'cursor=0',
  () => 'cursor=-1',
  () => 'cursor=9007199254740991',
  () => 'cursor=99999999999999999999999',
  () => 'cursor=1e3',
  () => 'cursor=NaN',
  () => 'cursor=',
  () => 'cursor=1&cursor=2',
  ({ random }) => `cursor=${random.below(10_000)}`,
]

const relayQueries: readonly Query[] = [...oddCursors, () => '', () => `x=${'y'.repeat(10_000)}`]

const streamQueries: readonly Query[] = [
  ...oddCursors,
  () => 'kinds=constructor',
  () => 'collections=*',
  () => 'collections=constructor.prototype.*',
  () => 'cursor=0&collections=org.impact.*&kinds=commit',
  () => 'cursor=0&maxMessageSizeBytes=1',
  () => 'maxMessageSizeBytes=-5',
  () => 'zstdDictionary=1',
  ({ victims }) => `cursor=0&${victims.map(({ did }) => `dids=${did}`).join('&')}`,
  ({ random }) => Array.from({ length: 3000 }, () => `dids=did:plc:${random.below(1e9)}`).join('&'),
  () => `collections=${'a.'.repeat(3000)}b`,
]

const sync = 'com.atproto.sync'
const archive = 'network.social.stream'
const segments = [
  'seg_0000000000.jss',
  'seg_0000000001.jss',
  'seg_9999999999.jss',
  '../state.sqlite',
  'constructor',
]

const requests: readonly Query[] = [
  () => get(`${sync}.listRepos?limit=1000`).repeat(20),
  () => get(`${sync}.listHosts?cursor=-1`),
  () => get(`${sync}.getRepoStatus?did=constructor`),
  ({ victims }) => get(`${sync}.getRepo?did=${victims[0]?.did}`),
  () => get(`${sync}.getHostStatus?hostname=__proto__`),
  () => get('constructor'),
  () => get('..%2f..%2f%00%ff'),
  ({ random }) =>
    post(`${sync}.requestCrawl`, {
      hostname: random.pick(['constructor', 'localhost', '127.0.7.1:1', 'x'.repeat(5000)]),
    }),
  () => post(`${sync}.requestCrawl`, { hostname: 'cut.example.com' }).slice(0, -10),
  () => get(`${archive}.listSegments?limit=1000`, apiKey),
  () => get(`${archive}.listSegments`, 'x'.repeat(5000)),
  ({ random }) =>
    get(`${archive}.getSegment?name=${random.pick(segments)}`, apiKey, `range: bytes=${random.below(1e6)}-`),
  ({ random }) =>
    get(
      `${archive}.getBlock?segment=${random.pick(segments)}&blockIndex=${random.pick([-1, 0, 1, 1e9])}`,
      apiKey,
    ),
  ({ victims }) =>
    post(`${archive}.planSnapshot`, { dids: victims.map(({ did }) => did), kinds: ['commit'] }, apiKey),
  ({ random }) =>
    post(`${archive}.planSnapshot`, { afterSeq: random.pick([-1, 5, 1e20]), collections: ['*'] }, apiKey),
  () => `GET / HTTP/1.1\r\nhost: x\r\n${'x-a: b\r\n'.repeat(5000)}\r\n`,
  () => 'GET / HTTP/1.1\r\n',
  () => '\u0000\u0001\u0002',
]

function get(method: string, key?: string, header?: string): string {
  const headers = [
    ...(key === undefined ? [] : [`authorization: Bearer ${key}`]),
    ...(header === undefined ? [] : [header]),
  ]
  return [`GET /xrpc/${method} HTTP/1.1`, 'host: x', ...headers, '', ''].join('\r\n')
}

function post(method: string, input: object, key = 'none'): string {
  const body = JSON.stringify(input)
  const headers = [
    `authorization: Bearer ${key}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
  ]
  return [`POST /xrpc/${method} HTTP/1.1`, 'host: x', ...headers, '', body].join('\r\n')
}
