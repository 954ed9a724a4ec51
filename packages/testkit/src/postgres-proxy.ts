/**
 * Stands between a service and a PostgreSQL server, and breaks their connections as a network does: without a word, or even
 * without an end.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'

/** Where a server has its socket in its directory, with the port that it has by default. */
const socketName = '.s.PGSQL.5432'

export class PostgresProxy implements AsyncDisposable {
  /** The address of the database through the proxy. */
  readonly url: string
  /** While it is true, connections are broken as soon as they are made. */
  isAway = false
  /** While it is true, nothing reaches the server, also not that a client is gone. */
  isSilent = false
  /** Words of a statement. When it has passed, `isSilent` is true. */
  silentAfter: string | undefined
  readonly #server: Server
  readonly #sockets: Set<Socket>

  private constructor(url: string, server: Server, sockets: Set<Socket>) {
    this.url = url
    this.#server = server
    this.#sockets = sockets
  }

  /** @param url as `Postgres.urlOf` gives it */
  static async start(url: string): Promise<PostgresProxy> {
    const { username, pathname, searchParams } = new URL(url.replace('@/', '@localhost/'))
    const path = join(searchParams.get('host') ?? '', socketName)
    const sockets = new Set<Socket>()
    const server = createServer((client) => {
      if (proxy.isAway) {
        client.destroy()
        return
      }
      const behind = connect(path)
      for (const socket of [client, behind]) {
        sockets.add(socket)
        // Both ends learn of the break by their own socket.
        socket.on('error', () => undefined)
        socket.on('close', () => {
          sockets.delete(socket)
          if (socket === client && proxy.isSilent) return
          client.destroy()
          behind.destroy()
        })
      }
      client.on('data', (data) => {
        if (!proxy.isSilent) behind.write(data)
        proxy.isSilent ||= proxy.silentAfter !== undefined && data.includes(proxy.silentAfter)
      })
      behind.pipe(client)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo // it listens
    const proxy = new PostgresProxy(`postgres://${username}@127.0.0.1:${port}${pathname}`, server, sockets)
    return proxy
  }

  /** Breaks all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close()
    this.cut()
    await once(this.#server, 'close')
  }
}
