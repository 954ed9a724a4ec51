/**
 * Stands between services and a PostgreSQL server as a pooler does. It keeps a session for each client, or gives one out for
 * each transaction: the session that was given back last. Starts of connections are answered by the pooler itself, which
 * like PgBouncer ends those that ask for settings of a session that it does not know.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'

const [terminate, readyForQuery, outsideOfTransaction] = Buffer.from('XZI')
/** That the client is let in, and that it may ask. */
const welcome = Buffer.from('5200000008000000005a0000000549', 'hex')

/** What a start may name, after its length and version: names and values, which end with a zero each. */
const knownNames = new Set(['user', 'database', 'application_name', 'client_encoding'])

interface Session {
  readonly socket: Socket
  /** Takes what the server says, one message after the other. */
  take: (message: Buffer) => void
}

export class PostgresPooler implements AsyncDisposable {
  /** The address of the database through the pooler. */
  readonly url: string
  isPerTransaction = true
  readonly #server: Server
  readonly #path: string
  readonly #idle: Session[] = []
  readonly #sockets = new Set<Socket>()

  private constructor(url: URL, server: Server) {
    const { port } = server.address() as AddressInfo // it listens
    this.url = `postgres://${url.username}@127.0.0.1:${port}${url.pathname}`
    this.#server = server
    this.#path = join(url.searchParams.get('host') ?? '', '.s.PGSQL.5432')
    server.on('connection', (client) => void this.#serve(client))
  }

  /** @param url as `Postgres.urlOf` gives it */
  static async start(url: string): Promise<PostgresPooler> {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new PostgresPooler(new URL(url.replace('@/', '@localhost/')), server)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await once(this.#server, 'close')
  }

  async #serve(client: Socket): Promise<void> {
    this.#keep(client)
    const chunks = client.iterator() as AsyncIterable<Buffer> // it has no encoding
    let start: Buffer | undefined
    let session: Session | undefined
    try {
      for await (const chunk of chunks) {
        if (start === undefined) {
          start = chunk
          const words = chunk.toString('utf8', 8).split('\0')
          if (words.some((word, at) => at % 2 === 0 && word !== '' && !knownNames.has(word))) break
          client.write(welcome)
          continue
        }
        if (chunk[0] === terminate) break
        session ??= this.#idle.pop() ?? (await this.#open(start))
        const given = session
        given.take = (message) => {
          const isOver = message[0] === readyForQuery && message[5] === outsideOfTransaction
          if (isOver && this.isPerTransaction) {
            session = undefined
            this.#idle.push(given)
          }
          client.write(message)
        }
        given.socket.write(chunk)
      }
    } catch {
      // The connection of the client broke.
    }
    session?.socket.destroy()
    client.end()
  }

  async #open(start: Buffer): Promise<Session> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const session: Session = {
      socket: this.#keep(connect(this.#path)),
      take: ([type]) => type === readyForQuery && resolve(),
    }
    let rest: Buffer = Buffer.alloc(0)
    session.socket.on('data', (data: Buffer) => {
      rest = Buffer.concat([rest, data])
      while (rest.length >= 5 && rest.length > rest.readInt32BE(1)) {
        const size = 1 + rest.readInt32BE(1)
        session.take(rest.subarray(0, size))
        rest = rest.subarray(size)
      }
    })
    session.socket.write(start)
    await promise
    return session
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket)
    socket.on('close', () => this.#sockets.delete(socket))
    // Both ends learn of a break by their own socket.
    socket.on('error', () => undefined)
    return socket
  }
}
