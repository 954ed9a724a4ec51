/** What the event log calls each type of message. Stored on disk: numbers are never given a new meaning. */
export const recordKinds: Record<string, number | undefined> = {
  '#commit': 1,
  '#sync': 2,
  '#identity': 3,
  '#account': 4,
}
