import type { StreamStatus } from '@tributary/client/node'

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
    case 'info':
      return `the server says ${[status.name, status.message].filter(Boolean).join(': ')}`
    case 'malformed':
      return `skipped ${status.seq === undefined ? 'something' : `seq ${status.seq}`} that cannot be read: ${status.detail}`
  }
}
