/**
 * Damages copies of the archive that a run leaves, each in one way. What a reader takes for rows must be the rows that were
 * there. Everything else must be refused: at the start, or when it is read.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type BlockEntry,
  decodeFrame,
  encodeBlockIndex,
  encodeSealedHeader,
  parseSegment,
  type ParsedSegment,
  parseSegmentName,
  planSnapshot,
  type Row,
  SegmentError,
  segmentName,
} from '@tributary/segment'
import { nodeDecompress, packFrame, SegmentDirectory } from '@tributary/segment/node'
import { PowerDisk, PowerFiles, randomFrom, type Random } from '@tributary/testkit/disk'
import { Archive, ArchiveMismatchError, type Covered } from '../../src/archive/archive.ts'
import { storedRows } from '../rows.ts'
import { nameOf } from './account-model.ts'

/** A sealed segment of the run. */
interface Sealed {
  index: number
  bytes: Buffer
  parsed: ParsedSegment
  rows: Row[]
}

interface Opened {
  directory: string
  random: Random
  /** By their indices. */
  files: ReadonlyMap<number, Buffer>
  lastSeqMin?: number
  /** What is remembered of segments that were checked before. */
  known?: Buffer | undefined
}

/** @returns what is wrong, if anything is. Nothing is when the run left nothing that could be damaged like this. */
type Damage = (archive: ArchiveCopy) => Promise<string | false | undefined>

/** Nothing comes of time. */
const never: Disposable = { [Symbol.dispose]: () => {} }
const stillClock = { nowMs: () => 0, after: () => never, every: () => never }
const headerBytes = 256
const prefixBytes = 8
const filterHead = { ofRegion: 8, ofFilter: 21 }
/** Ways of damage that are tried in each run. */
const triedMax = 2

/** @param directory of the archive. Nobody has it open. */
export async function damageFaults(directory: string, seed: number): Promise<string[]> {
  const random = randomFrom(seed ^ 0xda3a)
  const archive = new ArchiveCopy(directory, random)
  if (archive.sealed.length === 0) return []
  const faults: string[] = []
  const left = [...damages]
  for (let tried = 0; tried < triedMax; tried++) {
    const [damage] = left.splice(random.below(left.length), 1)
    try {
      const fault = await damage?.(archive)
      if (fault) faults.push(`a damaged archive: ${fault}`)
    } catch (error) {
      faults.push(`a damaged archive: ${damage?.name} throws ${String(error)}`)
    }
  }
  return faults
}

class ArchiveCopy {
  readonly random: Random
  readonly files = new Map<number, Buffer>()
  readonly sealed: readonly Sealed[]
  readonly known: Buffer | undefined
  readonly #directory: string

  constructor(directory: string, random: Random) {
    this.#directory = directory
    this.random = random
    const names = readdirSync(directory)
    const known = 'known-segments.json'
    this.known = names.includes(known) ? readFileSync(join(directory, known)) : undefined
    for (const name of readdirSync(join(directory, 'segments'))) {
      const index = parseSegmentName(name)
      if (index !== undefined) this.files.set(index, readFileSync(join(directory, 'segments', name)))
    }
    this.sealed = [...this.files].flatMap(([index, bytes]) => sealedOf(index, bytes)).toSorted(byIndex)
  }

  /** A sealed segment that has what is wished for. */
  some(has: (sealed: Sealed) => boolean = () => true): Sealed | undefined {
    const fitting = this.sealed.filter((each) => each.rows.length > 0 && has(each))
    return fitting.length > 0 ? this.random.pick(fitting) : undefined
  }

  /** The files with one of them changed, or left out. */
  with(index: number, bytes: Buffer | undefined): Map<number, Buffer> {
    const files = new Map(this.files)
    if (bytes) files.set(index, bytes)
    else files.delete(index)
    return files
  }

  /** The files up to one, and that one changed. */
  upTo(index: number, bytes: Buffer): Map<number, Buffer> {
    return new Map(
      this.with(index, bytes)
        .entries()
        .filter(([each]) => each <= index),
    )
  }

  /** Opens such files. @returns undefined when they are refused. */
  async open<T>(
    files: ReadonlyMap<number, Buffer>,
    use: (segments: SegmentDirectory) => Promise<T>,
    { lastSeqMin, known }: Pick<Opened, 'lastSeqMin' | 'known'> = {},
  ): Promise<T | undefined> {
    const directory = mkdtempSync(join(this.#directory, 'damaged-'))
    try {
      for (const [index, bytes] of files) writeFileSync(join(directory, segmentName(index)), bytes)
      const knownSegmentsPath = `${directory}.json`
      if (known) writeFileSync(knownSegmentsPath, known)
      const root = directory
      const disk = new PowerFiles(new PowerDisk({ root, random: this.random, later: queueMicrotask }))
      const options = { directory, disk, now: () => 0, ...(known && { knownSegmentsPath }) }
      await using segments = await orRefused(() =>
        SegmentDirectory.open({ ...options, ...(lastSeqMin !== undefined && { lastSeqMin }) }),
      )
      return segments && (await use(segments))
    } finally {
      for (const path of [directory, `${directory}.json`]) rmSync(path, { recursive: true, force: true })
    }
  }

  /** Opens all of it, with its log. @returns the newest seq. Undefined when saved states do not fit. */
  async openWhole(covered: Covered): Promise<number | undefined> {
    const root = mkdtempSync(join(this.#directory, 'whole-'))
    try {
      for (const part of ['segments', 'log'])
        cpSync(join(this.#directory, part), join(root, part), { recursive: true })
      const log = new PowerDisk({ root, random: this.random, later: queueMicrotask })
      const sizes = { segmentBytesMax: 2 ** 28, segmentAgeMsMax: 2 ** 50 }
      const { archive } = await Archive.open({
        directory: root,
        covered,
        ...sizes,
        disk: { log, segments: new PowerFiles(log) },
        clock: stillClock,
        onFailure: (error) => {
          throw error
        },
      })
      const { appendedSeq } = archive
      await archive.close()
      return appendedSeq
    } catch (error) {
      if (error instanceof ArchiveMismatchError) return undefined
      throw error
    } finally {
      rmSync(root, { recursive: true })
    }
  }

  /** The rows of sealed segments up to one. */
  rowsUpTo(index: number): Row[] {
    return this.sealed.filter((each) => each.index <= index).flatMap(({ rows }) => rows)
  }
}

const damages: readonly Damage[] = [
  async function aBitOfTheIndexes(archive) {
    const { random } = archive
    const sealed = archive.some()
    if (!sealed) return
    const { footerOffset, didFilterOffset, collectionIndexOffset } = sealed.parsed.header
    const [from, to] = random.pick([
      [0, headerBytes],
      [footerOffset, didFilterOffset],
      [collectionIndexOffset, sealed.bytes.length],
    ] as const)
    const at = from + random.below(to - from)
    const files = archive.with(sealed.index, flipped(sealed.bytes, at, random))
    const known = random.pick([archive.known, undefined])
    const isOpen = await archive.open(files, async () => true, { known })
    return isOpen && `a segment is opened whose byte ${at} of indexes has changed`
  },
  async function filters(archive) {
    const { random } = archive
    const sealed = archive.some()
    if (!sealed) return
    const { didFilterOffset, blockDidFiltersOffset, collectionIndexOffset, blockCount } = sealed.parsed.header
    const bytes = Buffer.from(sealed.bytes)
    if (random.below(2) === 0) bytes.fill(0, didFilterOffset + filterHead.ofFilter, blockDidFiltersOffset - 4)
    else {
      const from = blockDidFiltersOffset + filterHead.ofRegion
      const size = (collectionIndexOffset - from) / blockCount
      const at = from + size * random.below(blockCount)
      bytes.fill(0, at + filterHead.ofFilter, at + size - 4)
    }
    // A block without rows has no bits.
    if (bytes.equals(sealed.bytes)) return
    const files = archive.with(sealed.index, bytes)
    if (await archive.open(files, async () => true)) return 'filters without bits are taken at a start'
    const dids = [...new Set(sealed.rows.map(({ did }) => did))]
    const { known } = archive
    const left = await archive.open(files, async ({ sealed: all }) => await leftOut(all, sealed, dids), {
      known,
    })
    return left
  },
  async function aBitOfABlock(archive) {
    const { random } = archive
    const sealed = archive.some()
    if (!sealed) return
    const { offset, compressedSize } = random.pick(sealed.parsed.blocks)
    const at = offset + random.below(prefixBytes + compressedSize)
    const files = archive.with(sealed.index, flipped(sealed.bytes, at, random))
    const wanted = names(archive.sealed.flatMap(({ rows }) => rows))
    return await archive.open(files, async (segments) => {
      const rows = await orRefused(() => storedRows(segments))
      const isOther = rows && !names(rows).startsWith(wanted)
      return isOther && `other rows are read of a block whose byte ${at - offset} has changed`
    })
  },
  async function aForgedIndex(archive) {
    const sealed = archive.some(({ parsed }) => filledOf(parsed).length > 1)
    if (!sealed) return
    const { random } = archive
    const { blocks } = sealed.parsed
    const filled = filledOf(sealed.parsed)
    const place = 1 + random.below(filled.length - 1)
    const [before, entry] = [filled[place - 1], filled[place]]
    if (!before || !entry) return
    const change = random.pick([{ offset: before.offset }, { minSeq: before.maxSeq }])
    const entries = blocks.map((each) => (each === entry ? { ...each, ...change } : each))
    const files = archive.with(sealed.index, withIndex(sealed, entries))
    const isOpen = await archive.open(files, async () => true)
    return isOpen && `an index is taken whose block has ${JSON.stringify(change)}, as the one before`
  },
  async function anIndexThatIsTooNarrow(archive) {
    const { random } = archive
    const isWide = ({ minSeq, maxSeq, eventCount }: BlockEntry): boolean => eventCount > 1 && maxSeq > minSeq
    const sealed = archive.some(({ parsed }) => parsed.blocks.some(isWide))
    if (!sealed) return
    const { blocks } = sealed.parsed
    const place = random.pick([...blocks.keys()].filter((i) => blocks[i] && isWide(blocks[i])))
    const rows = sealed.parsed.readBlock(place).rows()
    const [first = 0, last = 0] = [rows[0]?.seq, rows.at(-1)?.seq]
    const change = random.pick([{ minSeq: first + 1 }, { maxSeq: last - 1 }])
    const entries = blocks.map((each, i) => (i === place ? { ...each, ...change } : each))
    const files = archive.with(sealed.index, withIndex(sealed, entries))
    return await archive.open(files, async ({ sealed: all }) => {
      const found = all.find(({ index }) => index === sealed.index)
      const block = await orRefused(async () => await found?.readBlock(place))
      return block && `a block is read whose rows reach out of ${JSON.stringify(change)}`
    })
  },
  async function aSegmentIsMissing(archive) {
    const [first] = archive.sealed
    if (!first || archive.files.size < 2) return
    const isOpen = await archive.open(archive.with(first.index, undefined), async () => true)
    return isOpen && 'a segment is missing before others, and the start does not say so'
  },
  async function seqsTwice(archive) {
    const { random } = archive
    const sealed = archive.some(({ parsed }) => parsed.blocks.some(({ eventCount }) => eventCount === 1))
    const entry = sealed?.parsed.blocks.findLast(({ eventCount }) => eventCount === 1)
    if (!sealed || !entry) return
    const stored = sealed.bytes.subarray(entry.offset, entry.offset + prefixBytes + entry.compressedSize)
    const isLast = entry === filledOf(sealed.parsed).at(-1)
    const previous = archive.sealed.find(({ index }) => index === sealed.index - 1)
    const ways = [
      archive.upTo(sealed.index, Buffer.concat([activeHeader(), stored, stored])),
      isLast &&
        new Map(archive.upTo(sealed.index, sealed.bytes)).set(
          sealed.index + 1,
          Buffer.concat([activeHeader(), stored]),
        ),
      previous?.rows.length && archive.upTo(sealed.index, withMinSeq(sealed, previous.parsed.header.maxSeq)),
    ].filter((files) => typeof files === 'object')
    const isOpen = await archive.open(random.pick(ways), async () => true)
    return isOpen && `seq ${entry.minSeq} is there twice, and the start does not say so`
  },
  async function aSealThatDidNotEnd(archive) {
    const { random } = archive
    const sealed = archive.some(isAsWritten)
    if (!sealed) return
    const { footerOffset } = sealed.parsed.header
    const footer = random.pick([0, random.below(sealed.bytes.length - footerOffset), Infinity])
    const bytes = Buffer.concat([
      activeHeader(),
      sealed.bytes.subarray(headerBytes, Math.min(sealed.bytes.length, footerOffset + footer)),
    ])
    const found = await archive.open(archive.upTo(sealed.index, bytes), async (segments) =>
      names(await storedRows(segments)),
    )
    const isSame = found === names(archive.rowsUpTo(sealed.index))
    return isSame ? undefined : `a seal that wrote ${footer} bytes of the footer is not taken back`
  },
  async function aTornBlock(archive) {
    const sealed = archive.some(isAsWritten)
    const last = sealed?.parsed.blocks.at(-1)
    if (!sealed || !last) return
    const bytes = Buffer.concat([
      activeHeader(),
      sealed.bytes.subarray(headerBytes, sealed.parsed.header.footerOffset),
    ])
    const at = last.offset + prefixBytes + archive.random.below(last.compressedSize)
    bytes.fill(0, at)
    bytes.writeUInt8(1 ^ (sealed.bytes[at] ?? 0), at)
    const files = archive.upTo(sealed.index, bytes)
    const kept = archive.rowsUpTo(sealed.index).filter(({ seq }) => seq < last.minSeq)
    const lastSeqMin = kept.at(-1)?.seq ?? 0
    const found = await archive.open(files, async (segments) => names(await storedRows(segments)), {
      lastSeqMin,
    })
    if (found !== names(kept)) return `a torn block after ${lastSeqMin} is not cut off`
    const isOpen = await archive.open(files, async () => true, { lastSeqMin: last.maxSeq })
    return isOpen && `a torn block is cut off that was whole once, with ${last.maxSeq} in it`
  },
  async function aForgedBlock(archive) {
    const { random } = archive
    const sealed = archive.some()
    if (!sealed) return
    const [, place] = random.pick([...sealed.parsed.blocks].map((each, i) => [each, i] as const))
    const frame = sealed.parsed.readFrame(place)
    const { body, count } = sealed.parsed.readBlock(place)
    const rest = Uint8Array.of(random.below(256))
    const isRead = async (bytes: Uint8Array, max?: number): Promise<boolean> =>
      (await orRefused(async () => decodeFrame(bytes, nodeDecompress, max))) !== undefined
    if (await isRead(Buffer.concat([frame, rest]))) return 'a byte after a frame is taken'
    if (await isRead(await packFrame(Buffer.concat([body, rest]))))
      return 'a byte after the last row is taken'
    if (await isRead(frame, body.length - 1)) return 'a frame is read that is longer than its bound'
    if (count < 2) return
    const seqs = 4
    const forged = Buffer.from(body)
    forged.copyWithin(seqs + 8, seqs, seqs + 8)
    return (await isRead(await packFrame(forged))) ? 'a block is read that has a seq twice' : undefined
  },
  async function statesThatAreAhead(archive) {
    const newest = await archive.openWhole({ appliedSeq: 0, blockSeq: -1 })
    if (newest === undefined) return 'it does not open without saved states'
    const isOpen = await archive.openWhole({ appliedSeq: newest + 1, blockSeq: -1 })
    return (
      isOpen !== undefined && `states are taken that know of row ${newest + 1}, and ${newest} is the newest`
    )
  },
  async function refusedRows(archive) {
    const row = archive.sealed.flatMap(({ rows }) => rows).at(-1)
    if (!row) return
    return await archive.open(archive.files, async (segments) => {
      const { lastSeq } = segments
      const next = { ...row, seq: lastSeq + 1 }
      const wrong = [[next, next], [{ ...row, seq: lastSeq }], [{ ...next, seq: lastSeq + 2 }, next]]
      const taken = await Promise.all(wrong.map(async (rows) => await orRefused(() => segments.append(rows))))
      if (taken.some((each) => each !== undefined)) return `rows are taken that do not follow ${lastSeq}`
      await segments.append([next])
      const last = (await storedRows(segments)).at(-1)
      return last?.seq === next.seq ? undefined : `row ${next.seq} is not there after others were refused`
    })
  },
]

function sealedOf(index: number, bytes: Buffer): Sealed[] {
  if (bytes.readBigUInt64LE(4) === 0n) return []
  const parsed = parseSegment(bytes, nodeDecompress)
  const rows = parsed.blocks.flatMap((_, i) => parsed.readBlock(i).rows())
  return [{ index, bytes, parsed, rows }]
}

function byIndex(a: Sealed, b: Sealed): number {
  return a.index - b.index
}

function filledOf({ blocks }: ParsedSegment): BlockEntry[] {
  return blocks.filter(({ eventCount }) => eventCount > 0)
}

/** Whether no row has left the segment. */
function isAsWritten({ parsed }: Sealed): boolean {
  return parsed.blocks.every(({ eventCount, minSeq, maxSeq }, i) => {
    const rows = parsed.readBlock(i).rows()
    return eventCount > 0 && rows[0]?.seq === minSeq && rows.at(-1)?.seq === maxSeq
  })
}

function activeHeader(): Buffer {
  return Buffer.concat([Buffer.from('jss0')], headerBytes)
}

function flipped(bytes: Buffer, at: number, random: Random): Buffer {
  const changed = Buffer.from(bytes)
  changed.writeUInt8((bytes[at] ?? 0) ^ (1 << random.below(8)), at)
  return changed
}

/** A segment with another index, under a checksum that fits. */
function withIndex({ bytes, parsed: { header } }: Sealed, entries: readonly BlockEntry[]): Buffer {
  const footer = Buffer.concat([encodeBlockIndex(entries), bytes.subarray(header.didFilterOffset)])
  const head = encodeSealedHeader(header, footer)
  return Buffer.concat([head, bytes.subarray(headerBytes, header.footerOffset), footer])
}

function withMinSeq({ bytes, parsed: { header } }: Sealed, minSeq: number): Buffer {
  const rest = bytes.subarray(header.footerOffset)
  const head = encodeSealedHeader({ ...header, minSeq }, rest)
  return Buffer.concat([head, bytes.subarray(headerBytes)])
}

/** A block with rows of a DID that a plan for that DID leaves out. */
async function leftOut(
  all: SegmentDirectory['sealed'],
  { index, parsed }: Sealed,
  dids: readonly string[],
): Promise<string | undefined> {
  for (const did of dids) {
    const { segments } = await planSnapshot(all, { dids: [did] }, { entriesMax: 0 })
    const planned = segments.find((each) => each.index === index)
    const isPlanned = (i: number): boolean =>
      planned !== undefined &&
      (!planned.blocks || planned.blocks.some(({ first, last }) => first <= i && i <= last))
    const block = parsed.blocks.findIndex(
      (_, i) =>
        !isPlanned(i) &&
        parsed
          .readBlock(i)
          .rows()
          .some((row) => row.did === did),
    )
    if (block >= 0) return `a plan for ${did} leaves out block ${block}, because filters are damaged`
  }
  return undefined
}

function names(rows: readonly Row[]): string {
  return rows.map((row) => `${row.seq} ${nameOf(row)}`).join()
}

/** Undefined when it is refused by name. */
async function orRefused<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof SegmentError) return undefined
    throw error
  }
}
