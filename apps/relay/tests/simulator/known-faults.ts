/**
 * Faults that the relay is known to have: while one is listed here, what it breaks is not looked at. Nothing stands here
 * for long.
 */
export const knownFaults = {
  /** After a crash an event that was refused before may be logged, after later events of its account. */
  judgedAgainAfterCrash: true,
  /** After a crash an older DID document may be the stored one, so that the host before speaks again. */
  olderDocumentAfterCrash: true,
  /** What is left out around a move or a new key, or while the directory is wrong, is not always made up for. */
  leftOutByDocument: true,
}
