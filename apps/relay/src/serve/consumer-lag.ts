import type { EventLog } from '@tributary/event-log'

/**
 * How old the oldest event is that a consumer at this position has not been sent, in seconds. 0 when it has been sent
 * everything. Undefined when memory does not reach back to it, for nothing is read from the disk here.
 */
export function lagSecondsAt(
  log: Pick<EventLog, 'visibleSeq' | 'readMemory'>,
  position: number,
  nowMs: number = Date.now(),
): number | undefined {
  if (position >= log.visibleSeq) return 0
  const next = log.readMemory(position, 1)?.[0]
  return next === undefined ? undefined : Math.max(0, Math.round((nowMs - next.timeMsAt(0)) / 1000))
}
