import { closeSync, fsyncSync, openSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** Replaces a small file so that a power cut leaves either the old or the new text. */
export function replaceFile(directory: string, name: string, text: string): void {
  const temporary = join(directory, `${name}.tmp`)
  const fd = openSync(temporary, 'w')
  writeSync(fd, text)
  fsyncSync(fd)
  closeSync(fd)
  renameSync(temporary, join(directory, name))
  syncDirectory(directory)
}

/** Makes files that were created or renamed in a directory durable. */
export function syncDirectory(directory: string): void {
  const fd = openSync(directory, 'r')
  fsyncSync(fd)
  closeSync(fd)
}
