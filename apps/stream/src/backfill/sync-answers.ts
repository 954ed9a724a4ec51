/** What hosts and relays answer to the queries of `com.atproto.sync`, read strictly: anybody may send anything. */
import { type Did, isDid, isTid } from '@tributary/protocol'
import { isHidden } from '../delivery/hidden-accounts.ts'
import type { AccountWord } from '../ingest/account-corrections.ts'
import { type HostAnswer, HostAwayError, OversizeError } from './host-requests.ts'

/** A page of an answer is not what the method's lexicon says. */
export class BadAnswerError extends Error {
  override readonly name = 'BadAnswerError'
}

export interface ListedRepo {
  did: Did
  /** Empty when what its host says of it is no revision. */
  rev: string
  /** Why it cannot be had; undefined for an active one. */
  inactive: string | undefined
}

export interface ListedHost {
  hostname: string
  isBanned: boolean
}

/** One page of a list. */
export interface AnswerPage<T> {
  rows: T[]
  /** Undefined on the last page. */
  cursor: string | undefined
}

/** Five times what 500 repositories or 1000 hosts take. `JSON.parse` holds the event loop for up to 50 ms with it. */
export const pageBounds = { bytesMax: 256 * 1024, timeoutMs: 30_000 }
const cursorCharsMax = 2048
/** Rows of a page: the most that these methods may be asked for. */
const rowsMax = 1000
/** Names of errors with which a host says that an account is not available now. */
const inactiveErrors = new Map([
  ['RepoTakendown', 'takendown'],
  ['RepoSuspended', 'suspended'],
  ['RepoDeactivated', 'deactivated'],
  ['RepoNotFound', 'deleted'],
  ['RepoInactive', 'inactive'],
])
const wordCharsMax = 64

/** Whether somebody who was asked does not answer, or answers with what cannot be used. */
export function isAnswerFault(error: unknown): error is Error {
  return error instanceof HostAwayError || error instanceof BadAnswerError || error instanceof OversizeError
}

/** What asks for the page after a cursor, at the end of a query. */
export function cursorParam(cursor: string): string {
  return cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
}

/**
 * The cursor of the page after one. Undefined after the last page, which may name the cursor again that it was asked with.
 * @param cursor of the page, as it was asked for.
 * @throws BadAnswerError when a page with rows does so: they would come again without end, and others never.
 */
export function nextCursor({ rows, cursor: next }: AnswerPage<unknown>, cursor: string): string | undefined {
  if (next !== cursor) return next
  if (rows.length > 0) throw new BadAnswerError('answered with a page and the cursor that it was asked with')
  return undefined
}

/** @throws BadAnswerError. Repositories without a possible DID are left out. */
export function readListRepos(answer: HostAnswer): AnswerPage<ListedRepo> {
  return readPage(answer, 'repos', ({ did, rev, active, status }) => {
    if (typeof did !== 'string' || !isDid(did)) return undefined
    return { did, rev: revOf(rev), inactive: inactiveOf(active, status) }
  })
}

/** @throws BadAnswerError */
export function readListHosts(answer: HostAnswer): AnswerPage<ListedHost> {
  return readPage(answer, 'hosts', ({ hostname, status }) =>
    typeof hostname === 'string' ? { hostname, isBanned: status === 'banned' } : undefined,
  )
}

/** Why an account is not active. Undefined when it is, or when the answer does not tell. */
export function readInactive({ status, body }: HostAnswer): string | undefined {
  const answer = objectOf(body)
  if (status !== 200) {
    const error = answer?.['error']
    return typeof error === 'string' ? inactiveErrors.get(error) : undefined
  }
  return inactiveOf(answer?.['active'], answer?.['status'])
}

/** How an account is, as the one says who was asked. Undefined when the answer does not tell. */
export function readAccountWord({ status, body }: HostAnswer): AccountWord | undefined {
  const { active, status: word } = (status === 200 ? objectOf(body) : undefined) ?? {}
  if (typeof active !== 'boolean') return undefined
  return { active, status: word === undefined ? undefined : wordOf(word) }
}

/** The newest revision that the service which was asked knows of the account. Empty when the answer does not tell. */
export function readAccountRev({ status, body }: HostAnswer): string {
  return revOf((status === 200 ? objectOf(body) : undefined)?.['rev'])
}

/** A relay that lost track of an account, or slows it down, calls it inactive too. Its host has the repository all the same. */
function inactiveOf(active: unknown, status: unknown): string | undefined {
  return active === false && isHidden({ active, status }) ? wordOf(status) : undefined
}

function readPage<T>(
  { status, body }: HostAnswer,
  key: string,
  read: (row: Record<string, unknown>) => T | undefined,
): AnswerPage<T> {
  const answer = objectOf(body)
  const rows = answer?.[key]
  if (status !== 200 || !Array.isArray(rows)) {
    const { error } = answer ?? {}
    const said = typeof error === 'string' ? ` ${wordOf(error)}` : ''
    throw new BadAnswerError(`answered with ${status}${said}, and no ${key}`)
  }
  if (rows.length > rowsMax) throw new BadAnswerError(`answered with ${rows.length} ${key} at once`)
  return {
    rows: rows.flatMap((row: unknown) => (isObject(row) ? (read(row) ?? []) : [])),
    cursor: cursorOf(answer?.['cursor']),
  }
}

/** What comes after a cursor that cannot be sent back, as half of a pair of surrogates, is never known. */
function cursorOf(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  if (typeof value === 'string' && value.length <= cursorCharsMax && value.isWellFormed()) return value
  throw new BadAnswerError('answered with a cursor that cannot be used')
}

/** Hosts choose the words, and operators see them. */
function wordOf(value: unknown): string {
  const word = typeof value === 'string' ? value.replace(/[^\w-]/g, '').slice(0, wordCharsMax) : ''
  return word === '' ? 'inactive' : word
}

function revOf(value: unknown): string {
  return typeof value === 'string' && isTid(value) ? value : ''
}

function objectOf(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
