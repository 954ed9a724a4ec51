import { logCrashPoints } from '@tributary/testkit/log-crash-points'

/**
 * Where a relay can be killed, in the order of an event's way: each is a moment before, within or after one call that
 * changes what is on the disk or what others have been told.
 */
export const crashPoints = [
  ...logCrashPoints,
  'state:before',
  'state:before-commit',
  'state:committed',
  'broadcast:before',
  'broadcast:written',
  'acknowledge:before',
  'acknowledge:handed-over',
] as const

export type CrashPoint = (typeof crashPoints)[number]

/** How often a relay passes a point soon after its start: the kill comes at one of these times. */
export function timesUntil(point: CrashPoint): number {
  if (/^(append|broadcast):/.test(point)) return 20
  return point.startsWith('lease:') ? 1 : 2
}
