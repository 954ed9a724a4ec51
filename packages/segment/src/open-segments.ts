import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { ActiveSegment } from './active-segment.ts'
import { SegmentError } from './errors.ts'
import type { FilterCache } from './filter-cache.ts'
import { headerBytes } from './header.ts'
import type { KnownSegments } from './known-segments.ts'
import { checkReaches } from './recover.ts'
import { SealedSegment } from './sealed-segment.ts'
import type { SegmentDisk } from './segment-disk.ts'
import { SegmentFile, writeAgain } from './segment-file.ts'
import { parseSegmentName, segmentName } from './segment-name.ts'

export interface OpenSegments {
  readonly sealed: readonly SealedSegment[]
  readonly active: { readonly index: number; readonly segment: ActiveSegment }
}

interface OpenOptions {
  disk: SegmentDisk
  filters: FilterCache
  known: KnownSegments
  /** The newest row that is known to have been in a durable block. */
  lastSeqMin: number | undefined
}

/**
 * Opens all segments of a directory after whatever stop: sealed ones in order, then the active one, which is created
 * when the last stop came between sealing a segment and starting the next. Removes what unfinished writes left.
 * Throws SegmentError before anything is cut; `missing-rows` when rows up to `lastSeqMin` or a segment before others are not there, `bad-order` when an active segment is not the last, or when seqs of two segments overlap.
 */
export async function openSegments(
  directory: string,
  { disk, filters, known, lastSeqMin }: OpenOptions,
): Promise<OpenSegments> {
  const indices = await findSegments(directory, disk)
  const sealed: SealedSegment[] = []
  let active: ActiveSegment | undefined
  let newestSeq = 0
  try {
    for (const [place, index] of indices.entries()) {
      const path = join(directory, segmentName(index))
      if (index > place)
        throw new SegmentError('missing-rows', `${join(directory, segmentName(place))} is not there`)
      if (active) throw new SegmentError('bad-order', `${active.path} is active, but ${path} follows it`)
      const isReached = newestSeq >= (lastSeqMin ?? Infinity)
      const segment = await openEither(path, { disk, filters, known, lastSeqMin: isReached ? 0 : lastSeqMin })
      if (segment instanceof ActiveSegment) active = segment
      else {
        sealed.push(segment)
        newestSeq = Math.max(newestSeq, segment.header.maxSeq)
      }
    }
    checkOrder(sealed, active)
    const lastIndex = indices.at(-1)
    if (active && lastIndex !== undefined) return { sealed, active: { index: lastIndex, segment: active } }
    checkReaches(newestSeq, lastSeqMin)
    const last = sealed.at(-1)
    if (last) await keepHeader(join(directory, last.name), disk)
    const index = (lastIndex ?? -1) + 1
    active = await ActiveSegment.create(join(directory, segmentName(index)), disk)
    return { sealed, active: { index, segment: active } }
  } catch (error) {
    await Promise.all([active?.close(), ...sealed.map((segment) => segment.close())])
    throw error
  }
}

/** After a kill or a failed write a header may not be on the disk. It must be there before another file follows. */
async function keepHeader(path: string, disk: SegmentDisk): Promise<void> {
  const file = new SegmentFile(path, await disk.open(path, 'r+'))
  try {
    await writeAgain(file, 0, headerBytes)
    await file.handle.sync()
  } finally {
    await file.close()
  }
}

/** The indices of the segments in a directory, ascending. */
async function findSegments(directory: string, disk: SegmentDisk): Promise<number[]> {
  const indices: number[] = []
  for (const name of await readdir(directory)) {
    const index = parseSegmentName(name)
    if (index !== undefined) indices.push(index)
    if (name.endsWith('.tmp') && parseSegmentName(name.slice(0, -'.tmp'.length)) !== undefined) {
      await disk.rm(join(directory, name))
    }
  }
  return indices.toSorted((a, b) => a - b)
}

async function openEither(path: string, options: OpenOptions): Promise<SealedSegment | ActiveSegment> {
  try {
    return await SealedSegment.open(path, options.filters, options.known)
  } catch (error) {
    if (error instanceof SegmentError && error.problem === 'not-sealed')
      return ActiveSegment.recover(path, options)
    throw error
  }
}

function checkOrder(sealed: readonly SealedSegment[], active: ActiveSegment | undefined): void {
  let previousMaxSeq = 0
  for (const { name, header } of sealed) {
    if (header.eventCount === 0) continue
    if (header.minSeq <= previousMaxSeq) {
      throw new SegmentError('bad-order', `${name} starts at seq ${header.minSeq}, after ${previousMaxSeq}`)
    }
    previousMaxSeq = header.maxSeq
  }
  const first = active?.blocks[0]
  if (active && first && first.minSeq <= previousMaxSeq) {
    throw new SegmentError(
      'bad-order',
      `${active.path} starts at seq ${first.minSeq}, after ${previousMaxSeq}`,
    )
  }
}
