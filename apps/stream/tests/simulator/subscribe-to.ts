/** Subscribes as an upgrade request does that the server has let through. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { AcceptSubscription, XrpcServer } from '@tributary/xrpc'
import { EventDictionary } from '../../src/delivery/event-dictionary.ts'
import { serveSubscribe } from '../../src/serve/subscribe-method.ts'
import type { Filter } from './subscriber.ts'
import type { StreamProcess } from './stream-process.ts'

interface Request {
  request: IncomingMessage
  socket: Duplex
  filter: Filter
  cursor: number | undefined
}

type Handler = (context: object) => Promise<AcceptSubscription>

/** How far back a cursor may reach: as far as there is anything. */
const lookBackMs = 2 ** 50
const handlers = new WeakMap<StreamProcess['parts'], Handler>()

/** @param onThrown told of what the method throws. */
export function subscribeTo(
  parts: StreamProcess['parts'],
  { request, socket, filter, cursor }: Request,
  onThrown: (error: unknown) => void,
): void {
  const params = { ...filter, ...(cursor === undefined ? {} : { cursor }) }
  const context = { params, request, clientAddress: '203.0.113.1' }
  handlerOf(parts)(context)
    .then((accept) => accept(request, socket, Buffer.alloc(0)))
    .catch(onThrown)
}

/** The method as it is, without a server around it. */
function handlerOf(parts: StreamProcess['parts']): Handler {
  const known = handlers.get(parts)
  if (known) return known
  const { archive, delivery, fanout, watched } = parts
  let method: Handler = () => Promise.reject(new Error('the method is not served'))
  const server = { subscription: (_: string, handler: Handler) => (method = handler) }
  serveSubscribe(server as unknown as XrpcServer, {
    segments: archive.segments,
    delivery,
    fanout,
    watched,
    dictionary: new EventDictionary(),
    lookBackMs,
    subscribersMax: 100,
    subscribersPerAddressMax: 100,
  }) // all of a server that it uses
  handlers.set(parts, method)
  return method
}
