import { destination, pino, stdTimeFunctions, type DestinationStream, type Logger } from 'pino'

export type { Logger }

/** Fields whose values never reach a log, wherever they stand in what is logged. */
const secretFields = ['authorization', 'password', 'token', 'apiKey', 'secret', 'jwt']

export interface LoggerOptions {
  /** Default 'info'. */
  level?: string
  /** Default stderr, written synchronously, so that the last line before an exit is not lost. */
  destination?: DestinationStream
}

/** A logger that writes one JSON object a line, with the service's name, an ISO time and the level as a word. */
export function createLogger(service: string, options: LoggerOptions = {}): Logger {
  return pino(
    {
      level: options.level ?? 'info',
      base: { service },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: {
        paths: secretFields.flatMap((field) => [field, `*.${field}`, `*.*.${field}`]),
        censor: '(not shown)',
      },
    },
    options.destination ?? destination({ fd: 2, sync: true }),
  )
}
