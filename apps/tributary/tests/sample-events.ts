/** Events as the client gives them, for tests of what is written from them. */
import type { ClientEvent } from '@tributary/client/node'
import type { Did, Nsid, RecordKey } from '@tributary/protocol'

export const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' as Did // it is one
export const time = '2026-01-01T00:00:00.000000Z'

export function identityEvents(...seqs: number[]): ClientEvent[] {
  return seqs.map((seq) => ({ kind: 'identity', seq, did, time, identity: { did, seq, time } }))
}

/** A create of the record, or a delete without one. */
export function commitEvent(seq: number, rkey: string, record?: Record<string, unknown>): ClientEvent {
  return {
    kind: 'commit',
    seq,
    did,
    time,
    rev: '3migo7fijwi2k',
    operation: record ? 'create' : 'delete',
    collection: 'org.impact.claim.activity' as Nsid, // it is one
    rkey: rkey as RecordKey, // as tests give them
    ...(record && { cid: 'bafycid', record }),
  }
}
