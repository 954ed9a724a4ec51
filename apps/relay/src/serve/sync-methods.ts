/** The public queries of `com.atproto.sync` that a relay answers, and `requestCrawl`. */
import type { Did } from '@tributary/protocol'
import { digestToCid } from '@tributary/repo-verify'
import { XrpcError, type XrpcServer } from '@tributary/xrpc'
import type { Source, SourceState } from '../sources/source.ts'
import type { SourceSet } from '../sources/source-set.ts'
import type { Account } from '../state/account.ts'
import type { StateStore } from '../state/state-store.ts'

export interface SyncMethodsOptions {
  server: XrpcServer
  sources: SourceSet
  store: StateStore
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

const inactiveErrors: Record<string, string> = {
  takendown: 'RepoTakendown',
  suspended: 'RepoSuspended',
  deactivated: 'RepoDeactivated',
  deleted: 'RepoDeactivated',
}

export function addSyncMethods({ server, sources, store, normalize }: SyncMethodsOptions): void {
  const describe = (source: Source) => ({
    hostname: source.host,
    seq: source.cursor,
    accountCount: store.accounts.activeOf(source.id),
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

  server.query<{ limit: number; cursor?: string }>(
    'com.atproto.sync.listRepos',
    ({ params: { limit, cursor } }) => {
      const rows = store.listRepos(cursor ?? '', limit + 1)
      const repos = rows.slice(0, limit).map((repo) => ({ ...repo, active: true }))
      return { repos, ...(rows.length > limit ? { cursor: repos.at(-1)?.did } : {}) }
    },
  )

  server.query<{ did: Did }>('com.atproto.sync.getRepoStatus', ({ params: { did } }) => {
    const account = knownAccount(store, did)
    const { upstreamStatus, rev } = account
    const isActive = upstreamStatus === 'active'
    return {
      did,
      active: isActive,
      ...(isActive || upstreamStatus === 'inactive' ? {} : { status: upstreamStatus }),
      ...(rev ? { rev } : {}),
    }
  })

  server.query<{ did: Did }>('com.atproto.sync.getLatestCommit', ({ params: { did } }) => {
    const { upstreamStatus, rev, commit } = knownAccount(store, did)
    if (upstreamStatus !== 'active') {
      throw new XrpcError(
        400,
        inactiveErrors[upstreamStatus] ?? 'RepoInactive',
        `${did} is ${upstreamStatus}`,
      )
    }
    if (!rev || !commit)
      throw new XrpcError(400, 'RepoNotSynchronized', `no commit of ${did} has passed here yet`)
    return { cid: digestToCid(commit), rev }
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

function knownAccount(store: StateStore, did: Did): Account {
  const account = store.accounts.get(did)
  if (!account || account.sourceId === 0)
    throw new XrpcError(400, 'RepoNotFound', `no event of ${did} has passed here`)
  return account
}

function parseCursor(cursor: string | undefined): number {
  if (cursor === undefined) return 0
  if (!/^\d{1,15}$/.test(cursor))
    throw new XrpcError(400, 'InvalidRequest', 'cursor is not one that this method returned')
  return Number(cursor)
}
