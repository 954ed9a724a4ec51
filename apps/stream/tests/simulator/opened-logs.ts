/**
 * Shows each log that is opened to whoever plays a script: an archive keeps its own to itself. It works by being imported,
 * which is why importing it has an effect.
 */
import { EventLog } from '@tributary/event-log'

const open = EventLog.open.bind(EventLog)
let onOpened: (log: EventLog) => void = () => {}

EventLog.open = async (options) => {
  const log = await open(options)
  onOpened(log)
  return log
}

/** Told of each log from now on. There is one at a time. */
export function onLogOpened(listener: (log: EventLog) => void): void {
  onOpened = listener
}
