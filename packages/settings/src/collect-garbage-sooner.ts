import { setFlagsFromString } from 'node:v8'

/**
 * When Node looks for garbage: buffers count like objects, and 40 % more of both than were in use after the last look are
 * enough. Node by itself lets 64 MB of buffers, and as much again of objects, become garbage on top of what is in use.
 * The semi-space counts for threads alone, since that of the main thread exists already: their objects die sooner.
 */
const garbageFlags =
  '--max-semi-space-size=4 --external-memory-accounted-in-global-limit --heap-growing-percent=40'

/** Makes this process take less memory, for a little more time. To be called before anything large is made. */
export function collectGarbageSooner(): void {
  setFlagsFromString(garbageFlags)
}
