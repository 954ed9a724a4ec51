import { addQuery, datetime, pageOf, parseIdCursor, type Page } from '@tributary/operations'
import { operatorPrefix, type OperatorParts } from './operator-parts.ts'

/** Adds the operator's list of what was refused. */
export function addRefusalMethod({ server, refusals }: OperatorParts): void {
  addQuery<Page & { reason?: string; did?: string }>(
    server,
    operatorPrefix,
    'listRefusals',
    ({ limit, cursor, reason, did }) => {
      const before = parseIdCursor(cursor, Number.MAX_SAFE_INTEGER)
      const rows = refusals.list({ reason, did, before, limit: limit + 1 })
      const { page, ...rest } = pageOf(rows, limit, ({ id }) => id)
      const described = page.map(({ atMs, kind, did: account, upstreamSeq, ...row }) => ({
        ...row,
        ...datetime('at', atMs),
        ...(kind !== null && { kind }),
        ...(account !== null && { did: account }),
        ...(upstreamSeq !== null && { upstreamSeq }),
      }))
      return { refusals: described, ...rest }
    },
  )
}
