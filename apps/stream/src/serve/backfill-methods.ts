/** The operator's methods about backfills and repositories. */
import { addProcedure, addQuery, datetime, pageOf, parseIdCursor, type Page } from '@tributary/operations'
import type { Did } from '@tributary/protocol'
import { XrpcError } from '@tributary/xrpc'
import { isAnswerFault } from '../backfill/sync-answers.ts'
import type { Job, JobState, RepoCounts } from '../backfill/backfill-store.ts'
import { type RepoState, unknownRepo } from '../ingest/repo-states.ts'
import { operatorPrefix, type OperatorParts } from './operator-parts.ts'

export function addBackfillMethods(parts: OperatorParts): void {
  addJobMethods(parts)
  addRepoMethods(parts)
}

function addJobMethods({ server, operations, backfill, store, watched }: OperatorParts): void {
  const knownJob = (id: number): Job => {
    const job = store.job(id)
    if (!job) throw new XrpcError(400, 'JobNotFound', `there is no job ${id}: the list of jobs has them all`)
    return job
  }
  const describe = (job: Job, counts: RepoCounts | undefined): object => {
    const { createdAtMs, endedAtMs, throughSeq, collection, cursor: _, ...rest } = job
    const error = backfill.errorOf(job)
    return {
      ...rest,
      ...(collection !== '' && { collection }),
      ...(throughSeq > 0 && { throughSeq }),
      ...counts,
      ...datetime('createdAt', createdAtMs),
      ...datetime('endedAt', endedAtMs),
      ...(error !== undefined && { error }),
    }
  }
  addQuery<Page & { hostname?: string; state?: JobState }>(
    server,
    operatorPrefix,
    'listJobs',
    async ({ limit, cursor, hostname, state }) => {
      const before = parseIdCursor(cursor, Number.MAX_SAFE_INTEGER)
      const rows = store
        .jobs()
        .filter((job) => job.id < before && [undefined, job.host].includes(hostname))
        .filter((job) => [undefined, job.state].includes(state))
        .toReversed()
      const { page, ...rest } = pageOf(rows.slice(0, limit + 1), limit, ({ id }) => id)
      const counts = await store.countsOf(page)
      return { jobs: page.map((job, i) => describe(job, counts[i])), ...rest }
    },
  )
  addQuery<Page & { id: number }>(server, operatorPrefix, 'listJobRepos', ({ id, limit, cursor = '' }) => {
    const rows = store.repos(knownJob(id).id, cursor, limit + 1)
    const { page, ...rest } = pageOf(rows, limit, ({ did }) => did)
    return {
      repos: page.map(({ did, state, attempts, nextAtMs, detail }) => ({
        did,
        state,
        attempts,
        detail,
        ...(state === 'pending' || state === 'waiting' ? datetime('nextAt', nextAtMs) : {}),
      })),
      ...rest,
    }
  })
  addProcedure<{ hostname?: string; collection?: string }>(
    server,
    operatorPrefix,
    'startBackfill',
    async ({ hostname: host, collection }, request) =>
      await operations.run(request, () => () => {
        if (host !== undefined && !store.hosts().includes(host)) {
          const message = `${host} is not a PDS that the relay reads: approve it there first`
          throw new XrpcError(400, 'HostNotApproved', message)
        }
        if (collection !== undefined && !watched.has(collection)) {
          const message = `${collection} is not watched: add it first, which begins its backfill`
          throw new XrpcError(400, 'CollectionNotWatched', message)
        }
        const wish = { ...(host !== undefined && { host }), ...(collection !== undefined && { collection }) }
        const jobs = backfill.begin('operator', wish).map((id) => ({ id }))
        return { subject: host ?? 'every PDS', after: { collection, jobs }, output: { jobs } }
      }),
  )
  addProcedure<{ id: number; state: 'active' | 'paused' | 'cancelled' }>(
    server,
    operatorPrefix,
    'setJobState',
    async ({ id, state }, request) =>
      await operations.run(request, () => () => {
        const job = knownJob(id)
        if (job.state === 'done' || job.state === 'cancelled')
          throw new XrpcError(
            400,
            'JobEnded',
            `job ${id} is ${job.state}: ${job.state === 'done' ? 'retry it, or start' : 'start'} another one`,
          )
        store.setState(id, state, Date.now())
        return { subject: `job ${id}`, before: { state: job.state }, after: { state }, output: { id } }
      }),
  )
  addProcedure<{ id: number }>(
    server,
    operatorPrefix,
    'retryJob',
    async ({ id }, request) =>
      await operations.run(request, () => () => {
        const job = knownJob(id)
        if (job.state === 'cancelled')
          throw new XrpcError(400, 'JobEnded', `job ${id} is cancelled: start another one`)
        store.retry(id, Date.now())
        const effect = (): void => backfill.retryNow(job)
        return { subject: `job ${id}`, before: store.counts(id), output: { id }, effect }
      }),
  )
}

function addRepoMethods({ server, operations, backfill, states, watched }: OperatorParts): void {
  const describe = (did: Did, state: Readonly<RepoState>): object => ({
    did,
    ...(state.rev !== '' && { rev: state.rev }),
    isMarked: state.needsRefetch,
    isHidden: state.isHidden,
    isWhole: !state.needsRefetch && state.completeRevision >= watched.newestAddition,
  })
  addQuery<{ did: Did }>(server, operatorPrefix, 'getRepo', ({ did }) => {
    const state = states.get(did)
    if (!state) throw new XrpcError(400, 'RepoNotFound', `nothing of ${did} has come here`)
    return describe(did, state)
  })
  addProcedure<{ did: Did }>(
    server,
    operatorPrefix,
    'refetchRepo',
    async ({ did }, request) =>
      await operations.run(request, async () => {
        // A repository that nobody has could never be read, and would be counted as marked for good.
        if (!states.get(did) && (await isUnknown(backfill, did))) {
          const message = `neither this stream nor its relay knows ${did}`
          throw new XrpcError(400, 'RepoNotFound', message)
        }
        return () => {
          const before = states.get(did) ?? unknownRepo
          const effect = (): void => {
            states.mark(did)
            backfill.retryMark(did)
          }
          return { subject: did, before: describe(did, before), output: { did }, effect }
        }
      }),
  )
}

/** Whether the relay says that it never heard of an account. @throws XrpcError 503 `RelayUnavailable` */
async function isUnknown(backfill: OperatorParts['backfill'], did: Did): Promise<boolean> {
  try {
    return await backfill.isUnknown(did)
  } catch (error) {
    if (!isAnswerFault(error)) throw error
    const message = `nothing of ${did} has come here, and the relay does not say whether it knows it: ${error.message}`
    throw new XrpcError(503, 'RelayUnavailable', message)
  }
}
