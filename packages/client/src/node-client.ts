import { createHash } from 'node:crypto'
import { decodeFrame } from '@tributary/segment'
import { nodeDecompress } from '@tributary/segment/node'
import { type ClientOptions, createClient, type StreamClient } from './client.ts'
import { openNodeSocket } from './node-socket.ts'
import { blockBodyBytesMax } from './runtime.ts'

/** Servers ping every 30 s, and answer our own pings. */
const idleLimitMs = 90_000

/** A client on Node's own zstd and the `ws` package. */
export function createStreamClient(options: ClientOptions): StreamClient {
  return createClient(options, {
    decode: (frame) => decodeFrame(frame, nodeDecompress, blockBodyBytesMax),
    sha256: (bytes) => createHash('sha256').update(bytes).digest(),
    openSocket: openNodeSocket,
    failuresHaveCause: true,
    showsRefusals: true,
    idleLimitMs,
  })
}
