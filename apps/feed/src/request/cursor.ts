/**
 * The paging cursor (feed.md section 8): the place of the last selected record, as base64url of JSON. It carries
 * no signature; a caller who makes one up only chooses where the page starts.
 */
import { formatDatetime, parseDatetime, type Position } from '@tributary/index-store'
import { isAtUri } from '@tributary/protocol'
import { invalidCursor } from './refusal.ts'

const alphabet = /^[A-Za-z0-9_-]+$/
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** The cursor that continues after `last` in the feed `feedId`. */
export function writeCursor(feedId: string, last: Position): string {
  const value = { value: formatDatetime(last.feedTime), uri: last.uri }
  return Buffer.from(JSON.stringify({ version: 1, feedId, value })).toString('base64url')
}

/** Reads a cursor of the feed `feedId`. Throws `InvalidCursor` for anything that this feed does not write. */
export function readCursor(text: string, feedId: string): Position {
  const cursor = decode(text)
  if (!hasExactly(cursor, ['version', 'feedId', 'value'])) throw invalidCursor()
  if (cursor['version'] !== 1 || cursor['feedId'] !== feedId) throw invalidCursor()
  const place = cursor['value']
  if (!hasExactly(place, ['value', 'uri'])) throw invalidCursor()
  const feedTime = parseDatetime(place['value'])
  const { uri } = place
  if (feedTime === undefined || !isAtUri(uri)) throw invalidCursor()
  return { feedTime, uri }
}

function decode(text: string): unknown {
  if (!alphabet.test(text)) throw invalidCursor()
  try {
    return JSON.parse(utf8.decode(Buffer.from(text, 'base64url')))
  } catch {
    throw invalidCursor()
  }
}

function hasExactly<const Field extends string>(
  value: unknown,
  fields: readonly Field[],
): value is Record<Field, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.keys(value).length === fields.length && fields.every((field) => Object.hasOwn(value, field))
}
