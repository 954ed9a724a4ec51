/** `#identity` and `#account`: in which form they are passed on. Fields that nobody knows survive. */
import { encode } from '@atcute/cbor'
import { encodeFrame } from '@tributary/protocol'
import { readMessage, withFields, type AccountMessage, type IdentityMessage } from '@tributary/repo-verify'
import { publicStatus, type Account } from '../state/account.ts'

/** A message that is ready for the log. */
export interface LogMessage {
  bytes: Buffer
  /** Where the sender's seq lies in it. */
  seqStart: number
  seqEnd: number
}

/** An `#identity` to pass on. @param handle the one that may be named; any other is left out. */
export function identityToPassOn(message: IdentityMessage, handle: string | undefined): LogMessage {
  if (message.handle === undefined || message.handle === handle) return message
  return located(withFields(message, new Map([['handle', undefined]])))
}

/** An `#account` to pass on: as it came where that is what this relay says too, else with our word in its place. */
export function accountToPassOn(message: AccountMessage, account: Account): LogMessage {
  const { active, status } = publicStatus(account)
  if (message.active === active && message.status === status) return message
  const fields = new Map([
    ['active', encode(active)],
    ['status', status === undefined ? undefined : encode(status)],
  ])
  return located(withFields(message, fields))
}

/** An `#account` of our own. */
export function ownAccountMessage(account: Account, nowMs: number): LogMessage {
  const time = new Date(nowMs).toISOString()
  return located(encodeFrame('#account', { seq: 1, did: account.did, time, ...publicStatus(account) }))
}

/** Finds the seq in a message that we have written. */
function located(bytes: Uint8Array): LogMessage {
  const message = readMessage(bytes)
  if (!message.ok || (message.kind !== 'identity' && message.kind !== 'account'))
    throw new Error('a message of our own cannot be read')
  return message
}
