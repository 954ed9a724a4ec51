import timers from 'node:timers/promises'

/** A turn of the event loop, as it was before a simulator put turns under virtual time. */
export const { setImmediate: turn } = timers
