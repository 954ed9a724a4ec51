/** What the operations of a commit must be, in themselves and against the tree that the commit signs. */
import { isNsid, isRecordKey, limits } from '@tributary/protocol'
import type { Car } from './car.ts'
import { CborReader, major } from './cbor-reader.ts'
import type { CheckedTrees } from './checked-trees.ts'
import { digestAt, type Digest } from './digest.ts'
import type { OpFault, RepoOp } from './events.ts'
import type { RawOp } from './message.ts'
import { heightsBefore, refuseBareLevels } from './mst-heights.ts'
import { MstTree } from './mst-tree.ts'
import { refuse, refusing } from './refusal.ts'

/** An operation, and what the tree needs of it. */
export interface KeyedOp {
  op: Omit<RepoOp, keyof RepoPath>
  /** Undefined when the key is not one, which costs the operation where each stands alone. */
  path: RepoPath | undefined
  /** `<collection>/<rkey>`. */
  key: string
  /** Where the digest of `prev` stands in the frame. */
  prevAt: number
}

type RepoPath = Pick<RepoOp, 'collection' | 'rkey'>

/** Operations out of a commit of which each stands alone. */
export interface WantedOps {
  ops: RepoOp[]
  dropped: OpFault[]
}

/**
 * Checks paths, actions and repeats, and finds the records.
 * @returns the operations in the order in which they were sent, records being views of the CAR.
 * @throws RefusedError `invalid-ops`, or `oversize` for records of more bytes than a message may have.
 */
export function readOps(rawOps: readonly RawOp[], car: Car): KeyedOp[] {
  const ops = rawOps.map((raw) => readOp(raw, car, true))
  checkRepeats(ops)
  checkRecordBytes(ops)
  return ops
}

/**
 * Reads operations of which each stands alone: a path may be none, and records are not looked at.
 * @throws RefusedError `invalid-ops`, which `isTrusted` avoids: then an operation of another form is left out.
 */
export function readOpsAlone(rawOps: readonly RawOp[], car: Car, isTrusted: boolean): KeyedOp[] {
  if (!isTrusted) {
    const ops = rawOps.map((raw) => readOp(raw, car, false))
    checkRepeats(ops)
    return ops
  }
  return rawOps.flatMap((raw) => {
    const op = refusing(() => readOp(raw, car, false))
    return 'ok' in op ? [] : [op]
  })
}

/**
 * The operations on wanted collections that can be kept. Records of others are not looked at.
 * @throws RefusedError `oversize` when wanted records have more bytes than a message may have, or more values than can be
 * turned into JSON in one go.
 */
export function wantedOps(
  keyedOps: readonly KeyedOp[],
  isWanted: (collection: string) => boolean,
  isTrusted: boolean,
): WantedOps {
  const dropped: OpFault[] = []
  const wanted = keyedOps.filter(({ op, path }) => {
    if (path && !isWanted(path.collection)) return false
    const fault = path ? recordFault(op, isTrusted) : 'invalid-path'
    if (fault) dropped.push(fault)
    return !fault
  })
  checkRecordValues(wanted, checkRecordBytes(wanted))
  return { ops: repoOps(wanted), dropped }
}

function recordFault({ action, record }: KeyedOp['op'], isTrusted: boolean): OpFault | undefined {
  if (action === 'delete') return undefined
  if (!record) return 'missing-record'
  if (isTrusted) return undefined
  return refusing(() => checkRecord(record)) ? 'unreadable-record' : undefined
}

/** The operations as callers see them. All of them have a path. */
export function repoOps(keyedOps: readonly KeyedOp[]): RepoOp[] {
  return keyedOps.flatMap(({ op, path }) => (path ? [{ ...path, ...op }] : []))
}

function checkRepeats(ops: readonly KeyedOp[]): void {
  if (ops.length > 1 && new Set(ops.map((op) => op.key)).size < ops.length)
    refuse('invalid-ops', 'two operations have the same path')
}

/** One block can be the record of many operations. Those who keep each of them need a bound. */
function checkRecordBytes(ops: readonly KeyedOp[]): number {
  const recordBytes = ops.reduce((sum, { op }) => sum + (op.record?.length ?? 0), 0)
  if (recordBytes > limits.messageBytes)
    refuse('oversize', `the records of the operations have ${recordBytes} bytes`)
  return recordBytes
}

/** Most commits have fewer bytes than their records may have values, and are not looked at. */
function checkRecordValues(ops: readonly KeyedOp[], recordBytes: number): void {
  if (recordBytes <= limits.commitValues) return
  const known = new Map<Digest, number>()
  let left: number = limits.commitValues
  for (const { op } of ops) {
    if (op.cid === undefined || !op.record) continue
    const values = known.get(op.cid) ?? countValues(op.record)
    known.set(op.cid, values)
    left -= values
    if (left < 0)
      refuse('oversize', `the records of the operations have more than ${limits.commitValues} values`)
  }
}

/** Values of a record that somebody reads who stops at the first one too many, or at the first byte that is wrong. */
function countValues(record: Uint8Array): number {
  const bytes = Buffer.from(record.buffer, record.byteOffset, record.length)
  const reader = new CborReader(bytes, 0, bytes.length, 'malformed-record')
  reader.skipsLeft = limits.recordValues
  refusing(() => reader.skip(true))
  return limits.recordValues - Math.max(0, reader.skipsLeft)
}

function readOp({ action, path: span, cidAt, prevAt }: RawOp, car: Car, needsPath: boolean): KeyedOp {
  // What is not ASCII is no path, however it is read.
  const key = car.bytes.toString('latin1', span.start, span.end)
  const path = pathOf(key)
  if (!path && needsPath) refuseBadPath()
  if (action !== 'create' && action !== 'update' && action !== 'delete')
    refuse('invalid-ops', 'an operation has an unknown action')
  if ((cidAt === 0) !== (action === 'delete'))
    refuse('invalid-ops', `the cid of a ${action} is missing or too much`)
  if (action === 'create' && prevAt !== 0) refuse('invalid-ops', 'a create names a record before')
  const cid = cidAt === 0 ? undefined : digestAt(car.bytes, cidAt)
  const prev = prevAt === 0 ? undefined : digestAt(car.bytes, prevAt)
  if (action === 'update' && prev === cid) refuse('invalid-ops', 'an update changes nothing')
  const block = cid === undefined ? undefined : car.blocks.get(cid)
  const record = block && car.bytes.subarray(block.start, block.end)
  return { op: { action, cid, prev, record }, path, key, prevAt }
}

/** @throws RefusedError `invalid-ops` for anything but `<nsid>/<rkey>`. */
export function splitPath(path: string): RepoPath {
  return pathOf(path) ?? refuseBadPath()
}

function pathOf(path: string): RepoPath | undefined {
  const slash = path.indexOf('/')
  const collection = path.slice(0, slash)
  const rkey = path.slice(slash + 1)
  if (slash === -1 || !isNsid(collection) || !isRecordKey(rkey)) return undefined
  return { collection, rkey }
}

function refuseBadPath(): never {
  refuse('invalid-ops', 'a path is not a collection and a record key')
}

/** Checks the records of operations: each block once, however many name it. @throws RefusedError as `checkRecord`. */
export function checkRecords(ops: readonly KeyedOp[]): void {
  const checked = new Set<Digest>()
  for (const { op } of ops) {
    if (op.cid === undefined || !op.record || checked.has(op.cid)) continue
    checkRecord(op.record)
    checked.add(op.cid)
  }
}

/**
 * A record is a map of strict DAG-CBOR that any consumer can decode; what it says is not looked at.
 * @throws RefusedError `record-too-large` or `malformed-record`.
 */
export function checkRecord(record: Uint8Array): void {
  if (record.length > limits.recordBytes) refuse('record-too-large', `a record has ${record.length} bytes`)
  const bytes = Buffer.from(record.buffer, record.byteOffset, record.length)
  const reader = new CborReader(bytes, 0, bytes.length, 'malformed-record')
  if ((bytes[0] ?? 0) >> 5 !== major.map) reader.fail('a record is not a map')
  reader.skip(true)
  reader.finish()
}

export interface CheckOptions {
  prevData: Digest | undefined
  checkedTrees: CheckedTrees | undefined
  /** Whether each record has to be in the CAR. */
  needsRecords: boolean
}

/**
 * Checks the operations against the tree that the commit signs: records and tree must hold what was written, and with
 * the operations undone there must remain the tree before the commit, if `prevData` names it.
 * @param dataAt where the digest of the tree's root stands in the CAR's bytes.
 * @throws RefusedError `missing-block`, `missing-op-prev` or `invalid-mst`.
 */
export function checkOps(
  car: Car,
  dataAt: number,
  ops: readonly KeyedOp[],
  { prevData, checkedTrees, needsRecords }: CheckOptions,
): void {
  for (const { op, key } of ops) {
    if (needsRecords && op.action !== 'delete' && !op.record)
      refuse('missing-block', `the record ${key} is not in the CAR`)
    if (op.action !== 'create' && op.prev === undefined)
      refuse('missing-op-prev', `the ${op.action} of ${key} does not name the record before`)
  }
  const layersKnown = prevData !== undefined && checkedTrees?.has(prevData) === true
  const tree = new MstTree(car, dataAt, { layersKnown })
  if (prevData === undefined) for (const keyedOp of ops) checkHeld(keyedOp, tree.get(keyedOp.key))
  else checkInversion(tree, ops, prevData)
  checkedTrees?.add(digestAt(car.bytes, dataAt), prevData)
}

/** Undoes all operations. What remains must be the tree before, at a height that it can have had. */
function checkInversion(tree: MstTree, ops: readonly KeyedOp[], prevData: Digest): void {
  const deleted = ops.filter(({ op }) => op.action === 'delete').map(({ key }) => key)
  if (tree.bareLevels > 0 && deleted.length > 0) checkOnlyCreated(tree, ops)
  const heights = heightsBefore({ height: tree.height, bareLevels: tree.bareLevels, deleted })
  for (const keyedOp of ops.toSorted(undoOrder)) checkHeld(keyedOp, undo(tree, keyedOp))
  if (!tree.hasRoot(prevData, heights))
    refuse('invalid-mst', 'the operations do not lead from prevData to the tree of the commit')
}

/** Only a commit that deletes all that was there leaves bare levels: its tree holds nothing but what it creates. */
function checkOnlyCreated(tree: MstTree, ops: readonly KeyedOp[]): void {
  const created = new Set(ops.filter(({ op }) => op.action === 'create').map(({ key }) => key))
  for (const { key } of tree.entries()) if (!created.has(key)) refuseBareLevels()
}

function checkHeld({ op, key }: KeyedOp, held: Digest | undefined): void {
  if (held !== op.cid) refuse('invalid-mst', `the tree does not hold what the commit says of ${key}`)
}

/** Undoes an operation and returns what its key held before that. */
function undo(tree: MstTree, { op, key, prevAt }: KeyedOp): Digest | undefined {
  if (op.action === 'create') return tree.remove(key)
  if (op.action === 'update') return tree.update(key, prevAt)
  tree.insert(key, prevAt)
  return undefined
}

/** Deletes first, then by key: the order that producers have in mind when they choose which blocks to send. */
function undoOrder(a: KeyedOp, b: KeyedOp): number {
  return Number(a.op.action !== 'delete') - Number(b.op.action !== 'delete') || (a.key < b.key ? -1 : 1)
}
