import type { Duplex } from 'node:stream'
import type { XrpcError } from './xrpc-error.ts'

// Not imported: a module that imports a value of node:http loads Node's `fetch` with it, 3 MB of memory.
const { STATUS_CODES } = process.getBuiltinModule('node:http')

/** `json`: in the form of XRPC. `text`: the message alone. */
export type ErrorForm = 'json' | 'text'

/** Answers on a socket that has no HTTP response object, and closes it: a refused upgrade, or a request nobody can parse. */
export function sendBareError(
  socket: Duplex,
  error: XrpcError,
  more: Readonly<Record<string, string>> = {},
  form: ErrorForm = 'json',
): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const body =
    form === 'json' ? JSON.stringify({ error: error.error, message: error.message }) : `${error.message}\n`
  const headers = {
    ...more,
    ...error.headers,
    'Content-Type': `${form === 'json' ? 'application/json' : 'text/plain'}; charset=utf-8`,
    'Content-Length': String(Buffer.byteLength(body)),
    Connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const status = `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? 'Error'}\r\n`
  socket.once('finish', () => socket.destroy())
  socket.end(`${status}${lines.join('')}\r\n${body}`)
}
