/** The handlers of an indexer: which events they are for, and the call of the right one. */
import {
  type AccountEvent,
  type CommitEvent,
  compileCollections,
  type EventFilter,
  type EventKind,
  type IdentityEvent,
  type StreamEvent,
  type SyncEvent,
} from '@tributary/protocol'
import { StreamError } from '../errors.ts'
import { type RecordSchema, validRecord } from '../typed-record.ts'

export interface HandlerContext {
  /** Aborted when the run is to end. */
  signal: AbortSignal
  /** 1 for the first attempt of this run. */
  attempt: number
}

/** A created or updated record. */
export interface PutEvent<R> extends Omit<CommitEvent, 'operation' | 'cid' | 'record'> {
  operation: 'create' | 'update'
  cid: string
  /** As the lexicon of the handler has it, else any map. */
  record: unknown extends R ? Record<string, unknown> : R
}

/** A deleted record. */
export interface DeleteEvent extends Omit<CommitEvent, 'operation' | 'cid' | 'record'> {
  operation: 'delete'
}

/**
 * A handler may be called again with the same event. It fails by throwing or rejecting: with `InvalidRecordError` for what it
 * will never take, which is reported and left out.
 */
export type Handler<E> = (event: E, context: HandlerContext) => unknown

/** What is done with the records of a collection. An event without a handler counts as dealt with. */
export interface RecordHandlers<R = Record<string, unknown>> {
  /** Records that do not fit are reported, and left out. */
  lexicon?: RecordSchema<R>
  put?: Handler<PutEvent<R>>
  delete?: Handler<DeleteEvent>
}

/** `C` maps collections to the types of their records. */
export interface Handlers<C = Record<string, Record<string, unknown>>> {
  /**
   * By collection, or by a pattern such as `org.impact.*`. A record goes to one of them only: to that of its collection, else
   * to that of the longest pattern that fits.
   */
  collections?: { [K in keyof C]: RecordHandlers<C[K]> }
  identity?: Handler<IdentityEvent>
  /** Without it, records of accounts that are deleted or deactivated stay. */
  account?: Handler<AccountEvent>
  sync?: Handler<SyncEvent>
}

export interface CompiledHandlers {
  /** The events that there are handlers for. */
  filter: EventFilter
  /** Calls the handler of an event, if there is one. Rejects with what it throws, or with `InvalidRecordError`. */
  handle(event: StreamEvent, context: HandlerContext): Promise<void>
}

/** @throws StreamError `InvalidRequest` when there is no handler. */
export function compileHandlers<C>({ collections, ...markers }: Handlers<C>): CompiledHandlers {
  // Only the types of the records are lost.
  const byCollection = new Map<string, RecordHandlers>(Object.entries(collections ?? {}))
  const kinds: EventKind[] = byCollection.size > 0 ? ['commit'] : []
  for (const kind of ['identity', 'account', 'sync'] as const) if (markers[kind]) kinds.push(kind)
  if (kinds.length === 0) throw new StreamError('InvalidRequest', 'an indexer needs at least one handler')
  const patterns = [...byCollection.keys()]
    .filter((name) => name.endsWith('.*'))
    .toSorted((one, other) => other.length - one.length)
    .map((name) => ({ name, fits: compileCollections([name]) }))
  const handlersOf = (collection: string): RecordHandlers | undefined =>
    byCollection.get(collection) ??
    byCollection.get(patterns.find(({ fits }) => fits(collection))?.name ?? '')

  const handle = async (event: StreamEvent, context: HandlerContext): Promise<void> => {
    switch (event.kind) {
      case 'commit':
        return await handleCommit(handlersOf(event.collection), event, context)
      case 'identity':
        return void (await markers.identity?.(event, context))
      case 'account':
        return void (await markers.account?.(event, context))
      case 'sync':
        return void (await markers.sync?.(event, context))
    }
  }
  return { filter: { kinds, collections: [...byCollection.keys()] }, handle }
}

async function handleCommit(
  handlers: RecordHandlers | undefined,
  { operation, cid = '', record = {}, ...event }: CommitEvent,
  context: HandlerContext,
): Promise<void> {
  if (operation === 'delete') {
    await handlers?.delete?.({ ...event, operation }, context)
    return
  }
  if (!handlers?.put) return
  const valid = handlers.lexicon ? await validRecord(record, handlers.lexicon) : record
  await handlers.put({ ...event, operation, cid, record: valid }, context)
}
