import { SegmentError } from './errors.ts'
import { xxh3Hex } from './hash.ts'
import { readI64, readU64, viewOf, write64 } from './integers.ts'
import { segmentLimits } from './limits.ts'

export const headerBytes = 256
const magic = [0x6a, 0x73, 0x73, 0x30] // "jss0"
const activeChecksum = '0000000000000000'
const checksummedFrom = 12

/** What a header counts. Times are Unix microseconds. */
export interface SegmentTotals {
  readonly blockCount: number
  readonly eventCount: number
  readonly uniqueDidCount: number
  /** Envelopes: after a compaction they may reach further than the rows that are left. All 0 without blocks. */
  readonly minSeq: number
  readonly maxSeq: number
  readonly minWitnessedAt: number
  readonly maxWitnessedAt: number
}

/** The fixed header of a sealed segment (segment-format.md 2). Offsets are absolute. */
export interface SegmentHeader extends SegmentTotals {
  /** Sixteen hex digits that name this generation of the file; also its ETag. */
  readonly checksum: string
  readonly footerOffset: number
  readonly didFilterOffset: number
  readonly blockDidFiltersOffset: number
  readonly collectionIndexOffset: number
}

/** The header of a file that is still appended to. */
export function encodeActiveHeader(): Uint8Array {
  const bytes = new Uint8Array(headerBytes)
  bytes.set(magic)
  return bytes
}

/** The complete header of a sealed file; its checksum covers the header's fields and the footer. */
export function encodeSealedHeader(header: Omit<SegmentHeader, 'checksum'>, footer: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(headerBytes)
  const view = viewOf(bytes)
  bytes.set(magic)
  view.setUint16(12, 1, true)
  view.setUint32(14, header.blockCount, true)
  view.setUint32(18, header.eventCount, true)
  view.setUint32(22, header.uniqueDidCount, true)
  write64(view, 26, header.minSeq)
  write64(view, 34, header.maxSeq)
  write64(view, 42, header.minWitnessedAt)
  write64(view, 50, header.maxWitnessedAt)
  write64(view, 58, header.footerOffset)
  write64(view, 66, header.didFilterOffset)
  write64(view, 74, header.blockDidFiltersOffset)
  write64(view, 82, header.collectionIndexOffset)
  write64(view, 90, header.footerOffset)
  view.setBigUint64(4, BigInt(`0x${segmentChecksum(bytes, footer)}`), true)
  return bytes
}

/** The checksum that a header with these bytes must carry (segment-format.md 3). */
export function segmentChecksum(header: Uint8Array, footer: Uint8Array): string {
  return xxh3Hex(header.subarray(checksummedFrom, headerBytes), footer)
}

/** Whether the bytes open a sealed or an active segment. Throws SegmentError `bad-header` when they open neither. */
export function segmentState(bytes: Uint8Array): 'active' | 'sealed' {
  if (bytes.length < headerBytes) {
    throw new SegmentError('bad-header', 'file is shorter than a segment header')
  }
  if (magic.some((byte, i) => bytes[i] !== byte)) throw new SegmentError('bad-header', 'not a segment file')
  return readChecksum(viewOf(bytes)) === activeChecksum ? 'active' : 'sealed'
}

/**
 * Reads the header of a sealed file of `fileBytes` bytes, with every check of segment-format.md 11 that needs only
 * the header; the checksum itself is compared by whoever holds the footer.
 * Throws SegmentError `not-sealed` for an active file, `bad-header` otherwise.
 */
export function decodeSealedHeader(bytes: Uint8Array, fileBytes: number): SegmentHeader {
  if (segmentState(bytes) === 'active') throw new SegmentError('not-sealed', 'segment is still active')
  const view = viewOf(bytes)
  const version = view.getUint16(12, true)
  if (version !== 1) throw new SegmentError('bad-header', `segment version ${version} is unknown`)
  const u64 = (offset: number): number => readU64(view, offset, 'bad-header')
  const header: SegmentHeader = {
    checksum: readChecksum(view),
    blockCount: view.getUint32(14, true),
    eventCount: view.getUint32(18, true),
    uniqueDidCount: view.getUint32(22, true),
    minSeq: u64(26),
    maxSeq: u64(34),
    minWitnessedAt: readI64(view, 42, 'bad-header'),
    maxWitnessedAt: readI64(view, 50, 'bad-header'),
    footerOffset: u64(58),
    didFilterOffset: u64(66),
    blockDidFiltersOffset: u64(74),
    collectionIndexOffset: u64(82),
  }
  if (header.blockCount > segmentLimits.segmentBlocks) {
    throw new SegmentError('bad-header', `segment claims ${header.blockCount} blocks`)
  }
  if (u64(90) !== header.footerOffset) {
    throw new SegmentError('bad-header', 'the block index does not start the footer')
  }
  const sections = [
    headerBytes,
    header.footerOffset,
    header.didFilterOffset,
    header.blockDidFiltersOffset,
    header.collectionIndexOffset,
    fileBytes,
  ]
  if (sections.some((offset, i) => offset < (sections[i - 1] ?? 0))) {
    throw new SegmentError('bad-header', 'section offsets do not ascend within the file')
  }
  return header
}

function readChecksum(view: DataView): string {
  return view.getBigUint64(4, true).toString(16).padStart(16, '0')
}
