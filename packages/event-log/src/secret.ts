import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { BlockSearch, Crc } from './block.ts'
import type { Lease } from './lease.ts'
import { logFileNames } from './log-files.ts'
import { secretOfFile } from './scan-file.ts'

/**
 * How the blocks of a log are told from what is only made to look like them. Its secret is that of the lease; when that
 * is lost, of the oldest file that begins with a block, for nobody but the log writes there; otherwise a new one, which
 * no block carries yet.
 */
export function blockSearchOf(directory: string, lease: Lease | undefined, crc: Crc): BlockSearch {
  const secret = lease?.secret ?? secretOfFiles(directory, crc) ?? newSecret()
  // A block with the secret counts even above the lease: it is the lease that is too old then, and the log says so.
  return { secret, seqLimit: secret === 0n ? (lease?.limit ?? Infinity) : Infinity }
}

function secretOfFiles(directory: string, crc: Crc): bigint | undefined {
  for (const name of logFileNames(directory)) {
    const secret = secretOfFile(join(directory, name), crc)
    if (secret !== undefined) return secret
  }
  return undefined
}

function newSecret(): bigint {
  // 0 stands for none.
  return randomBytes(8).readBigUInt64LE() || 1n
}
