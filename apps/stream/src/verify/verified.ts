import type { RepoOp, VerifiedCommit, VerifiedSync } from '@tributary/repo-verify'

/** An operation on a watched collection. Its record is a view of the message. */
export type WatchedOp = Pick<RepoOp, 'action' | 'collection' | 'rkey' | 'record'>

/** What the archive needs of a good commit. */
export interface GoodCommit extends Pick<
  VerifiedCommit,
  'ok' | 'kind' | 'upstreamSeq' | 'did' | 'rev' | 'since' | 'data' | 'prevData' | 'dropped'
> {
  ops: readonly WatchedOp[]
}

/** What the archive needs of a good sync. */
export type GoodSync = Pick<VerifiedSync, 'ok' | 'kind' | 'upstreamSeq' | 'did' | 'rev' | 'data'>

export type Good = GoodCommit | GoodSync
