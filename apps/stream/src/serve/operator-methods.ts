import { requireOperatorToken, type XrpcServer } from '@tributary/xrpc'
import type { Archive } from '../archive/archive.ts'

/** Adds the methods that only the holder of the operator token may call. */
export function serveOperator(server: XrpcServer, archive: Archive, operatorToken: string): void {
  const nsid = 'network.social.stream.admin.sealSegment'
  requireOperatorToken(server, nsid, operatorToken)
  server.procedure(nsid, async () => {
    const sealed = await archive.seal()
    if (!sealed) return {}
    const { eventCount, minSeq, maxSeq } = sealed.header
    return { segment: { name: sealed.name, eventCount, minSeq, maxSeq } }
  })
}
