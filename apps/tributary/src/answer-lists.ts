/** Lists of services, as they come: an answer may have any form, and a list may have no end. */
import { fieldsOf, type Json, notOurs } from './call-service.ts'

type Kind = 'string' | 'number' | 'array' | 'object'
export type Kinds = Readonly<Record<string, Kind>>

/** Pages of a list. The longest list that we know of has a tenth of them. */
const pagesMax = 100

/** The objects of a list in an answer. Fields that `kinds` names are there, and of that kind. @throws NoAnswerError */
export function rowsOf(base: string, answer: unknown, key: string, kinds: Kinds = {}): Json[] {
  const rows = fieldsOf(base, answer, key)[key]
  if (!Array.isArray(rows)) throw notOurs(base, `with ${key} that are no list`)
  return rows.map((row) => {
    if (hasFields(row, kinds)) return row
    throw notOurs(base, `with ${key} of another form`)
  })
}

/** Whether a value is an object with fields of these kinds. */
export function hasFields(value: unknown, kinds: Kinds): value is Json {
  if (kindOf(value) !== 'object') return false
  return Object.entries(kinds).every(([name, kind]) => kindOf((value as Json)[name]) === kind) // an object has fields
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value
}

export interface ListOptions {
  kinds?: Kinds
  /** Default: 100. */
  pagesMax?: number
  /** Whether a page may be empty and not be the last one. */
  mayBeEmpty?: boolean
}

/**
 * A list, page by page. `ask` gets the page after a cursor.
 * @throws NoAnswerError for answers of another form, and for a list that does not go on, or has too many pages.
 */
export async function* pagesOf(
  base: string,
  key: string,
  ask: (cursor: string | undefined) => Promise<unknown>,
  { kinds, pagesMax: max = pagesMax, mayBeEmpty = false }: ListOptions = {},
): AsyncGenerator<Json[]> {
  const cursors = new Set<string>()
  for (let cursor: string | undefined; cursors.size < max;) {
    const answer = await ask(cursor)
    const rows = rowsOf(base, answer, key, kinds)
    yield rows
    const next = fieldsOf(base, answer)['cursor'] ?? ''
    // Some say by an empty cursor that there is no more.
    if (next === '') return
    if (typeof next !== 'string') throw notOurs(base, 'with a cursor that is no text')
    if (cursors.has(next) || (rows.length === 0 && !mayBeEmpty))
      throw notOurs(base, `with a list of ${key} that does not go on`)
    cursors.add(next)
    cursor = next
  }
  throw notOurs(base, `with more than ${max} pages of ${key}`)
}
