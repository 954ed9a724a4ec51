/** The public methods of `com.atproto.sync` about hosts: which there are, how they are, and `requestCrawl`. */
import type { NormalizedHost } from '@tributary/identity'
import { parseIdCursor } from '@tributary/operations'
import { CallerRate, CallerTurns, XrpcError, type XrpcServer } from '@tributary/xrpc'
import type { NoticeLog } from '../policy/notice-log.ts'
import type { SourceAdmin } from '../sources/source-admin.ts'
import type { SourceSet } from '../sources/source-set.ts'
import { hostStatuses } from '../sources/source-state.ts'
import type { Source } from '../sources/source.ts'
import type { AccountTable } from '../state/account-table.ts'

export interface HostMethodsOptions {
  server: XrpcServer
  sources: SourceSet
  accounts: AccountTable
  admin: SourceAdmin
  notices: NoticeLog
  /** Reads a host name as callers write it. Undefined when it is none that the relay would ever dial. */
  normalize: (hostname: string) => NormalizedHost | undefined
}

const crawlsPerMinuteMax = 30

/** Adds the methods. A source that was removed is not shown, though what it brought is still served. */
export function addHostMethods({
  server,
  sources,
  accounts,
  admin,
  notices,
  normalize,
}: HostMethodsOptions): void {
  const describe = (source: Source) => ({
    hostname: source.host,
    seq: Math.max(0, source.cursor),
    accountCount: accounts.activeOf(source.id),
    status: hostStatuses[source.state],
  })
  const isShown = (source: Source) => source.policy.desired !== 'removed'

  // A page of a thousand hosts takes milliseconds.
  const turns = new CallerTurns()
  server.query<{ limit: number; cursor?: string }>(
    'com.atproto.sync.listHosts',
    async ({ params: { limit, cursor }, clientAddress }) =>
      await turns.run(clientAddress, () => {
        const after = parseIdCursor(cursor)
        const rest = [...sources.sources].filter((source) => source.id > after && isShown(source))
        const page = rest.toSorted((a, b) => a.id - b.id).slice(0, limit)
        return {
          hosts: page.map(describe),
          ...(rest.length > limit ? { cursor: String(page.at(-1)?.id) } : {}),
        }
      }),
  )

  server.query<{ hostname: string }>('com.atproto.sync.getHostStatus', ({ params: { hostname } }) => {
    const source = admin.known(hostname, normalize(hostname))
    if (!isShown(source))
      throw new XrpcError(400, 'HostNotFound', `${hostname} is not a source of this relay any more`)
    return describe(source)
  })

  const crawlRate = new CallerRate(crawlsPerMinuteMax)
  server.procedure<unknown, { hostname: string }>(
    'com.atproto.sync.requestCrawl',
    async ({ input: { hostname }, reply, clientAddress }) => {
      crawlRate.take(clientAddress)
      const host = normalize(hostname)
      try {
        admin.refuseCrawlsIfOff()
        if (!host) throw new XrpcError(400, 'InvalidRequest', `${hostname} is not the host name of a PDS`)
        await admin.crawl(host, clientAddress)
      } catch (error) {
        if (host && error instanceof XrpcError)
          notices.note('crawl-refused', host.host, `${error.error}: ${error.message}`, 'crawl requests')
        throw error
      }
      return reply.status(200).send()
    },
  )
}
