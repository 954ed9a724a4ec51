/** The public queries of `com.atproto.sync` about accounts. */
import type { Did } from '@tributary/protocol'
import { digestToCid } from '@tributary/repo-verify'
import { XrpcError, type XrpcServer } from '@tributary/xrpc'
import type { Account } from '../state/account.ts'
import type { StateStore } from '../state/state-store.ts'

export interface SyncMethodsOptions {
  server: XrpcServer
  store: StateStore
}

const inactiveErrors: Record<string, string> = {
  takendown: 'RepoTakendown',
  suspended: 'RepoSuspended',
  deactivated: 'RepoDeactivated',
  deleted: 'RepoDeactivated',
}

export function addSyncMethods({ server, store }: SyncMethodsOptions): void {
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
}

function knownAccount(store: StateStore, did: Did): Account {
  const account = store.accounts.get(did)
  if (!account || account.sourceId === 0)
    throw new XrpcError(400, 'RepoNotFound', `no event of ${did} has passed here`)
  return account
}
