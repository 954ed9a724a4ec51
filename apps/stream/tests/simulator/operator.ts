/** An operator, who adds and removes collections through the methods as they are, without a server around them. */
import { Operations } from '@tributary/operations'
import type { XrpcServer } from '@tributary/xrpc'
import type { Backfill } from '../../src/backfill/backfill.ts'
import type { WatchedCollections } from '../../src/policy/watched-collections.ts'
import { addCollectionMethods } from '../../src/serve/operator-methods.ts'
import { operatorPrefix } from '../../src/serve/operator-parts.ts'
import type { StateDatabase } from '../../src/state-database.ts'

interface OperatorParts {
  database: StateDatabase
  /** What was committed outlasts a power cut. */
  sync: () => void
  watched: WatchedCollections
  backfill: Backfill
}

type Handler = (context: { input: object }) => Promise<unknown>

export class Operator {
  readonly #parts: OperatorParts
  readonly #methods = new Map<string, Handler>()

  constructor(parts: OperatorParts) {
    const { database, watched, backfill } = parts
    this.#parts = parts
    const server = {
      query: () => undefined,
      procedure: (name: string, handler: Handler) => void this.#methods.set(name, handler),
    }
    addCollectionMethods({
      server: server as unknown as XrpcServer, // all of a server that it uses
      watched,
      backfill,
      operations: new Operations(database),
    })
  }

  /** Has a collection watched from now on, or not any more. */
  async setWatched(collection: string, isWatched: boolean): Promise<void> {
    const { watched, sync } = this.#parts
    if (watched.has(collection) === isWatched) return
    const method = this.#methods.get(`${operatorPrefix}${isWatched ? 'addCollection' : 'removeCollection'}`)
    if (!method) throw new Error('an operator has methods for collections')
    await method({ input: { collection } })
    sync()
  }
}
