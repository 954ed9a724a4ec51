import type { XrpcServer } from '@tributary/xrpc'
import type { Coverage } from '../backfill/coverage.ts'

/** Adds `getCoverage`: what the archive has of which PDS, and what is not known, for everybody. */
export function serveCoverage(server: XrpcServer, coverage: Coverage): void {
  server.query<{ limit: number; cursor?: string }>(
    'network.social.stream.getCoverage',
    ({ params: { limit, cursor = '' } }) => ({ ...coverage.summary, ...coverage.page(cursor, limit) }),
  )
}
