import { encode } from '@atcute/cbor'
import type { Row, RowKind } from '@tributary/segment'
import type { SegmentDirectory } from '@tributary/segment/node'
import type { NewRow } from '../src/archive/archive.ts'
import { recordContent } from '../src/delivery/record-content.ts'

export interface RowWish {
  /** Tells rows apart in a test. */
  n: number
  kind?: RowKind
  did?: string
  collection?: string
  payloadBytes?: number
  witnessedAt?: number
}

/** A row as the ingest would append it. */
export function newRow({
  n,
  kind = 1,
  did = 'did:plc:a',
  collection = 'app.a.b',
  payloadBytes = 0,
  witnessedAt = 1_000_000 + n,
}: RowWish): NewRow {
  const isCommit = kind <= 3 || kind === 7
  const relay = { did, seq: n, time: '2026-01-01T00:00:00Z' }
  const body = isCommit ? { n, text: 'x'.repeat(payloadBytes) } : { ...relay, active: true, rev: 'r', n }
  const payload = kind === 3 ? new Uint8Array(0) : encode(body)
  const draft = {
    kind,
    witnessedAt,
    indexedAt: 0,
    collection: isCommit ? collection : '',
    did,
    rkey: isCommit ? `k${n}` : '',
    rev: `r${n}`,
    payload,
  }
  return isCommit && kind !== 3 ? { draft, content: Buffer.from(recordContent(payload)) } : { draft }
}

/** The `n` that a row was made with. */
export function numberOf(row: Row): number {
  return Number(row.rev.slice(1))
}

/** All rows that are in blocks, in order. */
export async function storedRows(
  segments: Pick<SegmentDirectory, 'firstBlockAfter' | 'readBlock'>,
): Promise<Row[]> {
  const rows: Row[] = []
  for (let seq = 0; ;) {
    const place = segments.firstBlockAfter(seq)
    if (!place) return rows
    rows.push(...(await segments.readBlock(place)).rows())
    seq = place.entry.maxSeq
  }
}
