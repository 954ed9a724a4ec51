import fs from 'node:fs'

/** A file that is open for reading. */
export interface ReadHandle {
  read: (
    bytes: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ) => Promise<{ bytesRead: number }>
  close: () => Promise<void>
}

/**
 * The calls by which a log changes what is on a disk, and by which it reads for others while it goes on, as Node has
 * them. A test may put a disk of its own here.
 */
export interface Disk {
  openSync: (path: string, flags: string | number) => number
  open: (path: string, flags: string | number, done: (error: Error | null, fd: number) => void) => void
  closeSync: (fd: number) => void
  writevSync: (fd: number, buffers: readonly Buffer[], position: number) => number
  writev: (
    fd: number,
    buffers: readonly Buffer[],
    position: number,
    done: (error: Error | null, bytes: number) => void,
  ) => void
  fsyncSync: (fd: number) => void
  fsync: (fd: number, done: (error: Error | null) => void) => void
  fdatasync: (fd: number, done: (error: Error | null) => void) => void
  ftruncateSync: (fd: number, length: number) => void
  ftruncate: (fd: number, length: number, done: (error: Error | null) => void) => void
  writeFile: (path: string, text: string, done: (error: Error | null) => void) => void
  rename: (from: string, to: string, done: (error: Error | null) => void) => void
  rmSync: (path: string) => void
  unlink: (path: string, done: (error: Error | null) => void) => void
  copyFile: (from: string, to: string, mode: number, done: (error: Error | null) => void) => void
  promises: { open: (path: string, flags: 'r') => Promise<ReadHandle> }
  mkdirSync: (path: string, options: { recursive: true }) => string | undefined
}

/** Looked at with each call, so that whoever stands in for a function of Node is seen. */
export const systemDisk: Disk = fs
