/**
 * Where a stream can be killed, by what it does then: each is a moment before, within or after one call that changes what
 * is on the disk, and which of these calls it is, counted from the moment at which the work is asked for.
 *
 * Each point kills once. Where a log goes on in a new file and takes its lease, the campaign of the relay kills a
 * process.
 */
import type { LogCrashPoint } from '@tributary/testkit/log-crash-points'

/** What a transaction of the state database stores. */
export type Stored = 'states' | 'pass' | 'takedown' | 'job' | 'policy' | 'key'

export type CrashPoint =
  | LogCrashPoint
  | `${'block' | 'seal' | 'new-segment' | 'compaction'}:${'written' | 'synced'}`
  | `${'new-segment' | 'compaction'}:${'before-rename' | 'renamed'}`
  | `${Stored}:${'before-commit' | 'committed'}`

export type Work = 'ingest' | 'seal' | 'compact' | 'take-down' | 'add-collection' | 'create-key'

export const crashPoints: Readonly<Record<Work, readonly (readonly [point: CrashPoint, at: number])[]>> = {
  ingest: [
    ['append:before', 1],
    ['append:half', 1],
    ['append:handed-over', 1],
    ['append:synced', 1],
    ['states:before-commit', 1],
    ['states:committed', 1],
  ],
  seal: [
    ['block:written', 1],
    ['block:synced', 1],
    // The footer; then comes the header.
    ['seal:written', 1],
    ['seal:synced', 1],
    ['new-segment:before-rename', 1],
    ['new-segment:renamed', 1],
  ],
  compact: [
    ['compaction:written', 1],
    ['compaction:before-rename', 1],
    ['compaction:renamed', 1],
    ['pass:before-commit', 1],
    ['pass:committed', 1],
    ['retention:before-delete', 1],
    ['retention:out-of-log', 1],
    ['retention:deleted', 1],
  ],
  'take-down': [
    ['takedown:before-commit', 1],
    ['takedown:committed', 1],
  ],
  // The job begins together with the policy; then come a page of its list and its repositories.
  'add-collection': [
    ['policy:before-commit', 1],
    ['policy:committed', 1],
    ['job:committed', 2],
    ['job:before-commit', 3],
  ],
  'create-key': [
    ['key:before-commit', 1],
    ['key:committed', 1],
  ],
}
