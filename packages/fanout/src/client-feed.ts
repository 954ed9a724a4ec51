import type { Socket } from 'node:net'
import type { Turns } from '@tributary/rates'

/** Chunks that wait are joined to pieces of at most this size, so that many small ones take little memory. */
const joinedBytesMax = 16 * 1024

export interface ClientFeedOptions {
  turns: Turns
  /** Bytes that the consumer may send between two calls of `allowMore`. */
  bytesMax: number
  /** Bytes that are handed over before others have their turn. */
  sliceBytes: number
  /** Pings and messages that the consumer may send between two calls of `allowMore`. */
  framesMax: number
  /** Told of each chunk that is taken. */
  onChunk?: (bytes: number) => void
}

/**
 * Stands between the socket of a consumer and `ws`, which reads all frames of a chunk within one turn of the event loop:
 * 64 kB hold ten thousand pings. It hands over little at a time. A chunk that is too much is not handed over at all.
 */
export class ClientFeed {
  /** Called once, with the first byte too many. After it nothing is handed over. */
  onTooMany: () => void = () => {}
  readonly #options: ClientFeedOptions
  readonly #handOver: (chunk: Buffer) => void
  /** What was received and not handed over, at most `bytesMax` bytes. */
  #rest: Buffer[] = []
  #bytes = 0
  #frames = 0
  /** Bytes of texts that are being read. Nothing is handed over until all of them are. */
  #heldBytes = 0
  #isOver = false

  /** @param socket that `ws` has just begun to listen to. */
  constructor(socket: Socket, options: ClientFeedOptions) {
    this.#options = options
    const [listener, other] = socket.listeners('data')
    if (!listener || other) throw new Error('invariant broken: ws alone listens to its socket')
    socket.removeAllListeners('data')
    this.#handOver = (chunk) => void Reflect.apply(listener, socket, [chunk])
    socket.on('data', (chunk: Buffer) => this.#take(chunk))
    socket.prependListener('end', () => this.#end())
    // ws would read at once all that the socket has buffered when it is closed.
    socket.prependListener('close', () => {
      this.#end()
      socket.read()
    })
  }

  /** Begins the count of bytes and frames again. */
  allowMore(): void {
    this.#bytes = 0
    this.#frames = 0
  }

  /** Bytes that were received and not handed over, and those of texts that are being read. */
  get keptBytes(): number {
    return this.#rest.reduce((sum, { length }) => sum + length, this.#heldBytes)
  }

  /** Hands nothing over until a text of so many bytes has been read. Calls add up. */
  hold(bytes: number): void {
    this.#heldBytes += bytes
  }

  /** A text has been read, for which `hold` was called. */
  release(bytes: number): void {
    this.#heldBytes -= bytes
    if (this.#heldBytes === 0 && this.#rest.length > 0) this.#options.turns.run(this.#step)
  }

  /** Counts a ping or a message. */
  countFrame(): void {
    if (++this.#frames > this.#options.framesMax) this.cutOff()
  }

  /** Hands nothing over any more, and says so. */
  cutOff(): void {
    if (this.#isOver) return
    this.#end()
    this.onTooMany()
  }

  #take(chunk: Buffer): void {
    if (this.#isOver) return
    const { turns, bytesMax, onChunk } = this.#options
    this.#bytes += chunk.length
    if (this.#bytes > bytesMax) {
      this.cutOff()
      return
    }
    onChunk?.(chunk.length)
    // Others may have had to be cut off for this chunk, and this consumer too.
    if (this.#isOver) return
    const last = this.#rest.at(-1)
    if (last && last.length + chunk.length <= joinedBytesMax)
      this.#rest[this.#rest.length - 1] = Buffer.concat([last, chunk])
    else this.#rest.push(chunk)
    if (!last && this.#heldBytes === 0) turns.run(this.#step)
  }

  #end(): void {
    this.#isOver = true
    this.#rest = []
  }

  readonly #step = (): boolean => {
    const { sliceBytes } = this.#options
    if (this.#heldBytes > 0) return false
    const first = this.#rest.shift()
    if (!first) return false
    if (first.length > sliceBytes) this.#rest.unshift(first.subarray(sliceBytes))
    this.#handOver(first.subarray(0, sliceBytes))
    return this.#rest.length > 0 && this.#heldBytes === 0
  }
}
