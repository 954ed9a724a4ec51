/** Reads the signed commit of a repository: version 3, strict DAG-CBOR, so that leaving out `sig` gives the signed bytes. */
import { isDid, isTid, limits, tidToMicroseconds, type Did, type Tid } from '@tributary/protocol'
import type { Block, Car } from './car.ts'
import { CborReader, major } from './cbor-reader.ts'
import { digestAt, type Digest } from './digest.ts'
import { refuse } from './refusal.ts'
import { verifySignature, type SigningKey } from './signing-key.ts'

export interface CommitObject {
  did: Did
  rev: Tid
  /** Root of the tree of records, and where it stands in the bytes that the commit was read from. */
  data: Digest
  dataAt: number
  /** The bytes that the signature covers. */
  unsigned: Uint8Array
  signature: Uint8Array
}

/** What was found of a commit. */
interface CommitFields {
  did?: string
  rev?: string
  dataAt?: number
  version?: number
  hasPrev?: boolean
  signature?: Block
  /** With the name of its field. */
  signaturePair?: Block
}

/** The count of a map with so many fields is a part of its first byte. */
const fieldsMax = 23

/**
 * Reads the commit that is the root of a CAR.
 * @throws RefusedError `malformed-car` if it is not there, `malformed-commit`.
 */
export function readCommitObject(car: Car): CommitObject {
  const block =
    car.blocks.get(car.root) ??
    refuse('malformed-car', 'the commit that the CAR names as its root is not in it')
  return readCommitBlock(car.bytes, block)
}

/** Reads a signed commit. @throws RefusedError `malformed-commit`. */
export function readCommitBlock(bytes: Buffer, block: Block): CommitObject {
  const reader = new CborReader(bytes, block.start, block.end, 'malformed-commit')
  const fields: CommitFields = {}
  let pairs = 0
  reader.fields(fieldsMax, (key, start) => {
    pairs++
    if (key === 'did') fields.did = reader.text()
    else if (key === 'rev') fields.rev = reader.text()
    else if (key === 'data') fields.dataAt = reader.link()
    else if (key === 'version') fields.version = reader.unsigned()
    else if (key === 'prev') fields.hasPrev = reader.tryNull() || reader.link() > 0
    else if (key === 'sig') {
      fields.signature = { start: reader.byteString(), end: reader.at }
      fields.signaturePair = { start, end: reader.at }
    } else reader.skip(false)
  })
  reader.finish()
  const { did, rev, dataAt, version, hasPrev, signature, signaturePair } = fields
  if (version !== 3) reader.fail('the commit is not of version 3')
  if (!isDid(did) || !isTid(rev) || dataAt === undefined || !hasPrev)
    return reader.fail('a field of the commit is missing or not valid')
  if (!signature || !signaturePair || signature.start === signature.end)
    return reader.fail('the commit is not signed')
  return {
    did,
    rev,
    data: digestAt(bytes, dataAt),
    dataAt,
    unsigned: withoutPair(bytes, block, pairs, signaturePair),
    signature: bytes.subarray(signature.start, signature.end),
  }
}

/** @throws RefusedError `future-rev` if the revision lies further ahead of our clock than clocks differ. */
export function checkRev({ rev }: CommitObject, nowMs: number): void {
  if (tidToMicroseconds(rev) / 1000 > nowMs + limits.futureRevMs)
    refuse('future-rev', `rev ${rev} lies in the future`)
}

/** @throws RefusedError `missing-key` or `bad-signature`. */
export function checkSignature(
  { did, unsigned, signature }: CommitObject,
  key: SigningKey | undefined,
): void {
  if (!key) refuse('missing-key', `no signing key is known for ${did}`)
  if (!verifySignature(key, unsigned, signature))
    refuse('bad-signature', `the commit is not signed by the key of ${did}`)
}

/** The bytes of a map without one of its pairs. Canonical form leaves nothing else to change than the count. */
function withoutPair(bytes: Buffer, map: Block, pairs: number, pair: Block): Uint8Array {
  const head = pair.start - map.start
  const rest = Buffer.allocUnsafe(head + map.end - pair.end)
  bytes.copy(rest, 0, map.start, pair.start)
  bytes.copy(rest, head, pair.end, map.end)
  rest[0] = (major.map << 5) | (pairs - 1)
  return rest
}
