import { type EntryKind, entryKinds } from '@tributary/protocol'
import { sql, type RawBuilder } from 'kysely'

/**
 * The condition that an entry is of one of some kinds. Several are filled up to as many as there are, so that pages of some
 * kinds have one statement.
 */
export function isOfKinds(kinds: readonly EntryKind[]): RawBuilder<unknown> {
  const [first] = kinds
  const filled = kinds.length === 1 ? kinds : entryKinds.map((_, at) => kinds[at] ?? first)
  return sql`"kind" in (${sql.join(filled)})`
}
