import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { Lexicons } from '@atproto/lexicon'
import { createLogger } from '@tributary/telemetry'
import { createXrpcServer, type XrpcServer, type XrpcServerOptions } from './xrpc-server.ts'

const lexicons = new Lexicons([
  {
    lexicon: 1,
    id: 'test.call.query',
    defs: {
      main: {
        type: 'query',
        parameters: { type: 'params', properties: { limit: { type: 'integer', minimum: 1, default: 10 } } },
        output: {
          encoding: 'application/json',
          schema: {
            type: 'object',
            required: ['items'],
            properties: { items: { type: 'array', items: { type: 'string' } }, link: { type: 'cid-link' } },
          },
        },
      },
    },
  },
  {
    lexicon: 1,
    id: 'test.call.procedure',
    defs: {
      main: {
        type: 'procedure',
        input: {
          encoding: 'application/json',
          schema: {
            type: 'object',
            required: ['name'],
            properties: { name: { type: 'string', maxLength: 100 } },
          },
        },
      },
    },
  },
  {
    lexicon: 1,
    id: 'test.call.subscribe',
    defs: {
      main: {
        type: 'subscription',
        parameters: { type: 'params', properties: { cursor: { type: 'integer' } } },
        message: { schema: { type: 'union', refs: [] } },
      },
    },
  },
])

interface TestServer extends AsyncDisposable {
  readonly server: XrpcServer
  readonly url: string
  readonly port: number
  /** What the server logged, one line each. */
  readonly logged: string[]
}

/** A server on a free port of loopback, with methods that `define` adds. */
export async function startTestServer(
  define: (server: XrpcServer) => void,
  options: Partial<XrpcServerOptions> = {},
): Promise<TestServer> {
  const logged: string[] = []
  const logger = createLogger('test', { destination: { write: (line) => void logged.push(line) } })
  const server = createXrpcServer({ lexicons, logger, ...options })
  define(server)
  const { url, port } = await server.listen({ host: '127.0.0.1', port: 0 })
  return { server, url, port, logged, [Symbol.asyncDispose]: () => server.close() }
}

/** Sends bytes as they are and returns everything that comes back until the server closes. */
export async function exchange(port: number, sent: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write(sent)
  return text(socket)
}

/** An answer in the form that tests compare: the body is parsed when it is JSON. */
export async function answerOf(
  response: Promise<Response>,
): Promise<{ status: number; body: unknown; headers: Headers }> {
  const { status, headers } = await response
  const body = await (await response).text()
  const isJson = body !== '' && headers.get('content-type')?.startsWith('application/json') === true
  return { status, headers, body: isJson ? JSON.parse(body) : body }
}
