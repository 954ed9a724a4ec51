/**
 * The lease of sequence numbers: a number that no record has reached, durable before a record that comes near it is
 * written. A start after a kill or a power cut continues there, so that no number is ever given out twice.
 * Beside it stands the log's secret, durable before the first block that carries it. It is never shown to anyone.
 *
 * A copy of a log goes on at a number that follows the date, chosen at its first start. Such numbers grow far faster than
 * any log gives them out. So a copy repeats no number of the log that it was made of, and none of another copy that was
 * started before it, whichever of the two was made first.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Disk } from './disk.ts'
import { replaceFile } from './durable-file.ts'
import { LogCorruptError } from './errors.ts'

export interface Lease {
  /** The first number that was not reserved. */
  limit: number
  /** How far the newest log file was durable when the lease was written: at an orderly end that is all of it. */
  synced?: SyncedMark | undefined
  /** What every block of the log carries; 0 in a log that was begun before there were secrets. */
  secret: bigint
  /** The log is a copy, and no start has written to it yet. */
  isCopy?: boolean | undefined
}

/** Everything in this file before `bytes`, and all of the files before it, is known to be on the disk. */
export interface SyncedMark {
  file: string
  bytes: number
}

/** As it stands in the file: the secret in hexadecimal digits, left out when it is 0. */
type LeaseFile = Omit<Lease, 'secret'> & { secret?: string | undefined }

const fileName = 'lease'
/** How numbers of copies follow the date: a hundred thousand a second. */
const copySeqsPerMs = 100
/** A date after this one is wrong. Until then numbers stay below 10^15, which is the first cursor that a stream takes for a time. */
const dateMsMax = Date.UTC(2200, 0)
/**
 * Numbers that a copy leaves out when the date is wrong, or the log's numbers are that far ahead of it. A lease, which is a
 * second ahead at most, has no part in that: such a copy would get ahead of the date, and of copies that are started later.
 */
const skippedSeqs = 1_000_000_000

/** From which number on a copy may give them out, as far as that is known when it is made. */
export function limitOfCopy(limit: number, nowMs: number): number {
  const dated = limitByDate(nowMs)
  return dated === 0 || limit > dated + skippedSeqs ? limit + skippedSeqs : Math.max(limit, dated)
}

/** From which number on a log gives them out when it is opened. */
export function limitAtStart({ limit, isCopy = false }: Lease, nowMs: number): number {
  return isCopy ? Math.max(limit, limitByDate(nowMs)) : limit
}

/** 0 for a date that cannot be right. */
function limitByDate(nowMs: number): number {
  return nowMs > 0 && nowMs < dateMsMax ? Math.ceil(nowMs) * copySeqsPerMs : 0
}

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
  const { limit, synced, secret = '0000000000000000', isCopy } = lease
  if (typeof secret !== 'string' || !/^[0-9a-f]{16}$/.test(secret))
    throw new LogCorruptError(fileName, 0, 'its secret is not whole')
  return { limit, synced, secret: BigInt(`0x${secret}`), isCopy: isCopy === true }
}

/** The lease, or undefined when it is missing or cannot be read. */
export function readWholeLease(directory: string): Lease | undefined {
  try {
    return readLease(directory)
  } catch (error) {
    if (error instanceof LogCorruptError) return undefined
    throw error
  }
}

/** Durable when it resolves. One call for a log at a time. */
export async function writeLease(
  disk: Disk,
  directory: string,
  { limit, synced, secret, isCopy }: Lease,
): Promise<void> {
  const digits = secret === 0n ? undefined : secret.toString(16).padStart(16, '0')
  const file: LeaseFile = { limit, synced, secret: digits, isCopy: isCopy || undefined }
  await replaceFile(disk, directory, fileName, JSON.stringify(file))
}

function parse(text: string): LeaseFile | undefined {
  try {
    return JSON.parse(text) as LeaseFile | undefined // checked by the caller
  } catch {
    return undefined
  }
}
