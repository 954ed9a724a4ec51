import type { Socket } from 'node:net'
import type { FanoutClock } from './clock.ts'

/** Destroys a socket that is still open after some time. Nothing of it is kept when it closes before. */
export function cutOffAfter(ms: number, socket: Socket, clock: FanoutClock): void {
  const timer = clock.after(ms, () => socket.destroy())
  socket.once('close', () => timer[Symbol.dispose]())
}
