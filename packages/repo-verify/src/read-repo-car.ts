/** A whole repository, as `com.atproto.sync.getRepo` gives it, verified from the signature to the last record. */
import type { Did, Nsid, RecordKey, Tid } from '@tributary/protocol'
import { blockAt, readCar, type Car } from './car.ts'
import { checkRev, checkSignature, readCommitObject } from './commit-object.ts'
import { digestAt, type Digest } from './digest.ts'
import { MstTree, type TreeEntry } from './mst-tree.ts'
import { checkRecord, splitPath } from './ops.ts'
import { refuse, refusing, type Refusal, type RefusalReason } from './refusal.ts'
import type { SigningKey } from './signing-key.ts'

export interface ReadRepoOptions {
  /** The account that the repository must be of. */
  did: Did
  /** `unchecked` leaves out the signature, for a CAR whose origin is beyond doubt. */
  key: SigningKey | 'unchecked'
  /** The time now, in milliseconds since 1970. */
  nowMs: number
  /**
   * Bytes of the CAR, of all its keys written out, and of all records, also of those that many keys share. Default 64 MiB.
   * Reading holds the thread for about a second per 100 MB.
   */
  bytesMax?: number
}

export interface VerifiedRepo {
  ok: true
  did: Did
  rev: Tid
  /** CID of the signed commit. */
  commit: Digest
  /** Root of the tree of records. */
  data: Digest
  /** The records, in the order of the tree: by collection and record key. */
  records: RepoRecord[]
  /** Entries of the tree that are no records, and why: one of them should not cost an account all the others. */
  leftOut: { key: string; reason: RefusalReason }[]
}

export interface RepoRecord {
  collection: Nsid
  rkey: RecordKey
  cid: Digest
  /** DAG-CBOR: a view of the bytes that were given. */
  record: Uint8Array
}

const defaultBytesMax = 64 * 1024 * 1024

/**
 * Verifies the CAR of a whole repository. Blocks that belong to nothing are ignored; where one is missing, the whole is
 * refused.
 */
export function readRepoCar(car: Uint8Array, options: ReadRepoOptions): VerifiedRepo | Refusal {
  return refusing(() => {
    const { did, key, nowMs, bytesMax = defaultBytesMax } = options
    if (car.length > bytesMax) refuse('oversize', `the repository has ${car.length} bytes`)
    const bytes = Buffer.from(car.buffer, car.byteOffset, car.length)
    const blocks = readCar(bytes, 0, bytes.length, true, Infinity)
    const commit = readCommitObject(blocks)
    checkRev(commit, nowMs)
    if (key !== 'unchecked') checkSignature(commit, key)
    if (commit.did !== did) refuse('mismatched-fields', `the repository is that of ${commit.did}`)
    const tree = new MstTree(blocks, commit.dataAt, { keyBytesMax: bytesMax })
    const repo: VerifiedRepo = {
      ok: true,
      did,
      rev: commit.rev,
      commit: blocks.root,
      data: commit.data,
      records: [],
      leftOut: [],
    }
    let recordBytes = 0
    for (const entry of tree.entries()) {
      const record = recordOf(entry, blocks)
      // One block can be the record of many keys, and whoever reads the records has each of them.
      recordBytes += record.length
      if (recordBytes > bytesMax) refuse('oversize', `the records have more than ${bytesMax} bytes together`)
      addRecord(repo, { entry, record }, blocks)
    }
    return repo
  })
}

function recordOf({ key, valueAt }: TreeEntry, car: Car): Buffer {
  const block = blockAt(car, valueAt) ?? refuse('missing-block', `the record ${key} is not in the CAR`)
  return car.bytes.subarray(block.start, block.end)
}

function addRecord(
  repo: VerifiedRepo,
  { entry: { key, valueAt }, record }: { entry: TreeEntry; record: Buffer },
  { bytes }: Car,
): void {
  const path = refusing(() => {
    checkRecord(record)
    return splitPath(key)
  })
  if ('reason' in path) repo.leftOut.push({ key, reason: path.reason })
  else repo.records.push({ ...path, cid: digestAt(bytes, valueAt), record })
}
