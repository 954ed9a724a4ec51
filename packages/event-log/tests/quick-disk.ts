import fs from 'node:fs'
import type { Disk } from '../src/disk.ts'

/** A real disk on which nothing is synced, for tests that are not about power. */
export const quickDisk: Disk = {
  ...fs,
  openSync: (path, flags) => fs.openSync(path, withoutSync(flags)),
  open: (path, flags, done) => fs.open(path, withoutSync(flags), done),
  fsyncSync: () => {},
  fsync: (_fd, done) => setImmediate(done, null),
}

function withoutSync(flags: string | number): string | number {
  return typeof flags === 'number' ? flags & ~fs.constants.O_DSYNC : flags
}
