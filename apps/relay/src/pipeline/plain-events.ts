/** `#identity` and `#account`: what they say, and in which form they are passed on. Fields that nobody knows survive. */
import { decodeFrame, encodeFrame } from '@tributary/protocol'
import { verifyEvent, type Refusal } from '@tributary/repo-verify'
import { publicStatus, statusOf, type Account, type PublicStatus } from '../state/account.ts'

/** A frame that is ready for the log. */
export interface PlainFrame {
  ok: true
  frame: Uint8Array
  /** Where the sender's seq lies in it. */
  seqStart: number
  seqEnd: number
}

/** What a host says of an account, not yet in the form in which it is passed on. */
export interface AccountClaim extends PlainFrame {
  said: PublicStatus
  /** The same in one word. */
  upstreamStatus: string
}

/** An `#identity` to pass on. @param handle the one that may be named; any other is left out. */
export function readIdentity(frame: Uint8Array, handle: string | undefined): PlainFrame | Refusal {
  const read = readPlain(frame)
  if (!read.ok) return read
  if (read.kind !== 'identity') return notA('identity')
  if (read.handle === undefined || read.handle === handle) return { ...read, frame }
  const { handle: _, ...body } = decodeFrame(frame).body
  return located(encodeFrame('#identity', body))
}

export function readAccount(frame: Uint8Array): AccountClaim | Refusal {
  const read = readPlain(frame)
  if (!read.ok) return read
  if (read.kind !== 'account') return notA('account')
  const { active, status, seqStart, seqEnd } = read
  const said = { active, status }
  return { ok: true, frame, seqStart, seqEnd, said, upstreamStatus: statusOf(said) }
}

/** An `#account` to pass on: as it came where that is what this relay says too, else with our word in its place. */
export function accountToPassOn(claim: AccountClaim, account: Account): PlainFrame {
  const ours = publicStatus(account)
  const { said } = claim
  if (said.active === ours.active && said.status === ours.status) return claim
  const { active: _, status: __, ...body } = decodeFrame(claim.frame).body
  return located(encodeFrame('#account', { ...body, ...ours }))
}

/** An `#account` of our own. */
export function ownAccountFrame(account: Account, nowMs: number): PlainFrame {
  const time = new Date(nowMs).toISOString()
  return located(encodeFrame('#account', { seq: 1, did: account.did, time, ...publicStatus(account) }))
}

function readPlain(frame: Uint8Array) {
  return verifyEvent(frame, { key: undefined, nowMs: 0, strict: true })
}

/** Finds the seq in a frame that we have encoded. */
function located(frame: Uint8Array): PlainFrame {
  const read = readPlain(frame)
  if (!read.ok || !('seqStart' in read)) throw new Error('a frame of our own cannot be read')
  return { ok: true, frame, seqStart: read.seqStart, seqEnd: read.seqEnd }
}

function notA(kind: string): Refusal {
  return { ok: false, reason: 'malformed-event', detail: `not an ${kind} event` }
}
