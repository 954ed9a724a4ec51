/** The public queries of `com.atproto.sync` about accounts. Errors that lexicons declare come with status 400. */
import { IdentityError, type IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { digestToCid } from '@tributary/repo-verify'
import { CallerRate, CallerTurns, XrpcError, type QueryContext, type XrpcServer } from '@tributary/xrpc'
import { publicStatus, type Account } from '../state/account.ts'
import type { StateStore } from '../state/state-store.ts'
import { pageInTurns, type ReadPage } from './page-in-turns.ts'

export interface SyncMethodsOptions {
  server: XrpcServer
  store: StateStore
  resolver: IdentityResolver
}

/** Hosts choose the words for why an account is not active. */
const inactiveErrors = new Map([
  ['takendown', 'RepoTakendown'],
  ['suspended', 'RepoSuspended'],
  ['deactivated', 'RepoDeactivated'],
  ['deleted', 'RepoDeactivated'],
])

/** DID documents that the callers of one network may make us read in a minute, those that we have left out. */
const readingsPerMinuteMax = 300

interface PageParams {
  limit: number
  cursor?: string
}

export function addSyncMethods({ server, store, resolver }: SyncMethodsOptions): void {
  const turns = new CallerTurns()
  const readings = new CallerRate(readingsPerMinuteMax)
  const answerPage = async <R>(
    { params: { limit, cursor = '' }, clientAddress, reply }: QueryContext<PageParams>,
    read: ReadPage<R>,
  ): Promise<unknown> => {
    const page = await pageInTurns(turns, clientAddress, { cursor, limit }, read)
    return reply.header('content-type', 'application/json; charset=utf-8').send(page)
  }
  server.query<PageParams>('com.atproto.sync.listRepos', (context) =>
    answerPage(context, (...where) => store.listRepos(...where)),
  )

  // As other directories of collections do, it keeps a collection until the account is deleted: a relay holds no records
  // and cannot tell which one was the last.
  server.query<PageParams & { collection: string }>('com.atproto.sync.listReposByCollection', (context) =>
    answerPage(context, (...where) => store.listReposByCollection(context.params.collection, ...where)),
  )

  server.query<{ did: Did }>('com.atproto.sync.getRepoStatus', ({ params: { did } }) => {
    const account = knownAccount(store, did)
    const { rev } = account
    return { did, ...publicStatus(account), ...(rev ? { rev } : {}) }
  })

  server.query<{ did: Did }>('com.atproto.sync.getLatestCommit', ({ params: { did } }) => {
    const account = knownAccount(store, did)
    const { active, status } = publicStatus(account)
    if (!active) throw inactive(did, status)
    const { rev, commit } = account
    if (!rev || !commit)
      throw new XrpcError(400, 'RepoNotSynchronized', `no commit of ${did} has passed here yet`)
    return { cid: digestToCid(commit), rev }
  })

  server.query<{ did: Did }>(
    'com.atproto.sync.getRepo',
    async ({ params: { did }, request, reply, clientAddress }) => {
      const { localStatus } = knownAccount(store, did)
      if (localStatus !== undefined) throw inactive(did, localStatus)
      if (!resolver.peek(did)) readings.take(clientAddress)
      const origin = await hostOf(resolver, did)
      const { search } = new URL(request.url, origin)
      return reply.redirect(`${origin}/xrpc/com.atproto.sync.getRepo${search}`, 302)
    },
  )
}

function knownAccount(store: StateStore, did: Did): Account {
  const account = store.accounts.get(did)
  if (!account || account.sourceId === 0)
    throw new XrpcError(400, 'RepoNotFound', `no event of ${did} has passed here`)
  return account
}

function inactive(did: Did, status = 'inactive'): XrpcError {
  return new XrpcError(400, inactiveErrors.get(status) ?? 'RepoInactive', `${did} is ${status}`)
}

/** Where the account's repository is. */
async function hostOf(resolver: IdentityResolver, did: Did): Promise<string> {
  try {
    const { pdsUrl } = await resolver.resolve(did)
    if (pdsUrl !== undefined) return pdsUrl
  } catch (error) {
    if (!(error instanceof IdentityError)) throw error
    if (error.retryable)
      throw new XrpcError(
        503,
        'IdentityUnavailable',
        `the DID document of ${did} cannot be read now: try again`,
      )
  }
  throw new XrpcError(400, 'RepoNotFound', `the DID document of ${did} names no host`)
}
