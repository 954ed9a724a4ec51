import {
  trustMessage,
  type Refusal,
  type RepoOp,
  type SignedMessage,
  type VerifiedCommit,
  type VerifiedSync,
} from '@tributary/repo-verify'

/** An operation on a watched collection. Its record is a view of the message. `cid` is undefined where nobody hashed it. */
export type WatchedOp = Pick<RepoOp, 'action' | 'collection' | 'rkey' | 'cid' | 'record'>

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

/** What a message says that comes from a relay which the operator trusts. Its hashes are not checked. */
export function trustWatched(
  message: SignedMessage,
  isWatched: (collection: string) => boolean,
): Good | Refusal {
  const trusted = trustMessage(message, isWatched)
  if (trusted.ok && trusted.kind === 'commit') for (const op of trusted.ops) op.cid = undefined
  return trusted
}
