import type { Socket } from 'node:net'
import type { Turns } from '@tributary/rates'

/** Bytes that are handed over before others have their turn: 85 of the shortest frames. */
const sliceBytes = 512

export interface ClientFeedOptions {
  turns: Turns
  /** Bytes that the consumer may send between two calls of `allowMore`. */
  bytesMax: number
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
  #rest: Buffer | undefined
  #bytes = 0
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

  /** Begins the count of bytes again. */
  allowMore(): void {
    this.#bytes = 0
  }

  #take(chunk: Buffer): void {
    if (this.#isOver) return
    const { turns, bytesMax } = this.#options
    this.#bytes += chunk.length
    if (this.#bytes > bytesMax) {
      this.#end()
      this.onTooMany()
      return
    }
    const isWaiting = this.#rest !== undefined
    this.#rest = this.#rest ? Buffer.concat([this.#rest, chunk]) : chunk
    if (!isWaiting) turns.run(this.#step)
  }

  #end(): void {
    this.#isOver = true
    this.#rest = undefined
  }

  readonly #step = (): boolean => {
    const rest = this.#rest
    if (!rest) return false
    this.#rest = rest.length > sliceBytes ? rest.subarray(sliceBytes) : undefined
    this.#handOver(rest.subarray(0, sliceBytes))
    return this.#rest !== undefined
  }
}
