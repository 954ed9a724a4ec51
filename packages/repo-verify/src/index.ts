/**
 * Verification of repositories: frames of the firehose and whole repositories, signatures, trees of records.
 * Everything here is synchronous and does no input or output. Untrusted bytes never
 * make it throw: what is wrong with them is a `Refusal` with a reason out of a closed set.
 */
export { CheckedTrees } from './checked-trees.ts'
export { cidToDigest, digestToCid, type Digest } from './digest.ts'
export {
  opFaults,
  type OpFault,
  type RepoOp,
  type VerifiedCommit,
  type VerifiedEvent,
  type VerifiedSync,
} from './events.ts'
export type {
  AccountBound,
  AccountMessage,
  CommitMessage,
  ErrorMessage,
  IdentityMessage,
  InfoMessage,
  Message,
  SignedMessage,
  SyncMessage,
  UnknownMessage,
} from './message.ts'
export { readMessage, type UnreadableMessage } from './read-message.ts'
export { readRepoCar, type ReadRepoOptions, type RepoRecord, type VerifiedRepo } from './read-repo-car.ts'
export { readRepoHead, RepoHeadReader, type RepoHead, type RepoHeadOptions } from './read-repo-head.ts'
export { refusalReasons, type Refusal, type RefusalReason } from './refusal.ts'
export {
  parseDidKey,
  parseLegacyKey,
  parseMultikey,
  verifySignature,
  type SigningKey,
} from './signing-key.ts'
export { reframe, withFields, type FramingV1 } from './rewrite-message.ts'
export {
  isSigned,
  trustMessage,
  verifyEvent,
  verifyMessage,
  type IsWanted,
  type VerifyOptions,
} from './verify-event.ts'
