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

  /** Has a collection watched from now on, or not any more. @returns what is wrong with how that was taken. */
  async setWatched(collection: string, isWatched: boolean): Promise<string | undefined> {
    const { watched, sync } = this.#parts
    if (watched.has(collection) === isWatched) return undefined
    const { revision } = watched
    await this.#call(isWatched ? 'addCollection' : 'removeCollection', {
      collection,
      expectedRevision: revision,
    })
    // Another operator has looked at the revision before.
    const isTaken = await this.#call(isWatched ? 'removeCollection' : 'addCollection', {
      collection,
      expectedRevision: revision,
    }).then(
      () => true,
      () => false,
    )
    sync()
    if (watched.revision <= revision) return `a change of what is watched leaves it at revision ${revision}`
    return isTaken ? `a change of revision ${revision} is taken, which is over` : undefined
  }

  async #call(name: string, input: object): Promise<void> {
    const method = this.#methods.get(`${operatorPrefix}${name}`)
    if (!method) throw new Error('an operator has methods for collections')
    await method({ input })
  }
}
