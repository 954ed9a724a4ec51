import {
  addQuery,
  datetime,
  pageOf,
  parseIdCursor,
  refuseUnknownWord,
  type Page,
} from '@tributary/operations'
import { droppedOpReasons } from '../ingest/event-rows.ts'
import { eventRefusals } from '../ingest/ingest-observer.ts'
import { operatorPrefix, type OperatorParts } from './operator-parts.ts'

const reasons = [...eventRefusals, ...droppedOpReasons]

/** Adds the operator's list of what was refused. */
export function addRefusalMethod({ server, refusals }: OperatorParts): void {
  addQuery<Page & { reason?: string; did?: string }>(
    server,
    operatorPrefix,
    'listRefusals',
    ({ limit, cursor, reason, did }) => {
      refuseUnknownWord('reason', reason, reasons)
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
