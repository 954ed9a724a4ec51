import { CallerTurns, type XrpcServer } from '@tributary/xrpc'
import type { Compaction } from '../compaction/compaction.ts'
import type { Coverage } from '../backfill/coverage.ts'

/** A page of what the archive has of which PDS, as the method answers it. */
export type CoveragePage = Coverage['summary'] &
  Awaited<ReturnType<Coverage['page']>> & { pendingTakedownSegments: string[] }

/** @throws XrpcError 429 `RateLimitExceeded` when too many calls of one network wait. */
export type ReadCoverage = (caller: string, after: string, limit: number) => Promise<CoveragePage>

/** Reads coverage for everybody who asks: it looks at all jobs and segments, so callers take turns. */
export function coverageReader(
  coverage: Coverage,
  compaction: Pick<Compaction, 'pendingSegments'>,
): ReadCoverage {
  const turns = new CallerTurns()
  return (caller, after, limit) =>
    turns.run(caller, async () => {
      const page = await coverage.page(after, limit)
      const pendingTakedownSegments = await compaction.pendingSegments()
      return { ...coverage.summary, pendingTakedownSegments, ...page }
    })
}

/** Adds `getCoverage`. */
export function serveCoverage(server: XrpcServer, read: ReadCoverage): void {
  server.query<{ limit: number; cursor?: string }>(
    'network.social.stream.getCoverage',
    ({ params: { limit, cursor = '' }, clientAddress }) => read(clientAddress, cursor, limit),
  )
}
