import type { Writable } from 'node:stream'
import { jsonText } from '../print-json.ts'

/**
 * Writes and waits until the text has been taken. Resolves false when nobody reads any more (`| head`), which is no
 * error. Throws other failures.
 */
export async function writeOut(stream: Writable, text: string | Uint8Array): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>()
  stream.write(text, (error) => {
    if (!error) resolve(true)
    else if (hasLeft(error)) resolve(false)
    else reject(error)
  })
  return promise
}

/** Lines of JSON as they are written on stdout, a terminal or not. */
export function linesForOutput(bytes: Uint8Array): Uint8Array | string {
  return process.stdout.isTTY ? jsonText(Buffer.from(bytes).toString()) : bytes
}

/** Whether an error of an output says that its reader has left. */
export function hasLeft(error: Error): boolean {
  return 'code' in error && (error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED')
}
