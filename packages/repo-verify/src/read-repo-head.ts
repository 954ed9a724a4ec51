/** The signed commit of a repository alone, out of any CAR that has it as its root. */
import type { Did, Tid } from '@tributary/protocol'
import { readCar } from './car.ts'
import { checkRev, checkSignature, readCommitObject } from './commit-object.ts'
import { cidPrefix, sha256, type Digest } from './digest.ts'
import { refuse, refusing, type Refusal } from './refusal.ts'
import type { SigningKey } from './signing-key.ts'

export interface RepoHead {
  ok: true
  rev: Tid
  commit: Digest
  /** Root of the tree of records. */
  data: Digest
  /** A CAR with nothing but the commit, as `#sync` events carry it. */
  car: Uint8Array
}

/** Verifies the commit of a CAR as `getRepo` and `getRecord` give it. The blocks beside the commit are not looked at. */
export function readRepoHead(
  car: Uint8Array,
  { did, key, nowMs }: { did: Did; key: SigningKey; nowMs: number },
): RepoHead | Refusal {
  return refusing(() => {
    const bytes = Buffer.from(car.buffer, car.byteOffset, car.length)
    const blocks = readCar(bytes, 0, bytes.length, false)
    const object = readCommitObject(blocks)
    const place = blocks.blocks.get(blocks.root)
    const block = bytes.subarray(place?.start, place?.end)
    if (sha256(block) !== blocks.root) refuse('bad-block-hash', 'the commit does not hash to its CID')
    checkRev(object, nowMs)
    checkSignature(object, key)
    if (object.did !== did) refuse('mismatched-fields', `the repository is that of ${object.did}`)
    const { rev, data } = object
    return { ok: true, rev, commit: blocks.root, data, car: carOfOne(blocks.root, block) }
  })
}

/** A CARv1 of one block, which is its root. */
function carOfOne(digest: Digest, block: Buffer): Buffer {
  const cid = Buffer.alloc(36)
  cid.writeUInt32BE(cidPrefix)
  cid.write(digest, 4, 'latin1')
  // {"roots": [CID], "version": 1}, where a CID is tag 42 on its bytes behind a zero.
  const header = Buffer.concat([
    Buffer.from('a265726f6f747381d82a582500', 'hex'),
    cid,
    Buffer.from('6776657273696f6e01', 'hex'),
  ])
  return Buffer.concat([varint(header.length), header, varint(cid.length + block.length), cid, block])
}

function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  return Buffer.from([...bytes, rest])
}
