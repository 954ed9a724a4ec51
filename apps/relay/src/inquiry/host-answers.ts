/** What hosts answer, read strictly: any host may send anything. */
import { encodeFrame, type Did, type Tid } from '@tributary/protocol'
import type { Identity, SafeResponse } from '@tributary/identity'
import { readRepoHead } from '@tributary/repo-verify'
import { statusOf } from '../state/account.ts'

/** The commit that an account's host has for it now, as a `#sync` frame with seq 1. */
export interface CurrentCommit {
  rev: Tid
  frame: Uint8Array
}

const inactiveErrors = new Map([
  ['RepoTakendown', 'takendown'],
  ['RepoSuspended', 'suspended'],
  ['RepoDeactivated', 'deactivated'],
  ['RepoNotFound', 'deleted'],
])

/**
 * What a host says of an account by its answer to `getRepoStatus`, in one word; `deleted` when the host does not know
 * the account. Undefined when the answer cannot be used.
 */
export function readStatus({ status: code, body }: SafeResponse, did: Did): string | undefined {
  const answer = readObject(body)
  if (code !== 200) return inactiveErrors.get(textOf(answer?.['error']) ?? '')
  const { active, status, did: named = did } = answer ?? {}
  return typeof active === 'boolean' && named === did
    ? statusOf({ active, status: textOf(status) })
    : undefined
}

/** Whether a host refuses to give a repository because the account is not active there. */
export function isInactiveAnswer({ status, body }: SafeResponse): boolean {
  return status >= 400 && inactiveErrors.has(textOf(readObject(body)?.['error']) ?? '')
}

/** A `#sync` of the commit in a CAR. Undefined when there is none that its account has signed. */
export function readCommit(
  { status, body }: SafeResponse,
  identity: Identity,
  nowMs: number,
): CurrentCommit | undefined {
  const { did, signingKey } = identity
  if (status !== 200 || !signingKey) return undefined
  const head = readRepoHead(body, { did, key: signingKey, nowMs })
  if (!head.ok) return undefined
  const { rev, car: blocks } = head
  const time = new Date(nowMs).toISOString()
  return { rev, frame: encodeFrame('#sync', { seq: 1, did, rev, blocks, time }) }
}

function readObject(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined // any object
  } catch {
    return undefined
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
