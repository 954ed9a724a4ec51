import { join } from 'node:path'
import { EventLog, LogCorruptError } from '@tributary/event-log'
import type { RelaySettings } from './settings.ts'

/** Where the log of a relay is, within its data directory. */
function logDirectory(dataDirectory: string): string {
  return join(dataDirectory, 'log')
}

/**
 * Opens the relay's log as its settings say.
 * @throws Error that names the repair command when the log is damaged.
 */
export async function openLog(
  settings: Pick<
    RelaySettings,
    'dataDirectory' | 'logRetentionHours' | 'logRetentionBytes' | 'logVisible' | 'logFloorSeq'
  >,
  onSync: (syncMs: number) => void,
): Promise<EventLog> {
  const { dataDirectory, logRetentionBytes } = settings
  try {
    return await EventLog.open({
      directory: logDirectory(dataDirectory),
      retentionMs: settings.logRetentionHours * 3_600_000,
      ...(logRetentionBytes > 0 && { retentionBytes: logRetentionBytes }),
      floorSeq: settings.logFloorSeq,
      visible: settings.logVisible,
      onSync,
    })
  } catch (cause) {
    if (!(cause instanceof LogCorruptError)) throw cause
    const advice = `See all of the damage with "tributary relay log verify --data-directory ${dataDirectory}", then repair it with "tributary relay log repair --data-directory ${dataDirectory}"`
    throw new Error(`${cause.message}. ${advice}`, { cause })
  }
}
