/**
 * The lease of sequence numbers: a number that no record has reached, durable before a record that comes near it is
 * written. A start after a kill or a power cut continues there, so that no number is ever given out twice.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { replaceFile } from './durable-file.ts'
import { LogCorruptError } from './errors.ts'

export interface Lease {
  /** The first number that was not reserved. */
  limit: number
  /** How far the newest log file was durable when the lease was written: at an orderly end that is all of it. */
  synced?: SyncedMark | undefined
}

/** Everything in this file before `bytes`, and all of the files before it, is known to be on the disk. */
export interface SyncedMark {
  file: string
  bytes: number
}

const fileName = 'lease'

/**
 * Undefined when there is none: a log that was never written to.
 * @throws LogCorruptError when the file is not a lease.
 */
export function readLease(directory: string): Lease | undefined {
  let text: string
  try {
    text = readFileSync(join(directory, fileName), 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
  const lease = parse(text)
  if (!lease || !Number.isSafeInteger(lease.limit) || lease.limit < 0)
    throw new LogCorruptError(fileName, 0, 'it does not hold a sequence number')
  return lease
}

/** Durable when it returns. */
export function writeLease(directory: string, lease: Lease): void {
  replaceFile(directory, fileName, JSON.stringify(lease))
}

function parse(text: string): Lease | undefined {
  try {
    return JSON.parse(text) as Lease | undefined // checked by the caller
  } catch {
    return undefined
  }
}
