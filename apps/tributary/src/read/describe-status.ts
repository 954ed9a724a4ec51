import type { StreamGap, StreamStatus } from '@tributary/client/node'

/** A status for a person to read, or undefined for those that only a progress bar shows. */
export function describeStatus(status: StreamStatus): string | undefined {
  switch (status.type) {
    case 'planning':
    case 'downloading':
      return undefined
    case 'connecting':
      return 'connecting'
    case 'live':
      return 'connected'
    case 'reconnecting':
      return `${status.detail}; trying again in ${(status.delayMs / 1000).toFixed(1)} s`
    case 'refilling':
      return `too far behind for the live stream, filling up from the archive after seq ${status.cursor}`
    case 'uncompressed':
      return `messages come uncompressed: ${status.detail}`
    case 'info':
      return `the server says ${[status.name, status.message].filter(Boolean).join(': ')}`
    // The batch has it as a gap.
    case 'malformed':
      return undefined
  }
}

/** What is missing, for a person to read. */
export function describeGap({ afterSeq, throughSeq, detail }: StreamGap): string {
  const where =
    throughSeq === undefined ? `after seq ${afterSeq}` : `after seq ${afterSeq} through seq ${throughSeq}`
  return `events ${where} are left out, because they cannot be read: ${detail}`
}
