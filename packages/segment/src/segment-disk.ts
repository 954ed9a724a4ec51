import { mkdir, open, rename, rm } from 'node:fs/promises'

/** An open file or directory, as `node:fs/promises` has it. */
export interface DiskHandle {
  write: (
    bytes: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ) => Promise<{ bytesWritten: number }>
  read: (
    bytes: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ) => Promise<{ bytesRead: number }>
  stat: () => Promise<{ size: number; mtimeMs: number }>
  truncate: (length: number) => Promise<void>
  utimes: (accessed: Date, modified: Date) => Promise<void>
  sync: () => Promise<void>
  datasync: () => Promise<void>
  close: () => Promise<void>
}

/** The calls by which segments change what is on a disk. A test may put a disk of its own here. */
export interface SegmentDisk {
  open: (path: string, flags: 'r' | 'r+' | 'w+') => Promise<DiskHandle>
  rename: (from: string, to: string) => Promise<void>
  rm: (path: string) => Promise<void>
  mkdir: (path: string, options: { recursive: true }) => Promise<string | undefined>
}

export const systemDisk: SegmentDisk = { open, rename, rm, mkdir }
