/** What a stream says that it has of each host. */
import { pagesOf, rowsOf } from '../answer-lists.ts'
import { callService, NoAnswerError, RefusedTokenError, ServiceError } from '../call-service.ts'

const method = 'network.social.stream.getCoverage'

/** Collections that a stream watches, and for those that it may not have whole of a host, why not. */
export type HostCoverage = ReadonlyMap<string, string | undefined>

/** By host. */
export class Coverage {
  readonly #hosts: ReadonlyMap<string, HostCoverage>

  constructor(hosts: ReadonlyMap<string, HostCoverage>) {
    this.#hosts = hosts
  }

  /** Why the stream may lack a collection of a host. It may lack all of a host that it does not list. */
  of(host: string): HostCoverage {
    const known = this.#hosts.get(host)
    if (known) return known
    const watched = [...this.#hosts.values()].flatMap((collections) => [...collections.keys()])
    return new Map(watched.map((collection) => [collection, 'the stream does not list its host']))
  }
}

/** Undefined for a stream that does not tell: other servers of its wire have no such method. */
export async function readCoverage(url: string): Promise<Coverage | undefined> {
  const hosts = new Map<string, HostCoverage>()
  try {
    for await (const { hostname, collections } of listCoverage(url)) {
      const words = collections.map(
        ({ collection, status, reason }) =>
          [collection, status === 'complete' ? undefined : (reason ?? status)] as const,
      )
      hosts.set(hostname, new Map(words))
    }
  } catch (error) {
    // If nobody is there at all, reading the events tells it.
    if ([NoAnswerError, RefusedTokenError, ServiceError].some((kind) => error instanceof kind))
      return undefined
    throw error
  }
  return hosts.size === 0 ? undefined : new Coverage(hosts)
}

export interface CoveredHost {
  hostname: string
  collections: { collection: string; status: string; completeAtSeq?: number; reason?: string }[]
}

/**
 * What a stream says of each host, page by page.
 * @param onPage called with all that an answer has, before its hosts.
 * @throws as `callService`.
 */
export async function* listCoverage(
  url: string,
  onPage: (answer: unknown) => void = () => {},
): AsyncGenerator<CoveredHost> {
  const ask = async (cursor: string | undefined): Promise<unknown> => {
    const query = new URLSearchParams({ limit: '1000', ...(cursor !== undefined && { cursor }) })
    const answer = await callService(url, `${method}?${query.toString()}`, {})
    onPage(answer)
    return answer
  }
  for await (const page of pagesOf(url, 'hosts', ask, { kinds: { hostname: 'string' } }))
    for (const host of page) {
      rowsOf(url, host, 'collections', { collection: 'string', status: 'string' })
      yield host as unknown as CoveredHost // as was looked
    }
}
