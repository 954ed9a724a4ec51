/** Requests of a parent to a child process that `startProcess` started: one answer for each. */

/** What a child says about itself, by the name of the request. */
export type RequestHandlers = Record<string, (argument: never) => unknown>

/** One request as it travels. */
export interface ChildRequest {
  id: number
  request: string
  argument: unknown
}

/** The answer to the request with the same id. */
export interface ChildAnswer {
  id: number
  answer?: unknown
  error?: string
}

export function isAnswer(message: unknown): message is ChildAnswer {
  return typeof message === 'object' && message !== null && 'id' in message && !('request' in message)
}

function isRequest(message: unknown): message is ChildRequest {
  return typeof message === 'object' && message !== null && 'id' in message && 'request' in message
}

/** In the child: answers every request of the parent with what its handler returns or throws. */
export function answerRequests(handlers: RequestHandlers): void {
  process.on('message', (message) => {
    if (isRequest(message)) void answer(handlers, message)
  })
}

async function answer(handlers: RequestHandlers, { id, request, argument }: ChildRequest): Promise<void> {
  let reply: ChildAnswer
  try {
    const handler = handlers[request]
    if (handler === undefined) throw new Error(`this process answers no ${request}`)
    reply = { id, answer: await handler(argument as never) } // reason: parent and child share the request's type.
  } catch (error) {
    reply = { id, error: String(error) }
  }
  process.send?.(reply)
}

/** Tells the parent that the child is ready, and ends the child with its parent or when asked. */
export function reportReady(url: string, stop: () => void): void {
  for (const event of ['SIGTERM', 'SIGINT', 'disconnect']) process.once(event, stop)
  process.send?.({ ready: true, url })
}
