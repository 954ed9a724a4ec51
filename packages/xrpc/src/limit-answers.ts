import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { endLargest, type Holder } from './end-largest.ts'
import { siteOf } from './network-of.ts'

/** How often answers are looked at. Between two looks grows what is made within a second. */
const lookEveryMs = 1000

class Answer implements Holder {
  readonly network: string
  readonly socket: Socket
  readonly #response: ServerResponse

  constructor(network: string, socket: Socket, response: ServerResponse) {
    this.network = network
    this.socket = socket
    this.#response = response
  }

  /** Bytes that the caller has not taken. A write is kept whole until its last byte is taken. */
  get bytes(): number {
    return this.#response.writableLength
  }
}

/**
 * Bounds what answers hold in memory until their callers have taken them, because each connection may leave a large one.
 * Beyond `bytesMax` the connection is closed that holds most, of the network (`siteOf`) that holds most.
 * @param addressOf who sent a request, behind trusted proxies too.
 */
export function limitAnswers(
  server: Server,
  bytesMax: number,
  addressOf: (request: IncomingMessage) => string,
): void {
  const answers = new Set<Answer>()
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const answer = new Answer(siteOf(addressOf(request)), request.socket, response)
    answers.add(answer)
    response.once('close', () => answers.delete(answer))
  })
  const timer = setInterval(() => {
    // Node does not tell of an answer whose connection was lost while it waited for an earlier one.
    for (const answer of answers) if (answer.socket.destroyed) answers.delete(answer)
    endLargest(answers, bytesMax, ({ socket }) => socket.destroy())
  }, lookEveryMs).unref()
  server.once('close', () => clearInterval(timer))
}
