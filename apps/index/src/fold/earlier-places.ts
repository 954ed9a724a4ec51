/**
 * The places that records have in an index which is to be replaced by one that is built again. A stream's archive keeps the
 * newest content of a record and not how it came to be: the first `createdAt` of an edited record is only there.
 *
 * The earlier index has every event that is applied, and knows the last life of a record. If an event is of a life before
 * that, the record's end comes later in the stream, and its place goes with it.
 */
import type { IndexWriter } from '@tributary/index-store'

export interface Place {
  readonly cid: string
  readonly indexedAt: bigint
  readonly createdAt: bigint | null
}

export class EarlierPlaces {
  readonly #writer: IndexWriter

  constructor(writer: IndexWriter) {
    this.#writer = writer
  }

  /** The places of those records that are there, or that a marker took away and that may come back. */
  load(uris: readonly string[]): Promise<ReadonlyMap<string, Place>> {
    const columns = ['uri', 'cid', 'indexedAt', 'createdAt'] as const
    return this.#writer.write(async (batch) => {
      const away = await batch.load('superseded', uris, columns)
      const present = await batch.load('records', uris, columns)
      return new Map([...away, ...present].map(({ uri, ...place }) => [uri, place]))
    })
  }
}
