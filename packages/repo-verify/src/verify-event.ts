/**
 * The check of one event, in one synchronous call: frame, CAR, commit, signature, operations and tree, in the order of
 * the specification, so that the reason is always that of the first rule broken. What needs memory of the account (who
 * may speak for it, whether it is active, whether the revision and the chain continue what is known) is the caller's.
 * Whatever the bytes, it returns; it throws only for mistakes of our own.
 */
import { isDatetime, limits } from '@tributary/protocol'
import { readCar, type Block, type Car } from './car.ts'
import type { CborReader } from './cbor-reader.ts'
import type { CheckedTrees } from './checked-trees.ts'
import { checkRev, checkSignature, readCommitObject, type CommitObject } from './commit-object.ts'
import type { VerifiedCommit, VerifiedEvent, VerifiedSync } from './events.ts'
import {
  frameReader,
  readCommitBody,
  readHeader,
  readPlainBody,
  readSyncBody,
  type FrameBody,
} from './frame.ts'
import { checkOps, checkRecord, readOps } from './ops.ts'
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
}

/** Verifies one WebSocket message of `subscribeRepos`. Records in the result are views of `frame`. */
export function verifyEvent(frame: Uint8Array, options: VerifyOptions): VerifiedEvent | Refusal {
  return refusing(() => readEvent(frame, options))
}

/**
 * Reads one WebSocket message from a relay that the operator trusts: its form is checked, but no hash, signature or
 * tree, nor what records look like.
 */
export function readTrustedEvent(frame: Uint8Array): VerifiedEvent | Refusal {
  return refusing(() => readEvent(frame, undefined))
}

function readEvent(frame: Uint8Array, options: VerifyOptions | undefined): VerifiedEvent {
  if (frame.length > limits.messageBytes) refuse('oversize', `the message has ${frame.length} bytes`)
  const reader = frameReader(frame)
  const { op, t } = readHeader(reader)
  if (op === -1) {
    const { error, message } = readPlainBody(reader, 'error', 'message').texts
    return { ok: true, kind: 'error', error: need(error, 'error'), message }
  }
  switch (op === 1 ? t : undefined) {
    case '#commit':
      return readCommit(reader, options)
    case '#sync':
      return readSync(reader, options)
    case '#identity': {
      const body = readPlainBody(reader, 'handle')
      return { ok: true, kind: 'identity', ...numbered(body), handle: body.texts['handle'] }
    }
    case '#account': {
      const body = readPlainBody(reader, 'status')
      return {
        ok: true,
        kind: 'account',
        ...numbered(body),
        active: need(body.active, 'active'),
        status: body.texts['status'],
      }
    }
    case '#info': {
      const { name, message } = readPlainBody(reader, 'name', 'message').texts
      return { ok: true, kind: 'info', name: need(name, 'name'), message }
    }
    default:
      reader.skip(false)
      reader.finish()
      return { ok: true, kind: 'unknown', op, t }
  }
}

function readCommit(reader: CborReader, options: VerifyOptions | undefined): VerifiedCommit {
  const body = readCommitBody(reader)
  const common = numbered(body)
  const rev = need(body.rev, 'rev')
  const since = need(body.since, 'since')
  const commit = need(body.commit, 'commit')
  const blocks = need(body.blocks, 'blocks')
  const rawOps = need(body.ops, 'ops')
  const isFlagged = need(body.tooBig, 'tooBig') || need(body.rebase, 'rebase')
  if (!body.hasBlobs) refuse('malformed-event', 'blobs is missing')

  if (blocks.end - blocks.start > limits.commitBlocksBytes) refuse('oversize', 'blocks is too large')
  const { car, object } = readSigned(reader.bytes, blocks, options)
  checkFields(object, common.did, rev)
  if (car.root !== commit) refuse('mismatched-fields', 'the event names another commit than its blocks')
  const waived: RefusalReason[] = []
  const check = options ? (rule: () => void) => waive(rule, options.strict, waived) : () => undefined
  check(() => isFlagged && refuse('deprecated-flag', 'tooBig or rebase is set'))
  const keyedOps = readOps(rawOps, car)
  if (options) for (const { op } of keyedOps) if (op.record) checkRecord(op.record)
  check(() => checkOps(car, object.dataAt, keyedOps, body.prevData, options?.checkedTrees))
  check(() => isDatetime(common.time) || refuse('malformed-time', 'time is not a datetime'))
  const ops = keyedOps.map(({ op }) => op)
  return {
    ok: true,
    kind: 'commit',
    ...common,
    rev,
    since,
    commit,
    data: object.data,
    prevData: body.prevData,
    ops,
    waived,
  }
}

function readSync(reader: CborReader, options: VerifyOptions | undefined): VerifiedSync {
  const body = readSyncBody(reader)
  const common = numbered(body)
  const rev = need(body.rev, 'rev')
  const blocks = need(body.blocks, 'blocks')

  if (blocks.end - blocks.start > limits.syncBlocksBytes) refuse('oversize', 'blocks is too large')
  const { car, object } = readSigned(reader.bytes, blocks, options)
  checkFields(object, common.did, rev)
  return { ok: true, kind: 'sync', ...common, rev, commit: car.root, data: object.data }
}

function readSigned(
  bytes: Buffer,
  blocks: Block,
  options: VerifyOptions | undefined,
): { car: Car; object: CommitObject } {
  const car = readCar(bytes, blocks.start, blocks.end, options !== undefined)
  const object = readCommitObject(car)
  if (options) {
    checkRev(object, options.nowMs)
    checkSignature(object, options.key)
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

type Numbered = Pick<VerifiedSync, 'upstreamSeq' | 'seqStart' | 'seqEnd' | 'did' | 'time'>

function numbered(body: FrameBody): Numbered {
  const { seqStart, seqEnd } = body
  return {
    upstreamSeq: need(body.upstreamSeq, 'seq'),
    seqStart,
    seqEnd,
    did: need(body.did, 'did'),
    time: need(body.time, 'time'),
  }
}

function need<T>(value: T | undefined, field: string): T {
  return value === undefined ? refuse('malformed-event', `${field} is missing`) : value
}
