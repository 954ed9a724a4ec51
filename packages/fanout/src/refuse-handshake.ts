import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'

// Not imported: a module that imports a value of node:http loads Node's `fetch` with it, 3 MB of memory.
const { STATUS_CODES } = process.getBuiltinModule('node:http')

/**
 * Answers a request that is no WebSocket handshake with an HTTP error, and closes it.
 * @param form `json`: in the form of XRPC. `text`: the message alone.
 */
export function refuseHandshake(
  { message }: Error,
  socket: Duplex,
  { method }: IncomingMessage,
  form: 'json' | 'text',
): void {
  const [status, error] = method === 'GET' ? [400, 'InvalidRequest'] : [405, 'MethodNotAllowed']
  const body = form === 'json' ? JSON.stringify({ error, message }) : `${message}\n`
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `Content-Type: ${form === 'json' ? 'application/json' : 'text/plain'}; charset=utf-8`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Sec-WebSocket-Version: 13',
    ...(status === 405 ? ['Allow: GET'] : []),
    'Connection: close',
  ]
  socket.once('finish', () => socket.destroy())
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}
