import { Agent, request } from 'node:http'

const requestMs = 30_000

export interface PageResult {
  /** Milliseconds of each request, shortest first. */
  sortedMs: Float64Array
  /** Entries of all pages. */
  entries: number
  seconds: number
}

/**
 * POSTs every body, `parallel` at a time, each on a connection of its own that stays open. Throws at the first answer
 * that is not 200: the time of a refusal is not that of a page.
 */
export async function requestPages(
  url: string,
  bodies: readonly object[],
  parallel: number,
): Promise<PageResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: parallel })
  const waiting = bodies.values()
  const times: number[] = []
  let entries = 0
  const startMs = performance.now()
  const work = async (): Promise<void> => {
    for (const body of waiting) {
      const fromMs = performance.now()
      const text = await post(agent, url, JSON.stringify(body))
      times.push(performance.now() - fromMs)
      const { feed } = JSON.parse(text) as { feed: unknown[] } // reason: as both methods answer.
      entries += feed.length
    }
  }
  await Promise.all(Array.from({ length: parallel }, work))
  const seconds = (performance.now() - startMs) / 1000
  agent.destroy()
  return { sortedMs: Float64Array.from(times).toSorted(), entries, seconds }
}

async function post(agent: Agent, url: string, body: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const sent = request(url, { agent, method: 'POST', headers, timeout: requestMs }, (response) => {
    const parts: Buffer[] = []
    response.on('data', (part: Buffer) => parts.push(part))
    response.on('error', reject)
    response.on('end', () => {
      const text = Buffer.concat(parts).toString('utf8')
      if (response.statusCode === 200) resolve(text)
      else reject(new Error(`${url} answered ${response.statusCode}: ${text.slice(0, 300)}`))
    })
  })
  sent.on('error', reject)
  sent.on('timeout', () => sent.destroy(new Error(`${url} did not answer`)))
  sent.end(body)
  return promise
}
