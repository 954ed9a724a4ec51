/**
 * The places that records have in an index which is to be replaced by one that is built again. A stream's archive keeps the
 * newest content of a record and not how it came to be: the first `createdAt` of an edited record is only there.
 *
 * The earlier index knows the last life of a record. If an event is of a life before that, the record's end comes later in
 * the stream, and its place goes with it.
 */
import type { IndexWriter } from '@tributary/index-store'

export interface Place {
  readonly cid: string
  readonly indexedAt: bigint
  readonly createdAt: bigint | null
}

export interface LoadedPlaces {
  /** Events up to here are in the earlier index, and its places count for them. */
  readonly throughSeq: number
  readonly places: ReadonlyMap<string, Place>
}

export class EarlierPlaces {
  readonly #writer: IndexWriter
  readonly #source: string | undefined

  /** @param source the stream of both; undefined when the earlier index has followed another one, and its places always count */
  constructor(writer: IndexWriter, source: string | undefined) {
    this.#writer = writer
    this.#source = source
  }

  /** The places of those records that are there, or that a marker took away and that may come back. */
  load(uris: readonly string[]): Promise<LoadedPlaces> {
    const columns = ['uri', 'cid', 'indexedAt', 'createdAt'] as const
    return this.#writer.write(async (batch) => {
      const [cursor] = this.#source === undefined ? [] : await batch.load('cursors', [this.#source])
      const away = await batch.load('superseded', uris, columns)
      const present = await batch.load('records', uris, columns)
      return {
        throughSeq: this.#source === undefined ? Infinity : Number(cursor?.cursor ?? 0n),
        places: new Map([...away, ...present].map(({ uri, ...place }) => [uri, place])),
      }
    })
  }
}
