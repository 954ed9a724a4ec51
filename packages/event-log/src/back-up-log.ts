import { closeSync, constants, existsSync, fstatSync, openSync, read, statSync } from 'node:fs'
import { join } from 'node:path'
import { createCrc } from './crc.ts'
import { type Clock, systemClock } from './clock.ts'
import { systemDisk, type Disk } from './disk.ts'
import { aside, syncAside, syncDirectory, syncPath, writeAside } from './durable-file.ts'
import { limitOfCopy, readLease, writeLease } from './lease.ts'
import { logFileNames } from './log-files.ts'
import { recoverFile } from './recover-file.ts'
import { endOfWritten } from './scan-file.ts'
import { blockSearchOf } from './secret.ts'

const chunkBytes = 1024 * 1024

export interface CopiedLog {
  /** The last seq in the copy, 0 for a log without records. */
  lastSeq: number
  /** The copy gives out no number below this. Its first start chooses where it begins. */
  limit: number
}

/**
 * Copies a log as far as it is written, also while its owner goes on writing: finished files as they are, the newest
 * up to its last whole block. The copy is a log of its own, durable when this resolves. Files are copied and synced one
 * after the other, aside: the owner may be this program. The copy repeats no number that the owner gives out after this.
 */
export async function backUpLog(
  directory: string,
  copy: string,
  { disk = systemDisk, clock = systemClock }: { disk?: Disk; clock?: Pick<Clock, 'wallMs'> } = {},
): Promise<CopiedLog> {
  const crc = await createCrc()
  disk.mkdirSync(copy, { recursive: true })
  syncPath(disk, copy)
  let lastSeq = 0
  const names = logFileNames(directory)
  for (const name of names) {
    const path = join(directory, name)
    const target = join(copy, name)
    try {
      if (name === names.at(-1)) await copyWritten(disk, path, target)
      else await copyFinished(disk, path, target)
      // A file that goes loses its name before its bytes. With the name it still had them all.
      statSync(path)
    } catch (error) {
      // The oldest files may go meanwhile.
      const isGone = error instanceof Error && 'code' in error && error.code === 'ENOENT'
      if (lastSeq > 0 || !isGone) throw error
      if (existsSync(target)) disk.rmSync(target)
      continue
    }
    if (name === names.at(-1)) {
      // Only now, so that it covers every record in the copy.
      const search = blockSearchOf(directory, readLease(directory), crc)
      const index = recoverFile(disk, target, { crc, syncedBytes: 0, afterSeq: lastSeq, search })
      lastSeq = Math.max(lastSeq, index.lastSeq)
    } else lastSeq = Number.parseInt(name, 10)
    const fd = disk.openSync(target, 'r+')
    try {
      await syncAside(disk, fd)
    } finally {
      disk.closeSync(fd)
    }
  }
  const lease = readLease(directory)
  const { secret } = blockSearchOf(directory, lease, crc)
  const limit = limitOfCopy(lease?.limit ?? 1, clock.wallMs())
  await writeLease(disk, copy, { limit, secret, isCopy: true })
  syncDirectory(disk, copy)
  return { lastSeq, limit }
}

/** Copies a file that is finished, in no time where a file system can give it a second name for what it holds. */
async function copyFinished(disk: Disk, path: string, target: string): Promise<void> {
  const mode = constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE_FORCE
  try {
    await aside((done) => disk.copyFile(path, target, mode, done))
  } catch {
    // Node could copy the bytes as well, but would never end if the file was cut meanwhile, as one is that goes.
    await copyWritten(disk, path, target)
  }
}

/**
 * Copies a file as far as it was written when this began. Behind the blocks of one that is being written are zeros, which
 * the copy could get in the place of one block and not of the next, and it gets shorter when it is finished.
 */
async function copyWritten(disk: Disk, path: string, target: string): Promise<void> {
  const from = openSync(path, 'r')
  let to: number | undefined
  try {
    to = disk.openSync(target, 'wx')
    const { size } = fstatSync(from)
    const end = endOfWritten(from, size)
    const chunk = Buffer.allocUnsafe(chunkBytes)
    for (let at = 0; at < end;) {
      const length = Math.min(chunk.length, end - at)
      const got = await aside<number>((done) => read(from, chunk, 0, length, at, done))
      if (got === 0) break
      await writeAside(disk, to, [chunk.subarray(0, got)], at)
      at += got
    }
    // The last record may end in zeros of its own.
    disk.ftruncateSync(to, size)
  } finally {
    closeSync(from)
    if (to !== undefined) disk.closeSync(to)
  }
}
