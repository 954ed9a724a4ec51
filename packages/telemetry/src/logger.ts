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

/** Lines of one text that are written in a minute. Others can bring about most lines, and a loop would fill the disk. */
const linesMax = 100
const minuteMs = 60_000
/** As pino counts them. */
const levels = { info: 30, fatal: 60 }

/**
 * A logger that writes one JSON object a line, with the service's name, an ISO time and the level as a word. A minute has
 * at most 100 lines of one text, and then a line with how many were left out. Lines of `debug` and `fatal` have no limit:
 * operators ask for the former, and the latter end the process. Texts must be few, so no text holds a value.
 */
export function createLogger(service: string, options: LoggerOptions = {}): Logger {
  /** Lines of this minute, by text. */
  const lines = new Map<string, number>()
  const endMinute = (text: string): void => {
    const leftOut = (lines.get(text) ?? 0) - linesMax
    lines.delete(text)
    if (leftOut > 0) logger.warn({ leftOut, text }, 'lines of one text were left out for a minute')
  }
  const isOver = (text: string): boolean => {
    const count = (lines.get(text) ?? 0) + 1
    lines.set(text, count)
    if (count === 1) setTimeout(endMinute, minuteMs, text).unref()
    return count > linesMax
  }
  const logger = pino(
    {
      level: options.level ?? 'info',
      base: { service },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      hooks: {
        logMethod(args, write, level) {
          const isCounted = level >= levels.info && level < levels.fatal
          if (isCounted && isOver(args.find((each) => typeof each === 'string') ?? '')) return
          write.apply(this, args)
        },
      },
      redact: {
        paths: secretFields.flatMap((field) => [field, `*.${field}`, `*.*.${field}`]),
        censor: '(not shown)',
      },
    },
    options.destination ?? destination({ fd: 2, sync: true }),
  )
  return logger
}
