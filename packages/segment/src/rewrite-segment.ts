/** Writes a segment anew beside the file that it takes the place of, so that a stop at any point leaves one of the two. */
import type { BlockEntry } from './block-index.ts'
import type { BlockView } from './block-view.ts'
import { isDamage } from './errors.ts'
import { freeBytes } from './free-bytes.ts'
import { encodeActiveHeader } from './header.ts'
import { packFrame } from './node-zstd.ts'
import { systemDisk, type SegmentDisk } from './segment-disk.ts'
import { SegmentFile, syncDirectoryOf } from './segment-file.ts'
import { SegmentSummary } from './segment-summary.ts'
import { storedFrame } from './stored-block.ts'

/** A block for the new file. */
export interface Piece {
  readonly frame: Uint8Array
  readonly block: BlockView
  /** The frame has these rows of `block`, ascending. Default: all. */
  readonly rows?: readonly number[]
  readonly entry: Omit<BlockEntry, 'offset' | 'compressedSize'>
}

/**
 * Writes the new file under another name. It is durable when this resolves.
 * @param replacedAtMs when the file that it takes the place of was last written. In HTTP a file is dated by whole seconds,
 * so the new one is of a later second, also when it is written soon after, or the clock was set back.
 */
export async function writeBeside(
  path: string,
  pieces: AsyncIterable<Piece>,
  { isSealed, replacedAtMs }: { isSealed: boolean; replacedAtMs: number },
  disk: SegmentDisk = systemDisk,
): Promise<void> {
  const file = new SegmentFile(path, await disk.open(`${path}.tmp`, 'w+'))
  try {
    const summary = new SegmentSummary()
    await written(file.write(encodeActiveHeader(), 0))
    for await (const { frame, block, rows, entry } of pieces) {
      const stored = storedFrame(frame)
      await written(file.write(stored, summary.end))
      freeBytes(stored)
      summary.addBlock({ ...entry, offset: summary.end, compressedSize: frame.length }, block, rows)
    }
    if (isSealed) {
      const { header, footer } = await summary.seal(packFrame)
      await written(file.write(footer, summary.end))
      await written(file.write(header, 0))
    }
    const { mtimeMs } = await file.handle.stat()
    const nextSecond = new Date((Math.floor(replacedAtMs / 1000) + 1) * 1000)
    if (mtimeMs < nextSecond.getTime()) await file.handle.utimes(nextSecond, nextSecond)
    await written(file.handle.sync())
  } finally {
    await file.close()
  }
}

/** Puts what `writeBeside` wrote in the place of the file. Whoever has that open goes on reading it. */
export async function takePlace(path: string, disk: SegmentDisk = systemDisk): Promise<void> {
  await written(disk.rename(`${path}.tmp`, path))
  await written(syncDirectoryOf(path, disk))
}

/** A write that fails may have the code of a read that met damage, and is none. */
async function written<T>(writing: Promise<T>): Promise<T> {
  try {
    return await writing
  } catch (cause) {
    if (!isDamage(cause)) throw cause
    throw new Error('a segment could not be written anew', { cause })
  }
}
