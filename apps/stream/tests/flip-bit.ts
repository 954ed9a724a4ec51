import { closeSync, openSync, readSync, writeSync } from 'node:fs'

/** Flips one bit of a file that may be open elsewhere. */
export function flipBit(path: string, at: number): void {
  const file = openSync(path, 'r+')
  const byte = Buffer.alloc(1)
  readSync(file, byte, 0, 1, at)
  writeSync(file, Buffer.of(byte.readUInt8() ^ 1), 0, 1, at)
  closeSync(file)
}
