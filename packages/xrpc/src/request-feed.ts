import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Turns } from '@tributary/rates'

/** The head of every request ends with it: the parser takes no other end. */
const headEnd = '\r\n\r\n'
/** Bytes of a body that are handed over before others have their turn. Chunks that wait are joined up to this size. */
const sliceBytesMax = 16 * 1024

/**
 * Stands between the socket of a connection and Node's HTTP parser, which begins all requests of a chunk within one turn
 * of the event loop: 64 kB hold two thousand. It hands over one request, and the next one when that is answered.
 */
export class RequestFeed {
  readonly #socket: Socket & { readonly _paused?: boolean }
  readonly #turns: Turns
  readonly #onChunk: (bytes: number) => void
  readonly #handOver: (bytes: Buffer) => void
  /** What was received and not handed over. Whoever sends it is bounded by `limitArriving`. */
  #rest: Buffer[] = []
  /** Requests that were begun and are not answered. */
  #unanswered = 0
  #newest: ServerResponse | undefined
  #isOver = false

  /**
   * @param socket that the parser has just begun to listen to.
   * @param onChunk told of each chunk before it is taken. It may end the feed.
   */
  constructor(socket: Socket, turns: Turns, onChunk: (bytes: number) => void) {
    this.#socket = socket
    this.#turns = turns
    this.#onChunk = onChunk
    const [listener, other] = socket.listeners('data')
    if (!listener || other) throw new Error('invariant broken: the HTTP parser alone listens to its socket')
    socket.removeAllListeners('data')
    this.#handOver = (bytes) => void Reflect.apply(listener, socket, [bytes])
    socket.on('data', this.#take)
    socket.on('drain', this.#goOn)
    // The parser is gone after these.
    socket.prependListener('end', this.#drop)
    socket.prependListener('close', this.#drop)
  }

  /** Bytes that were received and not handed over. */
  get waitingBytes(): number {
    return this.#rest.reduce((sum, { length }) => sum + length, 0)
  }

  /** Whether an answer has begun and is not over. */
  get isAnswering(): boolean {
    return this.#unanswered > 0 && this.#newest?.headersSent === true
  }

  /** The parser has begun a request. */
  begin(response: ServerResponse): void {
    this.#unanswered++
    this.#newest = response
    response.once('close', () => {
      this.#unanswered--
      this.#goOn()
    })
  }

  /** Hands nothing over any more. @returns what was received and not handed over. */
  end(): Buffer {
    const rest = Buffer.concat(this.#rest)
    this.#rest = []
    this.#isOver = true
    this.#newest = undefined
    this.#socket.off('data', this.#take)
    this.#socket.off('drain', this.#goOn)
    this.#socket.off('end', this.#drop)
    this.#socket.off('close', this.#drop)
    return rest
  }

  readonly #drop = (): void => void this.end()

  readonly #take = (chunk: Buffer): void => {
    this.#onChunk(chunk.length)
    if (this.#isOver) return
    const last = this.#rest.at(-1)
    if (last && last.length + chunk.length <= sliceBytesMax)
      this.#rest[this.#rest.length - 1] = Buffer.concat([last, chunk])
    else this.#rest.push(chunk)
    this.#goOn()
  }

  readonly #goOn = (): void => {
    if (this.#mayHandOver) this.#turns.run(this.#step)
  }

  /** Hands over what is left of one head, or a part of a body. True when more may follow at once. */
  readonly #step = (): boolean => {
    const [first] = this.#rest
    if (!first || !this.#mayHandOver) return false
    const slice = first.subarray(0, sliceBytesMax)
    const at = slice.indexOf(headEnd)
    const end = at < 0 ? slice.length : at + headEnd.length
    if (end < first.length) this.#rest[0] = first.subarray(end)
    else this.#rest.shift()
    this.#handOver(first.subarray(0, end))
    return this.#mayHandOver
  }

  get #mayHandOver(): boolean {
    const { destroyed, writableEnded, _paused } = this.#socket
    // Node's parser asserts that its socket is not paused, which it is while an answer is not taken.
    if (this.#rest.length === 0 || this.#isOver || destroyed || writableEnded || _paused === true)
      return false
    // The body of a request may follow its head, and the next head the body.
    const isArriving = this.#unanswered === 1 && this.#newest?.req.complete === false
    return this.#unanswered === 0 || isArriving
  }
}
