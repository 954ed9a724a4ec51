/**
 * Waits of tests. Each has a limit, so that a wait in vain fails long before its test's own time is up, at the line
 * that waited, and says what there was instead.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { inspect } from 'node:util'

/** Far above what anything takes on a machine that is busy with other tests, and below the limit of a test. */
const limitMs = 60_000
/** So long between looks in the first second, and later a tenth of the time so far: a look may be a whole program. */
const lookAgainMs = { first: 20, max: 200, forMs: 1000 }
const seenCharsMax = 2000

/** What a test waited for did not come. */
class WaitedInVainError extends Error {
  override readonly name = 'WaitedInVainError'
}

/**
 * Looks every 20 ms, and after a second less often, until the condition holds. Throws what the condition throws.
 * @param seen what there is instead, for the message.
 * @throws WaitedInVainError after 60 s.
 */
export function eventually(isMet: () => boolean | Promise<boolean>, seen?: () => unknown): Promise<void> {
  const over = new AbortController()
  const look = async (): Promise<void> => {
    for (const beganMs = performance.now(); !over.signal.aborted && !(await isMet());)
      await pause(pauseMs(performance.now() - beganMs))
  }
  const inVain = waitedInVain(eventually, seen)
  return withLimit(look(), inVain).finally(() => over.abort())
}

/**
 * What the promise gives, if that comes in time.
 * @param seen what there is instead, for the message.
 * @throws WaitedInVainError after 60 s.
 */
export function inTime<T>(promise: Promise<T>, seen?: () => unknown): Promise<T> {
  return withLimit(promise, waitedInVain(inTime, seen))
}

function pauseMs(sinceMs: number): number {
  const { first, max, forMs } = lookAgainMs
  return sinceMs < forMs ? first : Math.min(max, sinceMs / 10)
}

async function withLimit<T>(promise: Promise<T>, inVain: () => Promise<Error>): Promise<T> {
  const limit = Promise.withResolvers<never>()
  const fail = async (): Promise<void> => limit.reject(await inVain())
  const timer = setTimeout(() => void fail(), limitMs)
  try {
    return await Promise.race([promise, limit.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** An error that is made later with the stack of now, which names the test's line. */
function waitedInVain(caller: (...args: never[]) => unknown, seen?: () => unknown): () => Promise<Error> {
  const here = { stack: '' }
  Error.captureStackTrace(here, caller)
  const frames = here.stack.slice(here.stack.indexOf('\n'))
  return async () => {
    const text = seen === undefined ? '' : `; there is: ${await describe(seen)}`
    const error = new WaitedInVainError(`waited in vain for ${limitMs / 1000} s${text}`)
    error.stack = `${error.name}: ${error.message}${frames}`
    return error
  }
}

async function describe(seen: () => unknown): Promise<string> {
  try {
    const value = await seen()
    const text = typeof value === 'string' ? value : inspect(value, { depth: 4, breakLength: Infinity })
    return text.length > seenCharsMax ? `${text.slice(0, seenCharsMax)} …` : text
  } catch (error) {
    return `nothing that can be said: ${String(error)}`
  }
}
