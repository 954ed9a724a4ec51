import { readSync, statSync } from 'node:fs'
import type { Disk } from './disk.ts'
import { writeHere } from './durable-file.ts'
import { LogCorruptError } from './errors.ts'
import { addToIndex, emptyIndex, type FileIndex } from './file-index.ts'
import { overlaps, scanFile, type ScanOptions } from './scan-file.ts'

export interface RecoverOptions extends Pick<ScanOptions, 'crc' | 'afterSeq' | 'search'> {
  /** How much of the file is known to be durable, beside what its own blocks say. */
  syncedBytes: number
}

const chunkBytes = 1024 * 1024

/**
 * Reads a file whose writer may have been stopped at any moment, and cuts its torn tail. What stands after the last
 * synced mark is written once more: where a write failed, the system may have it in memory alone and count it as
 * written, so that no sync would bring it to the disk.
 * Everything before the last synced mark must be whole, or the file is corrupt. Behind the mark nothing was
 * acknowledged, so the first block that is not whole ends the file, even when a later one happens to be.
 * @throws LogCorruptError for damage before the mark.
 */
export function recoverFile(disk: Disk, path: string, { syncedBytes, ...scan }: RecoverOptions): FileIndex {
  const index = emptyIndex()
  let mark = syncedBytes
  let isTorn = false
  for (const { offset, bytes, block, syncedOffset, damage } of scanFile(path, { ...scan, isNewest: true })) {
    if (damage === overlaps && !isTorn) throw new LogCorruptError(path, offset, damage)
    isTorn ||= damage !== undefined
    if (damage === undefined) mark = Math.max(mark, syncedOffset)
    if (block && !isTorn) addToIndex(index, block, bytes)
  }
  if (index.bytes < mark)
    throw new LogCorruptError(path, index.bytes, 'a block before the synced mark is not whole')
  if (index.bytes < statSync(path).size) cutFile(disk, path, index.bytes)
  if (mark < index.bytes) writeAgain(disk, path, mark, index.bytes)
  return index
}

/**
 * Indexes a finished file by its block headers and tables, without reading its payloads.
 * @throws LogCorruptError when one of them is not as it was written.
 */
export function indexFile(path: string, scan: Omit<RecoverOptions, 'syncedBytes'>): FileIndex {
  const index = emptyIndex()
  for (const { offset, bytes, block, damage } of scanFile(path, {
    ...scan,
    isNewest: false,
    tablesOnly: true,
  })) {
    if (!block) throw new LogCorruptError(path, offset, damage ?? 'no whole block')
    addToIndex(index, block, bytes)
  }
  return index
}

/** Durable when the file is synced, which whoever goes on with it does first. */
function cutFile(disk: Disk, path: string, bytes: number): void {
  const fd = disk.openSync(path, 'r+')
  try {
    disk.ftruncateSync(fd, bytes)
  } finally {
    disk.closeSync(fd)
  }
}

/** Writes what stands in a part of a file to the same place. Durable as what `cutFile` does. */
function writeAgain(disk: Disk, path: string, from: number, to: number): void {
  const fd = disk.openSync(path, 'r+')
  try {
    const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, to - from))
    for (let at = from; at < to;) {
      const got = readSync(fd, chunk, 0, Math.min(chunk.length, to - at), at)
      if (got === 0) throw new LogCorruptError(path, at, 'it became shorter while it was read')
      writeHere(disk, fd, [chunk.subarray(0, got)], at)
      at += got
    }
  } finally {
    disk.closeSync(fd)
  }
}
