import { CallerTurns, type XrpcServer } from '@tributary/xrpc'
import type { Compaction } from '../compaction/compaction.ts'
import type { Coverage } from '../backfill/coverage.ts'

/** A page of what the archive has of which PDS, as the method answers it. */
export type CoveragePage = Coverage['summary'] &
  ReturnType<Coverage['page']> & { pendingTakedownSegments: string[] }

/** @throws XrpcError 429 `RateLimitExceeded` when too many calls of one network wait. */
export type ReadCoverage = (caller: string, after: string, limit: number) => Promise<CoveragePage>

/** Reads coverage for everybody who asks: it looks at all jobs and segments, so callers take turns. */
export function coverageReader(
  coverage: Coverage,
  compaction: Pick<Compaction, 'pendingSegments'>,
): ReadCoverage {
  const turns = new CallerTurns()
  return (caller, after, limit) =>
    turns.run(caller, async () => ({
      ...coverage.summary,
      pendingTakedownSegments: await compaction.pendingSegments(),
      ...coverage.page(after, limit),
    }))
}

/** Adds `getCoverage`. */
export function serveCoverage(server: XrpcServer, read: ReadCoverage): void {
  server.query<{ limit: number; cursor?: string }>(
    'network.social.stream.getCoverage',
    ({ params: { limit, cursor = '' }, clientAddress }) => read(clientAddress, cursor, limit),
  )
}
