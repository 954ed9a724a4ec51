import { type Decompress, decodeFrame } from '@tributary/segment'
import { decompressFrame } from '@tributary/zstd-dictionary/decoder'
import { type ClientOptions, createClient, type StreamClient } from './client.ts'
import { blockBodyBytesMax, stallMsDefault } from './runtime.ts'
import { sha256 } from './sha256.ts'
import { openStandardSocket } from './socket.ts'

/** Browsers do not show pings, so a quiet stream looks like a dead one; reconnecting costs little. */
const idleLimitMs = 300_000

export interface BrowserClientOptions extends ClientOptions {
  /** A zstd decoder for the archive. Default: one in JavaScript. */
  decompress?: Decompress
}

/**
 * A client for any platform with `fetch`, `WebSocket` and `crypto.subtle`. In Node use that of
 * `@tributary/client/node`, which brings its own decompressor and can hold a fast server back.
 */
export function createStreamClient({
  decompress = decompressFrame,
  ...options
}: BrowserClientOptions): StreamClient {
  return createClient(options, {
    decode: (frame) => decodeFrame(frame, decompress, blockBodyBytesMax),
    sha256,
    openSocket: openStandardSocket,
    failuresHaveCause: false,
    showsRefusals: false,
    stallMs: stallMsDefault,
    idleLimitMs,
  })
}
