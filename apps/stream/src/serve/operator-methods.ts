/**
 * The operator API: `network.social.stream.admin.*`, for the holder of the operator token. Each change is stored with who
 * asked for it, takes effect at once, and may be asked for again with the same idempotency key.
 */
import { addAuditMethod, addProcedure, addQuery, datetime } from '@tributary/operations'
import { requireOperatorToken, XrpcError } from '@tributary/xrpc'
import type { Backfill } from '../backfill/backfill.ts'
import type { WatchedCollection, WatchedCollections } from '../policy/watched-collections.ts'
import { addBackupMethod } from './backup-method.ts'
import { addBackfillMethods } from './backfill-methods.ts'
import { addKeyMethods } from './key-methods.ts'
import { operatorPrefix as prefix, type OperatorParts } from './operator-parts.ts'
import { addRefusalMethod } from './refusal-method.ts'
import { addSubscriberMethods } from './subscriber-methods.ts'

/** Adds the methods that only the holder of the operator token may call. */
export function serveOperator(parts: OperatorParts): void {
  const { server, archive, operations, operatorToken, compaction } = parts
  requireOperatorToken(server, prefix, operatorToken)
  server.procedure(`${prefix}sealSegment`, async () => {
    const sealed = await archive.seal()
    const sealedSeq = archive.segments.sealed.at(-1)?.header.maxSeq ?? 0
    if (!sealed) return { sealedSeq }
    const { eventCount, minSeq, maxSeq } = sealed.header
    return { sealedSeq, segment: { name: sealed.name, eventCount, minSeq, maxSeq } }
  })
  addQuery(server, prefix, 'getCompaction', () => {
    const { endedAtMs, ...rest } = compaction.report
    return { ...rest, ...datetime('endedAt', endedAtMs) }
  })
  addProcedure(
    server,
    prefix,
    'compact',
    async (_: object, request) =>
      await operations.run(request, () => () => ({
        subject: 'the archive',
        output: {},
        effect: () => compaction.compact(),
      })),
  )
  addCollectionMethods(parts)
  addBackfillMethods(parts)
  addKeyMethods(parts)
  addSubscriberMethods(parts)
  addBackupMethod(parts)
  addRefusalMethod(parts)
  addAuditMethod(server, prefix, operations)
}

interface CollectionInput {
  collection: string
  expectedRevision?: number
}

/** Adds those that say what is watched. */
export function addCollectionMethods({
  server,
  watched,
  operations,
  backfill,
}: Pick<OperatorParts, 'server' | 'watched' | 'operations'> & { backfill: Pick<Backfill, 'begin'> }): void {
  const effect = (): void => watched.reload()
  addQuery(server, prefix, 'listCollections', () => ({
    revision: watched.revision,
    collections: watched.list().map(describe),
  }))
  addProcedure<CollectionInput>(
    server,
    prefix,
    'addCollection',
    async ({ collection, expectedRevision }, request) =>
      await operations.run(request, () => () => {
        refuseStale(watched, expectedRevision)
        const added = watched.add(collection, request.actor, Date.now())
        const output = { revision: added.addedRevision, collection: describe(added) }
        backfill.begin('collection-added', { collection, revision: added.addedRevision })
        return { subject: collection, after: output, output, effect }
      }),
  )
  addProcedure<CollectionInput>(
    server,
    prefix,
    'removeCollection',
    async ({ collection, expectedRevision }, request) =>
      await operations.run(request, () => () => {
        refuseStale(watched, expectedRevision)
        const removed = describe(watched.remove(collection))
        const output = { revision: watched.revision + 1, collection: removed }
        return { subject: collection, before: removed, output, effect }
      }),
  )
}

function describe({ collection, addedAtMs, addedRevision, actor }: WatchedCollection): object {
  return { collection, addedRevision, actor, ...datetime('addedAt', addedAtMs) }
}

/** @throws XrpcError 409 `RevisionConflict` */
function refuseStale({ revision }: WatchedCollections, expectedRevision: number | undefined): void {
  if (expectedRevision === undefined || expectedRevision === revision) return
  const message = `the watched collections are at revision ${revision}: look at them again`
  throw new XrpcError(409, 'RevisionConflict', message)
}
