import type { Server } from 'node:http'

/** The part of an express application that servers without a host setting are started with. */
interface Application {
  listen(port: number): Server
}

/**
 * Makes an application that is later told only a port listen on 127.0.0.1 instead of on every
 * interface: the servers of a test have well-known passwords.
 */
export function listenOnLoopback(app: {
  listen(port: number, hostname: string, backlog?: never): Server
}): void {
  const application: Application = app as unknown as Application // reason: narrows the overloads to the one that is replaced.
  const listen = app.listen.bind(app)
  application.listen = (port) => listen(port, '127.0.0.1')
}
