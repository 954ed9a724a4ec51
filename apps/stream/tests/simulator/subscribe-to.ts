/** Subscribes as an upgrade request does that the server has let through. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { AcceptSubscription, XrpcServer } from '@tributary/xrpc'
import { EventDictionary } from '../../src/delivery/event-dictionary.ts'
import { serveSubscribe } from '../../src/serve/subscribe-method.ts'
import type { Filter } from './subscriber.ts'
import { subscribersMax } from './step.ts'
import type { StreamProcess } from './stream-process.ts'

interface Request {
  request: IncomingMessage
  socket: Duplex
  address: string
  filter: Filter
  cursor: number | undefined
}

type Handler = (context: object) => Promise<AcceptSubscription>

/** How far back a cursor may reach by default: as far as there is anything. */
const lookBackMs = 2 ** 50
/** Places for all, and for each address. One that is not given back is missed soon. */
const places = { subscribersMax: subscribersMax + 2, subscribersPerAddressMax: 2 }
const handlers = new WeakMap<StreamProcess, Handler>()

/** @param onThrown told of what the method throws. */
export function subscribeTo(
  stream: StreamProcess,
  { request, socket, address, filter, cursor }: Request,
  onThrown: (error: unknown) => void,
): void {
  const params = { ...filter, ...(cursor === undefined ? {} : { cursor }) }
  const context = { params, request, clientAddress: address }
  const now = Date.now
  try {
    // The method reads the clock of the machine, at once.
    Date.now = () => stream.clock.nowMs()
    handlerOf(stream)(context)
      .then((accept) => accept(request, socket, Buffer.alloc(0)))
      .catch(onThrown)
  } finally {
    Date.now = now
  }
}

/** The method as it is, without a server around it. */
function handlerOf(stream: StreamProcess): Handler {
  const known = handlers.get(stream)
  if (known) return known
  const { archive, delivery, fanout, watched } = stream.parts
  let method: Handler = () => Promise.reject(new Error('the method is not served'))
  const server = { subscription: (_: string, handler: Handler) => (method = handler) }
  serveSubscribe(server as unknown as XrpcServer, {
    segments: archive.segments,
    delivery,
    fanout,
    watched,
    dictionary: new EventDictionary(),
    lookBackMs: stream.world.bounds.lookBackMs ?? lookBackMs,
    lost: [],
    ...places,
  }) // all of a server that it uses
  handlers.set(stream, method)
  return method
}
