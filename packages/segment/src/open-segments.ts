import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ActiveSegment } from './active-segment.ts'
import { SegmentError } from './errors.ts'
import { SealedSegment } from './sealed-segment.ts'
import { parseSegmentName, segmentName } from './segment-name.ts'

export interface OpenSegments {
  readonly sealed: readonly SealedSegment[]
  readonly active: { readonly index: number; readonly segment: ActiveSegment }
}

/**
 * Opens all segments of a directory after whatever stop: sealed ones in order, then the active one, which is created
 * when the last stop came between sealing a segment and starting the next. Removes what unfinished writes left.
 * Throws SegmentError; `bad-order` when an active segment is not the last, or when seqs of two segments overlap.
 */
export async function openSegments(directory: string): Promise<OpenSegments> {
  const indices = await findSegments(directory)
  const sealed: SealedSegment[] = []
  let active: ActiveSegment | undefined
  try {
    for (const index of indices) {
      const path = join(directory, segmentName(index))
      if (active) throw new SegmentError('bad-order', `${active.path} is active, but ${path} follows it`)
      const segment = await openEither(path)
      if (segment instanceof ActiveSegment) active = segment
      else sealed.push(segment)
    }
    checkOrder(sealed, active)
    const lastIndex = indices.at(-1)
    if (active && lastIndex !== undefined) return { sealed, active: { index: lastIndex, segment: active } }
    const index = (lastIndex ?? -1) + 1
    active = await ActiveSegment.create(join(directory, segmentName(index)))
    return { sealed, active: { index, segment: active } }
  } catch (error) {
    await Promise.all([active?.close(), ...sealed.map((segment) => segment.close())])
    throw error
  }
}

/** The indices of the segments in a directory, ascending. */
async function findSegments(directory: string): Promise<number[]> {
  const indices: number[] = []
  for (const name of await readdir(directory)) {
    const index = parseSegmentName(name)
    if (index !== undefined) indices.push(index)
    if (name.endsWith('.tmp') && parseSegmentName(name.slice(0, -'.tmp'.length)) !== undefined) {
      await rm(join(directory, name))
    }
  }
  return indices.toSorted((a, b) => a - b)
}

async function openEither(path: string): Promise<SealedSegment | ActiveSegment> {
  try {
    return await SealedSegment.open(path)
  } catch (error) {
    if (error instanceof SegmentError && error.problem === 'not-sealed') return ActiveSegment.recover(path)
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
