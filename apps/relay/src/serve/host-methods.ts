/** The public methods of `com.atproto.sync` about hosts: which there are, how they are, and `requestCrawl`. */
import { XrpcError, type XrpcServer } from '@tributary/xrpc'
import type { Source, SourceState } from '../sources/source.ts'
import type { SourceSet } from '../sources/source-set.ts'
import type { AccountTable } from '../state/account-table.ts'

export interface HostMethodsOptions {
  server: XrpcServer
  sources: SourceSet
  accounts: AccountTable
  /** Reads a host name as callers write it. Undefined when it is none that the relay would ever dial. */
  normalize: (hostname: string) => { host: string } | undefined
}

const hostStatuses: Record<SourceState, string> = {
  connecting: 'active',
  connected: 'active',
  unreachable: 'offline',
  stuck: 'offline',
  disabled: 'banned',
}

export function addHostMethods({ server, sources, accounts, normalize }: HostMethodsOptions): void {
  const describe = (source: Source) => ({
    hostname: source.host,
    seq: source.cursor,
    accountCount: accounts.activeOf(source.id),
    status: hostStatuses[source.state],
  })

  server.query<{ limit: number; cursor?: string }>(
    'com.atproto.sync.listHosts',
    ({ params: { limit, cursor } }) => {
      const after = parseCursor(cursor)
      const rest = [...sources.sources].filter(({ id }) => id > after).toSorted((a, b) => a.id - b.id)
      const page = rest.slice(0, limit)
      return {
        hosts: page.map(describe),
        ...(rest.length > limit ? { cursor: String(page.at(-1)?.id) } : {}),
      }
    },
  )

  server.query<{ hostname: string }>('com.atproto.sync.getHostStatus', ({ params: { hostname } }) => {
    const source = sources.byHost(normalize(hostname)?.host ?? '')
    if (!source) throw new XrpcError(400, 'HostNotFound', `${hostname} is not a source of this relay`)
    return describe(source)
  })

  server.procedure<unknown, { hostname: string }>(
    'com.atproto.sync.requestCrawl',
    ({ input: { hostname }, reply }) => {
      const host = normalize(hostname)
      if (!host) throw new XrpcError(400, 'InvalidRequest', `${hostname} is not the host name of a PDS`)
      if (!sources.reconnect(host.host)) {
        throw new XrpcError(
          400,
          'HostNotApproved',
          `${host.host} is not approved here: ask the operator of this relay to add it`,
        )
      }
      return reply.status(200).send()
    },
  )
}

function parseCursor(cursor: string | undefined): number {
  if (cursor === undefined) return 0
  if (!/^\d{1,15}$/.test(cursor))
    throw new XrpcError(400, 'InvalidRequest', 'cursor is not one that this method returned')
  return Number(cursor)
}
