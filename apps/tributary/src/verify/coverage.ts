/** What a stream says that it has of each host. */
import { callService, NoAnswerError, RefusedTokenError, ServiceError } from '../call-service.ts'

const method = 'network.social.stream.getCoverage'
/** Pages of 1000 hosts. It is ten times what a stream reads. */
const pagesMax = 100

/** Collections that a stream watches, and for those that it may not have whole of a host, why not. */
export type HostCoverage = ReadonlyMap<string, string | undefined>

/** By host. */
export class Coverage {
  readonly #hosts: ReadonlyMap<string, HostCoverage>

  constructor(hosts: ReadonlyMap<string, HostCoverage>) {
    this.#hosts = hosts
  }

  /** Of a host that the stream does not list it may have nothing of what it watches. */
  of(host: string): HostCoverage {
    const known = this.#hosts.get(host)
    if (known) return known
    const watched = [...this.#hosts.values()].flatMap((collections) => [...collections.keys()])
    return new Map(watched.map((collection) => [collection, 'the stream does not list its host']))
  }
}

/** Undefined for a stream that does not tell: other servers of its wire have no such method. @throws NoAnswerError */
export async function readCoverage(url: string): Promise<Coverage | undefined> {
  const hosts = new Map<string, HostCoverage>()
  let cursor: string | undefined
  for (let page = 0; page < pagesMax; page++) {
    const query = new URLSearchParams({ limit: '1000', ...(cursor !== undefined && { cursor }) })
    const answer = await ask(url, query)
    if (answer === undefined) return undefined
    for (const { hostname, collections } of answer.hosts) {
      const words = collections.map(
        ({ collection, status, reason }) =>
          [collection, status === 'complete' ? undefined : (reason ?? status)] as const,
      )
      hosts.set(hostname, new Map(words))
    }
    cursor = answer.cursor
    if (cursor === undefined) return hosts.size === 0 ? undefined : new Coverage(hosts)
  }
  throw new NoAnswerError(`${url} lists more than ${pagesMax * 1000} hosts`)
}

interface Page {
  cursor?: string
  hosts: { hostname: string; collections: { collection: string; status: string; reason?: string }[] }[]
}

async function ask(url: string, query: URLSearchParams): Promise<Page | undefined> {
  try {
    const page = (await callService(url, `${method}?${query.toString()}`, {})) as Page // by its lexicon
    return Array.isArray(page.hosts) ? page : undefined
  } catch (error) {
    // If nobody is there at all, reading the events tells it.
    if ([NoAnswerError, RefusedTokenError, ServiceError].some((kind) => error instanceof kind))
      return undefined
    throw error
  }
}
