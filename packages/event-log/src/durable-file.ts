import { dirname, join, resolve } from 'node:path'
import type { Disk } from './disk.ts'

/** Replaces a small file so that a power cut leaves either the old or the new text. */
export function replaceFile(disk: Disk, directory: string, name: string, text: string): void {
  const temporary = join(directory, `${name}.tmp`)
  const fd = disk.openSync(temporary, 'w')
  try {
    writeHere(disk, fd, [Buffer.from(text)], 0)
    disk.fsyncSync(fd)
  } finally {
    disk.closeSync(fd)
  }
  disk.renameSync(temporary, join(directory, name))
  syncDirectory(disk, directory)
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
    const bytes = await new Promise<number>((resolve, reject) =>
      disk.writev(fd, rest, at, (error, bytes) => (error ? reject(error) : resolve(bytes))),
    )
    at += bytes
    rest = without(rest, bytes)
  }
}

/** Resolves when what was written to a file is durable. */
export function syncAside(disk: Disk, fd: number): Promise<void> {
  return new Promise((resolve, reject) => disk.fdatasync(fd, (error) => (error ? reject(error) : resolve())))
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
