/**
 * The check of one event, in one synchronous call: message, CAR, commit, signature, operations and tree, in the order of
 * the specification, so that the reason is always that of the first rule broken. What needs memory of the account (who
 * may speak for it, whether it is active, whether the revision and the chain continue what is known) is the caller's.
 * Whatever the bytes, it returns; it throws only for mistakes of our own.
 */
import { isDatetime } from '@tributary/protocol'
import { readCar, type Block, type Car } from './car.ts'
import { tidAt } from './cbor-reader.ts'
import type { CheckedTrees } from './checked-trees.ts'
import { checkRev, checkSignature, readCommitObject, type CommitObject } from './commit-object.ts'
import { digestAt, isDigestAt } from './digest.ts'
import type { OpFault, VerifiedCommit, VerifiedEvent, VerifiedSync } from './events.ts'
import type { CommitMessage, Message, SignedMessage, SyncMessage } from './message.ts'
import { checkOps, checkRecords, readOps, readOpsAlone, repoOps, wantedOps } from './ops.ts'
import { readMessage } from './read-message.ts'
import { refuse, RefusedError, refusing, type Refusal, type RefusalReason } from './refusal.ts'
import type { SigningKey } from './signing-key.ts'

export interface VerifyOptions {
  /** The account's key. Only commits and syncs need it; they are refused as `missing-key` without. */
  key: SigningKey | undefined
  /** The time now, in milliseconds since 1970. */
  nowMs: number
  /** False lets hosts from before Sync 1.1 pass: what it let through is in `waived`. Signatures are checked either way. */
  strict: boolean
  /** What earlier calls of this thread have checked; without, everything is checked every time. */
  checkedTrees?: CheckedTrees
  isWanted?: IsWanted
}

/**
 * Which collections the caller keeps. With it each operation stands alone: one whose path or record is wrong is left out
 * and named in `dropped`, and operations on other collections are left out with their records not looked at. Without,
 * all operations are given back, and a wrong one costs the commit.
 */
export type IsWanted = (collection: string) => boolean

/**
 * Reads and verifies one WebSocket message of `subscribeRepos`. Kinds without a signature are given back as they are
 * read. Records in the result are views of `bytes`.
 */
export function verifyEvent(bytes: Uint8Array, options: VerifyOptions): VerifiedEvent | Refusal {
  const message = readMessage(bytes)
  return message.ok && isSigned(message) ? verifyMessage(message, options) : message
}

/** Verifies a message that was read. Records in the result are views of its bytes. */
export function verifyMessage(
  message: SignedMessage,
  options: VerifyOptions,
): VerifiedCommit | VerifiedSync | Refusal {
  return refusing(() => check(message, options, options.isWanted))
}

/**
 * What a message says that comes from a relay which the operator trusts: its form is checked, but no hash, signature or
 * tree, nor what records look like.
 */
export function trustMessage(
  message: SignedMessage,
  isWanted?: IsWanted,
): VerifiedCommit | VerifiedSync | Refusal {
  return refusing(() => check(message, undefined, isWanted))
}

/** Whether a message holds a signed commit. */
export function isSigned(message: Message): message is SignedMessage {
  return message.kind === 'commit' || message.kind === 'sync'
}

/** @param options undefined when the message comes from a relay that is trusted. */
function check(
  message: SignedMessage,
  options: VerifyOptions | undefined,
  isWanted: IsWanted | undefined,
): VerifiedCommit | VerifiedSync {
  return message.kind === 'commit' ? checkCommit(message, options, isWanted) : checkSync(message, options)
}

function checkCommit(
  message: CommitMessage,
  options: VerifyOptions | undefined,
  isWanted: IsWanted | undefined,
): VerifiedCommit {
  const { bytes, upstreamSeq, did, time, sinceAt, prevDataAt } = message
  const rev = tidAt(bytes, message.revAt)
  const { car, object } = readSigned(message, message.blocks, options)
  checkFields(object, did, rev)
  const commit = car.root
  if (!isDigestAt(bytes, message.commitAt, commit))
    refuse('mismatched-fields', 'the event names another commit than its blocks')
  const prevData = prevDataAt === 0 ? undefined : digestAt(bytes, prevDataAt)
  const waived: RefusalReason[] = []
  const check = options ? (rule: () => void) => waive(rule, options.strict, waived) : () => undefined
  check(() => message.isFlagged && refuse('deprecated-flag', 'tooBig or rebase is set'))
  const isTrusted = options === undefined
  const keyedOps = isWanted ? readOpsAlone(message.ops, car, isTrusted) : readOps(message.ops, car)
  if (!isTrusted && !isWanted) checkRecords(keyedOps)
  const checkOptions = { prevData, checkedTrees: options?.checkedTrees, needsRecords: !isWanted }
  check(() => checkOps(car, object.dataAt, keyedOps, checkOptions))
  check(() => isDatetime(time) || refuse('malformed-time', 'time is not a datetime'))
  const { ops, dropped } = isWanted
    ? wantedOps(keyedOps, isWanted, isTrusted)
    : { ops: repoOps(keyedOps), dropped: noFaults }
  return {
    ok: true,
    kind: 'commit',
    upstreamSeq,
    did: object.did,
    time,
    rev,
    since: sinceAt === 0 ? null : tidAt(bytes, sinceAt),
    commit,
    data: object.data,
    prevData,
    ops,
    dropped,
    waived,
  }
}

const noFaults: readonly OpFault[] = []

function checkSync(message: SyncMessage, options: VerifyOptions | undefined): VerifiedSync {
  const { upstreamSeq, did, time, rev } = message
  const { car, object } = readSigned(message, message.blocks, options)
  checkFields(object, did, rev)
  return {
    ok: true,
    kind: 'sync',
    upstreamSeq,
    did: object.did,
    time,
    rev,
    commit: car.root,
    data: object.data,
  }
}

function readSigned(
  { bytes }: { bytes: Buffer },
  blocks: Block,
  options: VerifyOptions | undefined,
): { car: Car; object: CommitObject } {
  const car = readCar(bytes, blocks.start, blocks.end, options !== undefined)
  const object = readCommitObject(car)
  if (options) {
    // In this order, so that whoever is refused for the revision is known to have signed it.
    checkSignature(object, options.key)
    checkRev(object, options.nowMs)
  }
  return { car, object }
}

function checkFields(object: CommitObject, did: string, rev: string): void {
  if (object.did !== did || object.rev !== rev)
    refuse('mismatched-fields', 'the event names another account or rev than its commit')
}

/** Applies a rule that lenient mode only takes note of. */
function waive(rule: () => void, strict: boolean, waived: RefusalReason[]): void {
  try {
    rule()
  } catch (error) {
    if (strict || !(error instanceof RefusedError)) throw error
    waived.push(error.reason)
  }
}
