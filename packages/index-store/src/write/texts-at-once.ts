/** Which records are read together when their text is wanted: a turn of the event loop reads and parses so much. */
const bytesPerStep = 500_000
const rowsPerStep = 50

export interface TextSize {
  readonly uri: string
  /** SQLite gives a bigint. */
  readonly bytes: bigint | number
}

/** Addresses of records to be read by one statement. A record with more than a step takes has one of its own. */
export function* textsAtOnce(records: readonly TextSize[]): Generator<string[]> {
  let [uris, waiting]: [string[], number] = [[], 0]
  for (const { uri, bytes } of records) {
    const isFull = uris.length === rowsPerStep || waiting + Number(bytes) > bytesPerStep
    if (isFull && uris.length > 0) {
      yield uris
      ;[uris, waiting] = [[], 0]
    }
    uris.push(uri)
    waiting += Number(bytes)
  }
  if (uris.length > 0) yield uris
}
