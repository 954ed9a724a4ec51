import fs from 'node:fs'
import type { Disk } from '../src/disk.ts'

/** A real disk on which nothing is synced, for tests that are not about power. */
export const quickDisk: Disk = {
  ...fs,
  openSync: (path, flags) =>
    fs.openSync(path, typeof flags === 'number' ? flags & ~fs.constants.O_DSYNC : flags),
  fsyncSync: () => {},
}
