/**
 * The reference that figures stand beside: what a relay or a record stream costs that is put together from the
 * published `@atproto/*` packages and sends each message to each reader with `ws.send`. A process of its own.
 *
 * It does less than ours: one source, no log on disk, no state, no replay, no quotas, one event after the other.
 * Frames are those of `@atproto/xrpc-server`; a commit is checked with `@atproto/repo` (CAR with its CIDs, signature,
 * inversion of the operations against `prevData`) and the key that `@atproto/identity` resolves. A filter (`dids`,
 * `collections`) is a set for each reader, which every event is looked up in. Answers the request `handled` with how many
 * messages it has made.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { IdResolver, MemoryCache } from '@atproto/identity'
import type { Cid, LexMap } from '@atproto/lex-data'
import {
  cborToLex,
  cborToLexRecord,
  MemoryBlockstore,
  MST,
  readCarWithRoot,
  verifyCommitSig,
} from '@atproto/repo'
import type { BlockMap, Commit } from '@atproto/repo'
import { Frame, MessageFrame } from '@atproto/xrpc-server'
import { watchedCollections } from '@tributary/protocol'
// Not from the whole testkit, whose memory would count as the reference's.
import { answerRequests, reportReady } from '@tributary/testkit/child-requests'
import { WebSocket, WebSocketServer } from 'ws'

export interface StockSettings {
  /** Event stream of the host, `ws:` with its cursor. */
  upstream: string
  plcUrl: string
  /** Whether commits are checked. */
  verifies: boolean
  /** What readers get: frames as of a relay, or JSON as of a record stream. */
  output: 'frames' | 'json'
}

interface RepoOp {
  action: 'create' | 'update' | 'delete'
  path: string
  cid: Cid | null
  prev?: Cid
}

interface CommitBody {
  seq: number
  repo: string
  rev: string
  time: string
  blocks: Uint8Array
  ops: RepoOp[]
  prevData?: Cid
}

const settings = JSON.parse(process.argv[2] ?? '') as StockSettings // reason: written by startStock.
const identities = new IdResolver({ plcUrl: settings.plcUrl, fetch, didCache: new MemoryCache() })
/** A filter of 1,000 DIDs takes 38 kB of a request. */
const server = createServer({ maxHeaderSize: 1 << 20 })
const readers = new WebSocketServer({ server, perMessageDeflate: false })
const watched = new Set<string>(watchedCollections)
const filters = new WeakMap<WebSocket, Filter>()
let seq = 0

/** Undefined for whatever comes. */
interface Filter {
  dids: Set<string> | undefined
  collections: Set<string> | undefined
}

interface Message {
  output: Uint8Array | string
  did: string
  /** Of an event of a record stream. */
  collection?: string
}

readers.on('connection', (reader, { url = '' }) => {
  const query = new URL(url, 'http://localhost').searchParams
  const setOf = (name: string): Set<string> | undefined =>
    query.has(name) ? new Set(query.getAll(name)) : undefined
  filters.set(reader, { dids: setOf('dids'), collections: setOf('collections') })
})

function wants(reader: WebSocket, { did, collection = '' }: Message): boolean {
  const filter = filters.get(reader)
  return filter?.dids?.has(did) !== false && filter?.collections?.has(collection) !== false
}

async function verify(body: CommitBody, root: Cid, blocks: BlockMap): Promise<void> {
  const commit = cborToLex(blocks.get(root) ?? new Uint8Array()) as unknown as Commit // reason: checked by its signature.
  const key = await identities.did.resolveAtprotoKey(body.repo)
  if (commit.did !== body.repo || commit.rev !== body.rev || !(await verifyCommitSig(commit, key)))
    throw new Error('bad signature')
  let tree = MST.load(new MemoryBlockstore(blocks), commit.data)
  for (const { action, path, prev } of body.ops.toReversed()) {
    if (action === 'create') tree = await tree.delete(path)
    else if (prev === undefined) throw new Error('no previous value')
    else tree = action === 'update' ? await tree.update(path, prev) : await tree.add(path, prev)
  }
  const before = await tree.getPointer()
  if (body.prevData !== undefined && !before.equals(body.prevData))
    throw new Error('the operations do not invert')
}

/** What readers get for one commit. */
function messagesOf(body: CommitBody, blocks: BlockMap): Message[] {
  if (settings.output === 'frames') {
    const renumbered = { ...body, seq: ++seq } as unknown as LexMap // reason: decoded from CBOR, so it can be encoded.
    return [{ output: new MessageFrame(renumbered, { type: '#commit' }).toBytes(), did: body.repo }]
  }
  return body.ops.flatMap(({ action, path, cid }) => {
    const [collection = '', rkey = ''] = path.split('/')
    if (!watched.has(collection)) return []
    const bytes = cid === null ? undefined : blocks.get(cid)
    const record = bytes === undefined ? undefined : cborToLexRecord(bytes)
    const { repo: did, rev, time } = body
    const event = { did, time, rev, operation: action, collection, rkey, cid: cid?.toString(), record }
    const $type = 'network.social.stream.subscribeEvents#commit'
    return [{ output: JSON.stringify({ $type, seq: ++seq, ...event }), did, collection }]
  })
}

async function handle(message: Uint8Array): Promise<void> {
  const frame = Frame.fromBytes(message)
  if (!frame.isMessage() || frame.type !== '#commit') return
  const body = frame.body as unknown as CommitBody // reason: the load has nothing else.
  const { root, blocks } = await readCarWithRoot(body.blocks)
  if (settings.verifies) await verify(body, root, blocks)
  for (const message of messagesOf(body, blocks)) {
    for (const reader of readers.clients)
      if (reader.readyState === WebSocket.OPEN && wants(reader, message)) reader.send(message.output)
  }
}

server.listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = server.address() as AddressInfo // reason: a TCP server that listens has one.
const upstream = new WebSocket(settings.upstream, { perMessageDeflate: false })
await once(upstream, 'open')

/** Frames received and not handled yet; above the limit the socket is not read. */
const pendingMax = 64
let pending = 0
let last = Promise.resolve()
upstream.on('message', (data: Buffer) => {
  if (++pending >= pendingMax) upstream.pause()
  last = last
    .then(() => handle(data))
    .then(() => {
      if (--pending < pendingMax && upstream.isPaused) upstream.resume()
    })
})
answerRequests({ handled: () => seq })
reportReady(`http://127.0.0.1:${port}`, () => process.exit(0))
