import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface SlowPlc extends AsyncDisposable {
  url: string
  /** From now on requests for this DID wait. Settles when the first one has come. */
  hold(did: string): Promise<void>
  /** Lets the requests for this DID through. */
  release(did: string): void
  /** From now on requests for this DID are answered with this status. */
  answer(did: string, status: number): void
}

/** A PLC directory in front of the real one, slower than it where the test says so. */
export async function startSlowPlc(plcUrl: string): Promise<SlowPlc> {
  const held = new Map<string, PromiseWithResolvers<void>>()
  const asked = new Map<string, () => void>()
  const statuses = new Map<string, number>()
  const server = createServer((request, response) => {
    const did = decodeURIComponent(request.url?.slice(1) ?? '')
    const forward = async (): Promise<void> => {
      asked.get(did)?.()
      await held.get(did)?.promise
      const answer = await fetch(`${plcUrl}${request.url ?? ''}`)
      const status = statuses.get(did) ?? answer.status
      response.writeHead(status, { 'content-type': 'application/json' }).end(await answer.text())
    }
    void forward()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // listening on TCP
  return {
    url: `http://127.0.0.1:${port}`,
    hold(did) {
      held.set(did, Promise.withResolvers())
      return new Promise((resolve) => asked.set(did, resolve))
    },
    release: (did) => held.get(did)?.resolve(),
    answer: (did, status) => void statuses.set(did, status),
    async [Symbol.asyncDispose]() {
      for (const { resolve } of held.values()) resolve()
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
