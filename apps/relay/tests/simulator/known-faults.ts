/**
 * Faults that the relay is known to have: while one is listed here, what it breaks is not looked at. Nothing stands here
 * for long.
 */
export const knownFaults = {
  /** A crash takes the second looks at accounts that moved, or of which the directory said something wrong. */
  looksLostByCrash: true,
}
