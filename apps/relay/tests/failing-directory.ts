import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A PLC directory in front of a real one, which can fail for single accounts, and be slow. */
export interface FailingDirectory {
  url: string
  /** DIDs that are answered with 503 while they are in here. */
  failing: Set<string>
  /** DIDs that were asked for. */
  asked: Set<string>
  /** How long each answer takes longer than that of the real one. Default: not at all. */
  delayMs: () => number
  close: () => void
}

export async function startFailingDirectory(plcUrl: string): Promise<FailingDirectory> {
  const failing = new Set<string>()
  const asked = new Set<string>()
  const server = createServer((incoming, response) => {
    asked.add(incoming.url?.slice(1) ?? '')
    if (failing.has(incoming.url?.slice(1) ?? '')) {
      response.writeHead(503, { 'retry-after': '1' }).end()
      return
    }
    const forwarded = request(`${plcUrl}${incoming.url}`, (answer) => {
      setTimeout(() => {
        response.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(response)
      }, directory.delayMs())
    })
    // A test that ends closes the real directory first.
    forwarded.on('error', () => response.destroy())
    forwarded.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // it listens on a port
  const directory: FailingDirectory = {
    url: `http://127.0.0.1:${port}`,
    failing,
    asked,
    delayMs: () => 0,
    close: () => server.close(),
  }
  return directory
}
