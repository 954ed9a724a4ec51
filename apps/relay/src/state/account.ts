import { hash } from 'node:crypto'
import type { Did, Tid } from '@tributary/protocol'
import type { Digest, SigningKey } from '@tributary/repo-verify'
import type { UpstreamEvent } from '../sources/upstream-event.ts'

/** What the relay knows of one account, and the lane in which its events keep their order. */
export interface Account {
  readonly did: Did
  /** Names the account in the event log: the first 64 bits of the SHA-256 of its DID. */
  readonly logId: bigint
  /** Source that spoke for it last. 0 until an event of it has passed. */
  sourceId: number
  /** What its host says: `active`, or a reason why not. */
  upstreamStatus: string
  /** When it was left out because its host had no slot for it, in milliseconds since 1970. 0 when it is not. */
  throttledAtMs: number
  rev: Tid | undefined
  commit: Digest | undefined
  data: Digest | undefined
  /** An event did not continue what was stored. Internal; its events still pass. */
  isDesynchronized: boolean
  /** The key that the verifying thread has for it. */
  sentKey: SigningKey | undefined
  /** Events with the verifying thread. */
  inFlight: number
  /** Events that wait for the head of the lane, oldest first. */
  waiting: UpstreamEvent[]
  /** Events that came back and must be verified again, oldest first. Nothing of the lane starts while there are any. */
  returned: UpstreamEvent[]
  /** Bytes of `waiting` and `returned`. */
  waitingBytes: number
  /** The head of the lane waits for its identity. */
  isResolving: boolean
  /** Events of hosts that the account's document does not name, until it has been read again, oldest first. */
  aside: UpstreamEvent[]
}

export function newAccount(did: Did): Account {
  return {
    did,
    logId: hash('sha256', did, 'buffer').readBigUInt64LE(0),
    sourceId: 0,
    upstreamStatus: 'active',
    throttledAtMs: 0,
    rev: undefined,
    commit: undefined,
    data: undefined,
    isDesynchronized: false,
    sentKey: undefined,
    inFlight: 0,
    waiting: [],
    returned: [],
    waitingBytes: 0,
    isResolving: false,
    aside: [],
  }
}

/** What an `#account` event says of its account: `active`, or why not. */
export function statusOf({ active, status }: { active: boolean; status: string | undefined }): string {
  return active ? 'active' : (status ?? 'inactive')
}
