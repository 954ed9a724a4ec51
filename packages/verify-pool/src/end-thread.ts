import type { Worker } from 'node:worker_threads'

/** How long a thread may take for what it has in hand. */
const endMsMax = 5000

/**
 * Asks a thread to end when it has done what it was sent before, by the message `'end'`, and resolves when it has ended.
 * A thread that is cut off within native code may end the whole process: only one that takes more than five seconds is.
 */
export async function endThread(thread: Worker): Promise<void> {
  const { promise: ended, resolve } = Promise.withResolvers<unknown>()
  thread.once('exit', resolve)
  thread.ref()
  thread.postMessage('end')
  const timer = setTimeout(() => void thread.terminate(), endMsMax)
  await ended
  clearTimeout(timer)
}
