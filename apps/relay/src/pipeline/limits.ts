/** What may be under way in the pipeline. */
import type { LaneLimits } from '@tributary/lanes'

const megabyte = 1024 * 1024

/** Bytes with verifying threads and the log above which no source is read, and below which they are again. */
export const pressure = { high: 2 * megabyte, low: megabyte }

/** Bytes of an `#identity` or `#account`: both say little. */
export const plainBytesMax = 16 * 1024

/** What may wait for DID documents and answers of hosts. */
const laneLimits: LaneLimits = {
  eventsPerLane: 4000,
  bytesPerLane: 10_000_000,
  bytesPerSource: 16_000_000,
  bytes: 128 * megabyte,
  bytesAlways: 256 * 1024,
  // Where all accounts are new, they come faster than the directory gives their documents. Those of did:web do not count.
  lanesPerSource: { high: 128, low: 64 },
  soonMs: 2000,
  // As long as reading a DID document may take, and less than a hundredth of the time, for which other accounts wait.
  crowded: { share: 0.25, msMax: 5000, everyMs: 600_000 },
}

/**
 * Events of a source from its first that is not done: above `events` those are left out that are in the way for longer
 * than `waitMs`, which is as long as reading one DID document may take, and a little more. Above `eventsMax` the source
 * is not read.
 */
const pendingMax = { events: 4000, eventsMax: 20_000, waitMs: 10_000 }

export interface WaitLimits {
  lanes: LaneLimits
  pending: typeof pendingMax
}

export const waitLimits: WaitLimits = { lanes: laneLimits, pending: pendingMax }
