/**
 * The signed commit of a repository alone, out of any CAR that has it as its root, such as `getRepo` and `getRecord`
 * give. The CAR comes in pieces and is read as far as the commit, which is the first block as a rule. Blocks before
 * it are stepped over. Nothing is held but the part that is being read, so memory stays below 12 kB.
 */
import { limits, type Did, type Tid } from '@tributary/protocol'
import { cidBytes, isRepositoryCid, readCarHeader, varintBytesMax } from './car.ts'
import { checkRev, checkSignature, readCommitBlock } from './commit-object.ts'
import { cidPrefix, isDigestAt, sha256, type Digest } from './digest.ts'
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

export interface RepoHeadOptions {
  /** The account that the repository must be of. */
  did: Did
  key: SigningKey
  /** The time now, in milliseconds since 1970. */
  nowMs: number
  /** How far the commit may be from the start of the CAR. Default 64 MiB. */
  bytesMax?: number
}

const defaultBytesMax = 64 * 1024 * 1024
/** Room for the 16 roots that a header may have. */
const headerBytesMax = 1024
/** CID and bytes of a commit that fits into a `#sync`, with the header of its CAR. */
const commitBytesMax = limits.syncBlocksBytes - 64

/** What is being read. A length comes before the header and before each section, which is a CID and a block. */
type Part = 'header-length' | 'header' | 'section-length' | 'cid' | 'skipped' | 'commit'

export class RepoHeadReader {
  readonly #options: RepoHeadOptions
  #bytesLeft: number
  #outcome: RepoHead | Refusal | undefined
  #root: Digest | undefined
  #part: Part = 'header-length'
  /** The length that is being read or was read last, and how many bytes of it have come. */
  #length = 0
  #lengthBytes = 0
  /** The part as far as it has come, unless it is a length or a block that is stepped over. */
  #held: Buffer = Buffer.alloc(cidBytes)
  #heldBytes = 0
  /** How much of the part is still to come. Of no meaning for lengths. */
  #partLeft = 0

  constructor(options: RepoHeadOptions) {
    this.#options = options
    this.#bytesLeft = options.bytesMax ?? defaultBytesMax
  }

  /**
   * Takes the next bytes of the CAR, which may be reused afterwards. Takes about two milliseconds for 100 kB at worst.
   * @returns undefined while more is needed. An outcome is final: what is pushed later is not looked at.
   */
  push(chunk: Uint8Array): RepoHead | Refusal | undefined {
    this.#outcome ??= refusing(() => this.#read(chunk))
    return this.#outcome
  }

  /** Says that the CAR has no more bytes. */
  end(): RepoHead | Refusal {
    this.#outcome ??= refusing(() =>
      refuse('malformed-car', 'the CAR ends before the commit that is its root'),
    )
    return this.#outcome
  }

  #read(chunk: Uint8Array): RepoHead | undefined {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, Math.min(chunk.length, this.#bytesLeft))
    let at = 0
    while (at < bytes.length) {
      if (this.#part === 'header-length' || this.#part === 'section-length') {
        this.#readLength(bytes[at++] as number) // at is below the length
        continue
      }
      const taken = Math.min(this.#partLeft, bytes.length - at)
      if (this.#part !== 'skipped') this.#heldBytes += bytes.copy(this.#held, this.#heldBytes, at, at + taken)
      at += taken
      this.#partLeft -= taken
      if (this.#partLeft > 0) break
      if (this.#part === 'commit') return this.#readCommit()
      this.#readPart()
    }
    this.#bytesLeft -= bytes.length
    if (bytes.length < chunk.length)
      refuse('oversize', 'the commit is too far from the start of the repository')
    return undefined
  }

  /** One more byte of an unsigned LEB128, which must be in its shortest form. */
  #readLength(byte: number): void {
    const value = this.#length + (byte & 0x7f) * 128 ** this.#lengthBytes
    this.#length = value
    this.#lengthBytes++
    if (byte >= 0x80 && this.#lengthBytes < varintBytesMax) return
    if (byte >= 0x80 || (byte === 0 && this.#lengthBytes > 1))
      refuse('malformed-car', 'a length in the CAR is too long, or not in its shortest form')
    if (this.#part === 'header-length') {
      if (value > headerBytesMax) refuse('malformed-car', `the CAR header has ${value} bytes`)
      if (value === 0) refuse('malformed-car', 'the CAR has no header')
      this.#begin('header', value)
    } else {
      if (value < cidBytes) refuse('malformed-car', 'a CAR section is too short')
      this.#begin('cid', cidBytes)
    }
  }

  /** Takes a header, a CID or a block that was stepped over, which has come whole. */
  #readPart(): void {
    if (this.#part === 'header') this.#root = readCarHeader(this.#held, 0, this.#heldBytes)
    else if (this.#part === 'cid') return this.#readCid()
    this.#begin('section-length', 0)
    this.#length = 0
    this.#lengthBytes = 0
  }

  #readCid(): void {
    const blockBytes = this.#length - cidBytes
    if (!isRepositoryCid(this.#held, 0)) refuse('malformed-car', 'a block is not DAG-CBOR named by SHA-256')
    if (blockBytes === 0) refuse('malformed-car', 'a block is empty')
    if (this.#root === undefined || !isDigestAt(this.#held, 4, this.#root))
      return this.#begin('skipped', blockBytes)
    if (this.#length > commitBytesMax) refuse('oversize', `the commit has ${blockBytes} bytes`)
    this.#begin('commit', blockBytes)
  }

  #begin(part: Part, size: number): void {
    this.#part = part
    this.#partLeft = size
    this.#heldBytes = 0
    if (part !== 'skipped' && size > this.#held.length) this.#held = Buffer.alloc(size)
  }

  #readCommit(): RepoHead {
    const { did, key, nowMs } = this.#options
    const block = this.#held.subarray(0, this.#heldBytes)
    const digest = sha256(block)
    if (digest !== this.#root) refuse('bad-block-hash', 'the commit does not hash to its CID')
    const commit = readCommitBlock(block, { start: 0, end: block.length })
    checkRev(commit, nowMs)
    checkSignature(commit, key)
    if (commit.did !== did) refuse('mismatched-fields', `the repository is that of ${commit.did}`)
    return { ok: true, rev: commit.rev, commit: digest, data: commit.data, car: carOfOne(digest, block) }
  }
}

/** Verifies the commit of a CAR that has come whole. */
export function readRepoHead(car: Uint8Array, options: RepoHeadOptions): RepoHead | Refusal {
  const reader = new RepoHeadReader(options)
  return reader.push(car) ?? reader.end()
}

/** A CARv1 of one block, which is its root. */
function carOfOne(digest: Digest, block: Buffer): Buffer {
  const cid = Buffer.alloc(cidBytes)
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
