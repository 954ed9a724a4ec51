import type { Writable } from 'node:stream'
import type { ClientEvent } from '@tributary/client/node'

/** Events as NDJSON: one JSON object a line, each with a line end. */
export function toLines(events: readonly ClientEvent[]): string {
  return events.map((event) => `${JSON.stringify(event)}\n`).join('')
}

/**
 * Writes and waits until the text has been taken. Resolves false when nobody reads any more (`| head`), which is no
 * error. Throws other failures.
 */
export async function writeOut(stream: Writable, text: string): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>()
  stream.write(text, (error) => {
    if (!error) resolve(true)
    else if ('code' in error && (error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED'))
      resolve(false)
    else reject(error)
  })
  return promise
}
