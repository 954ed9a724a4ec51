import type { XrpcServer } from '@tributary/xrpc'
import type { Compaction } from '../compaction/compaction.ts'
import type { Coverage } from '../backfill/coverage.ts'

/** Adds `getCoverage`: what the archive has of which PDS, and what is not known, for everybody. */
export function serveCoverage(
  server: XrpcServer,
  coverage: Coverage,
  compaction: Pick<Compaction, 'pendingSegments'>,
): void {
  server.query<{ limit: number; cursor?: string }>(
    'network.social.stream.getCoverage',
    async ({ params: { limit, cursor = '' } }) => ({
      ...coverage.summary,
      pendingTakedownSegments: await compaction.pendingSegments(),
      ...coverage.page(cursor, limit),
    }),
  )
}
