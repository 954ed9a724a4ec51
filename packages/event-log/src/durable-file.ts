import { statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Disk } from './disk.ts'

/** What a call of Node answers that takes a callback: a thread makes it, so a disk that stands still holds up nothing else. */
export async function aside<T = void>(
  call: (done: (error: Error | null, answer: T) => void) => void,
): Promise<T> {
  return await new Promise<T>((resolve, reject) =>
    call((error, answer) => (error ? reject(error) : resolve(answer))),
  )
}

/**
 * Replaces a small file so that a power cut leaves either the old or the new text. Durable when it resolves. One call
 * for a file at a time.
 */
export async function replaceFile(disk: Disk, directory: string, name: string, text: string): Promise<void> {
  const temporary = join(directory, `${name}.tmp`)
  const fd = await aside<number>((done) => disk.open(temporary, 'w', done))
  try {
    await writeAside(disk, fd, [Buffer.from(text)], 0)
    await aside((done) => disk.fsync(fd, done))
  } finally {
    disk.closeSync(fd)
  }
  await aside((done) => disk.rename(temporary, join(directory, name), done))
  await syncDirectoryAside(disk, directory)
}

/** A disk that frees more at a time has writes wait that are to be durable: 100 ms and more for a file of 256 MB. */
const freedBytesMax = 4 * 1024 * 1024

/**
 * Removes a file of so many bytes, a part at a time. Its name must say that it may be cut off: a kill leaves some of it.
 * A file that has other names too keeps its bytes: they may be an operator's copy.
 */
export async function removeInParts(disk: Disk, path: string, bytes: number): Promise<void> {
  const cutBytes = statSync(path).nlink > 1 ? 0 : bytes
  const fd = await aside<number>((done) => disk.open(path, 'r+', done))
  try {
    for (let left = cutBytes - freedBytesMax; left > 0; left -= freedBytesMax)
      await aside((done) => disk.ftruncate(fd, left, done))
  } finally {
    disk.closeSync(fd)
  }
  await aside((done) => disk.unlink(path, done))
}

/** As `syncDirectory`, by a thread. Durable when it resolves. */
export async function syncDirectoryAside(disk: Disk, directory: string): Promise<void> {
  const fd = disk.openSync(directory, 'r')
  try {
    await aside((done) => disk.fsync(fd, done))
  } finally {
    disk.closeSync(fd)
  }
}

/** Makes files that were created, renamed or removed in a directory durable. */
export function syncDirectory(disk: Disk, directory: string): void {
  const fd = disk.openSync(directory, 'r')
  try {
    disk.fsyncSync(fd)
  } finally {
    disk.closeSync(fd)
  }
}

/** Makes the name of a directory durable, and the names of those above it, whoever made them. */
export function syncPath(disk: Disk, directory: string): void {
  for (let path = resolve(directory); dirname(path) !== path; path = dirname(path)) {
    try {
      syncDirectory(disk, dirname(path))
    } catch (error) {
      // Whoever makes a directory may read it: this one is older than the program.
      if (!(error instanceof Error && 'code' in error && (error.code === 'EACCES' || error.code === 'EPERM')))
        throw error
    }
  }
}

/** Writes without a thread. */
export function writeHere(disk: Disk, fd: number, buffers: readonly Buffer[], position: number): void {
  for (let rest = buffers, at = position; rest.length > 0;) {
    const bytes = disk.writevSync(fd, rest, at)
    at += bytes
    rest = without(rest, bytes)
  }
}

/** Resolves when all has been written. */
export async function writeAside(
  disk: Disk,
  fd: number,
  buffers: readonly Buffer[],
  position: number,
): Promise<void> {
  for (let rest = buffers, at = position; rest.length > 0;) {
    const bytes = await aside<number>((done) => disk.writev(fd, rest, at, done))
    at += bytes
    rest = without(rest, bytes)
  }
}

/** Resolves when what was written to a file is durable. */
export async function syncAside(disk: Disk, fd: number): Promise<void> {
  await aside((done) => disk.fdatasync(fd, done))
}

/** What is left of some buffers when their first bytes are gone. */
function without(buffers: readonly Buffer[], bytes: number): Buffer[] {
  let left = bytes
  return buffers.flatMap((buffer) => {
    const gone = Math.min(left, buffer.length)
    left -= gone
    return gone === buffer.length ? [] : buffer.subarray(gone)
  })
}
