import { hash } from 'node:crypto'
import { type ClientOptions, createClient, type StreamClient } from './client.ts'
import { nodeDecoder } from './node-decoder.ts'
import { openNodeSocket } from './node-socket.ts'
import { stallMsDefault } from './runtime.ts'

/** Servers ping every 30 s, and answer our own pings. */
const idleLimitMs = 90_000

/** A client on Node's own zstd and the `ws` package. */
export function createStreamClient(options: ClientOptions): StreamClient {
  return createClient(options, {
    decode: nodeDecoder,
    // A text is handed over faster than a buffer, which has to be allocated outside of the heap.
    sha256: (bytes) => Buffer.from(hash('sha256', bytes, 'binary'), 'latin1'),
    openSocket: openNodeSocket,
    failuresHaveCause: true,
    showsRefusals: true,
    stallMs: stallMsDefault,
    idleLimitMs,
  })
}
