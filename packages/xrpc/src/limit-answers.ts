import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { networkOf } from './network-of.ts'

/** How often answers are looked at. Between two looks grows what is made within a second. */
const lookEveryMs = 1000

interface Answer {
  response: ServerResponse
  socket: Socket
  network: string
}

/**
 * Bounds what answers hold in memory until their callers have taken them, because each connection may leave a large one.
 * Beyond `bytesMax` the connection is closed that holds most, of the network (`networkOf`) that holds most.
 * @param addressOf who sent a request, behind trusted proxies too.
 */
export function limitAnswers(
  server: Server,
  bytesMax: number,
  addressOf: (request: IncomingMessage) => string,
): void {
  const answers = new Set<Answer>()
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const answer = { response, socket: request.socket, network: networkOf(addressOf(request)) }
    answers.add(answer)
    response.once('close', () => answers.delete(answer))
  })
  const timer = setInterval(() => {
    // Node does not tell of an answer whose connection was lost while it waited for an earlier one.
    for (const answer of answers) if (answer.socket.destroyed) answers.delete(answer)
    closeLargest(answers, bytesMax)
  }, lookEveryMs).unref()
  server.once('close', () => clearInterval(timer))
}

function closeLargest(answers: Set<Answer>, bytesMax: number): void {
  const holding = new Set(answers.values().filter((answer) => heldBytes(answer) > 0))
  let held = holding.values().reduce((sum, answer) => sum + heldBytes(answer), 0)
  while (held > bytesMax) {
    const largest = largestOf(holding)
    if (!largest) return
    held -= heldBytes(largest)
    holding.delete(largest)
    largest.socket.destroy()
  }
}

/** Of the network that holds most, the answer that holds most. */
function largestOf(answers: Iterable<Answer>): Answer | undefined {
  const networks = new Map<string, { bytes: number; largest: Answer }>()
  for (const answer of answers) {
    const { bytes, largest } = networks.get(answer.network) ?? { bytes: 0, largest: answer }
    networks.set(answer.network, {
      bytes: bytes + heldBytes(answer),
      largest: heldBytes(answer) > heldBytes(largest) ? answer : largest,
    })
  }
  const [most] = [...networks.values()].toSorted((a, b) => b.bytes - a.bytes)
  return most?.largest
}

/** Bytes that the caller has not taken. A write is kept whole until its last byte is taken. */
function heldBytes({ response }: Answer): number {
  return response.writableLength
}
