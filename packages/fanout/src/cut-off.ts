import type { Socket } from 'node:net'

/** Destroys a socket that is still open after some time. Nothing of it is kept when it closes before. */
export function cutOffAfter(ms: number, socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), ms).unref()
  socket.once('close', () => clearTimeout(timer))
}
