/**
 * The unit of the log, on disk and in memory: a header, a table with one row a record, and the records' payloads one
 * behind the other. Payloads are stored exactly as they leave for the sockets, so a reader that is catching up is
 * served with the bytes of the file, without decoding them.
 *
 *     header   magic u32 | count u32 | payload bytes u32 | CRC-32C u32 of header and table | synced offset u64 | secret u64
 *     table    count × (seq f64 | time f64 | upstream seq f64 | account u64 | payload end u32 | CRC-32C u32 of the payload
 *                       | source u32 | epoch u16 | kind u8 | zero u8)
 *     payloads
 *
 * All little-endian. `synced offset` is how far this file was known to be on the disk when the block was written.
 * `secret` is the log's own, out of its lease: whoever has his bytes in a payload can make them look like a block, but
 * for that. In a log that has none it is 0.
 */

export const headerBytes = 32
const rowBytes = 48
const magic = 0x31_42_4c_54 // "TLB1"

/** What the log keeps beside a record's payload. */
export interface RecordMeta {
  /** Meaning is the caller's, 0 to 255. */
  kind: number
  /** Stable 64-bit name of the account, so that replay can leave an account out without decoding. */
  account: bigint
  /** Number of the source that sent the event, 0 to 2^32 - 1. */
  source: number
  /** Numbering epoch of the source, 0 to 65,535. */
  epoch: number
  /** Sequence number at the source, below 2^53. */
  upstreamSeq: number
}

/** One block in memory, whole and checked. Rows are addressed by their index from 0. */
export class Block {
  readonly buffer: Buffer
  readonly count: number
  readonly #table: DataView
  readonly #payloadStart: number

  /** @param buffer exactly one block. */
  constructor(buffer: Buffer) {
    this.buffer = buffer
    this.count = buffer.readUInt32LE(4)
    this.#payloadStart = headerBytes + this.count * rowBytes
    this.#table = new DataView(buffer.buffer, buffer.byteOffset + headerBytes, this.count * rowBytes)
  }

  get firstSeq(): number {
    return this.seqAt(0)
  }

  get lastSeq(): number {
    return this.seqAt(this.count - 1)
  }

  seqAt(row: number): number {
    return this.#table.getFloat64(row * rowBytes, true)
  }

  /** When the record was appended, in milliseconds since 1970. */
  timeMsAt(row: number): number {
    return this.#table.getFloat64(row * rowBytes + 8, true)
  }

  /** The record's metadata, as one object: for recovery and tests, not for the hot path. */
  metaAt(row: number): RecordMeta {
    const at = row * rowBytes
    return {
      upstreamSeq: this.#table.getFloat64(at + 16, true),
      account: this.#table.getBigUint64(at + 24, true),
      source: this.#table.getUint32(at + 40, true),
      epoch: this.#table.getUint16(at + 44, true),
      kind: this.#table.getUint8(at + 46),
    }
  }

  kindAt(row: number): number {
    return this.#table.getUint8(row * rowBytes + 46)
  }

  accountAt(row: number): bigint {
    return this.#table.getBigUint64(row * rowBytes + 24, true)
  }

  payloadAt(row: number): Buffer {
    return this.payloads(row, row + 1)
  }

  /** The payloads of the rows from `from` up to `to`, which is not included, as one run of bytes. */
  payloads(from: number, to: number): Buffer {
    return this.buffer.subarray(
      this.#payloadStart + this.#endOf(from - 1),
      this.#payloadStart + this.#endOf(to - 1),
    )
  }

  /** The first row with a seq above `seq`; `count` when there is none. */
  firstRowAfter(seq: number): number {
    let low = 0
    let high = this.count
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.seqAt(middle) > seq) high = middle
      else low = middle + 1
    }
    return low
  }

  #endOf(row: number): number {
    return row < 0 ? 0 : this.#table.getUint32(row * rowBytes + 32, true)
  }
}

/** Collects records in a scratch buffer that is used again and again, and copies them out as one block of the exact size. */
export class BlockBuilder {
  #payload: Buffer = Buffer.allocUnsafeSlow(96 * 1024)
  #table: DataView = new DataView(new ArrayBuffer(256 * rowBytes))
  #payloadLength = 0
  #count = 0

  get payloadLength(): number {
    return this.#payloadLength
  }

  get count(): number {
    return this.#count
  }

  append(seq: number, timeMs: number, meta: RecordMeta, parts: readonly Uint8Array[]): void {
    for (const part of parts) {
      const end = this.#payloadLength + part.length
      if (end > this.#payload.length) this.#payload = grown(this.#payload, end)
      this.#payload.set(part, this.#payloadLength)
      this.#payloadLength = end
    }
    if ((this.#count + 1) * rowBytes > this.#table.byteLength) this.#table = grownTable(this.#table)
    const at = this.#count++ * rowBytes
    this.#table.setFloat64(at, seq, true)
    this.#table.setFloat64(at + 8, timeMs, true)
    this.#table.setFloat64(at + 16, meta.upstreamSeq, true)
    this.#table.setBigUint64(at + 24, meta.account, true)
    this.#table.setUint32(at + 32, this.#payloadLength, true)
    this.#table.setUint32(at + 36, 0, true)
    this.#table.setUint32(at + 40, meta.source, true)
    this.#table.setUint16(at + 44, meta.epoch, true)
    this.#table.setUint8(at + 46, meta.kind)
    this.#table.setUint8(at + 47, 0)
  }

  /** The block of what was appended since the last call, without its checksums: the writer fills those in. */
  take(): Buffer {
    const tableLength = this.#count * rowBytes
    const block = Buffer.allocUnsafeSlow(headerBytes + tableLength + this.#payloadLength)
    block.fill(0, 0, headerBytes)
    block.writeUInt32LE(magic, 0)
    block.writeUInt32LE(this.#count, 4)
    block.writeUInt32LE(this.#payloadLength, 8)
    block.set(new Uint8Array(this.#table.buffer, 0, tableLength), headerBytes)
    block.set(this.#payload.subarray(0, this.#payloadLength), headerBytes + tableLength)
    this.#count = 0
    this.#payloadLength = 0
    if (this.#payload.length > 1024 * 1024) this.#payload = Buffer.allocUnsafeSlow(96 * 1024)
    return block
  }
}

/** A CRC-32C over a run of bytes. */
export type Crc = (bytes: Uint8Array) => number

/** Fills in what only the writer knows: the log's secret, how far the file is synced, and the checksums. */
export function sealBlock(buffer: Buffer, syncedOffset: number, secret: bigint, crc: Crc): void {
  const block = new Block(buffer)
  for (let row = 0; row < block.count; row++) {
    buffer.writeUInt32LE(crc(block.payloadAt(row)), headerBytes + row * rowBytes + 36)
  }
  buffer.writeBigUInt64LE(BigInt(syncedOffset), 16)
  buffer.writeBigUInt64LE(secret, 24)
  buffer.writeUInt32LE(0, 12)
  buffer.writeUInt32LE(crc(buffer.subarray(0, headerBytes + block.count * rowBytes)), 12)
}

export interface BlockHeader {
  count: number
  blockBytes: number
  tableEnd: number
  syncedOffset: number
  secret: bigint
}

/** What the first bytes of a block say, before any checksum is looked at. Undefined when they are no block header. */
export function readBlockHeader(bytes: Buffer, at: number): BlockHeader | undefined {
  if (at + headerBytes > bytes.length || bytes.readUInt32LE(at) !== magic) return undefined
  const count = bytes.readUInt32LE(at + 4)
  const tableEnd = headerBytes + count * rowBytes
  return {
    count,
    tableEnd,
    blockBytes: tableEnd + bytes.readUInt32LE(at + 8),
    syncedOffset: Number(bytes.readBigUInt64LE(at + 16)),
    secret: bytes.readBigUInt64LE(at + 24),
  }
}

/**
 * What tells a block of the log from bytes in a payload that look like one. Asked only of blocks that were found by
 * searching: one that stands at the start of a file, or where a block before it ends, is the log's.
 */
export interface BlockSearch {
  secret: bigint
  /** A block whose records reach this seq is not the log's. */
  seqLimit: number
}

/** Whether a header found by searching can be the log's: looked at before any checksum, which costs far more. */
export function mayBeOwn(header: BlockHeader, offset: number, { secret }: BlockSearch): boolean {
  return header.secret === secret && header.syncedOffset <= offset
}

/** True when header and table are as they were written. `bytes` starts at the block and holds at least its table. */
export function isTableIntact(bytes: Buffer, tableEnd: number, crc: Crc): boolean {
  const copy = Buffer.from(bytes.subarray(0, tableEnd))
  copy.writeUInt32LE(0, 12)
  return crc(copy) === bytes.readUInt32LE(12)
}

/** True when every payload of a block whose table is intact has its checksum. */
export function arePayloadsIntact(block: Block, crc: Crc): boolean {
  for (let row = 0; row < block.count; row++) if (!isPayloadIntact(block, row, crc)) return false
  return true
}

/** True when all of a block, whose bytes these are exactly, is as it was written. */
export function isBlockIntact(bytes: Buffer, crc: Crc): boolean {
  const header = readBlockHeader(bytes, 0)
  return (
    header?.blockBytes === bytes.length &&
    isTableIntact(bytes, header.tableEnd, crc) &&
    arePayloadsIntact(new Block(bytes), crc)
  )
}

export function isPayloadIntact(block: Block, row: number, crc: Crc): boolean {
  return crc(block.payloadAt(row)) === block.buffer.readUInt32LE(headerBytes + row * rowBytes + 36)
}

function grown(buffer: Buffer, needed: number): Buffer {
  const larger = Buffer.allocUnsafeSlow(Math.max(needed, buffer.length * 2))
  larger.set(buffer)
  return larger
}

function grownTable(table: DataView): DataView {
  const larger = new Uint8Array(table.byteLength * 2)
  larger.set(new Uint8Array(table.buffer))
  return new DataView(larger.buffer)
}
