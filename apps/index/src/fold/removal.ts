/** Removing many rows a few at a time, because one statement is one turn of the event loop. */
import type { IndexConnection, Steps } from '@tributary/index-store'

/** Few, because a row may have a megabyte, which is read when it is freed. */
const rowsPerStep = 50

type Sqlite = IndexConnection['sqlite']
type Removal = ReturnType<typeof prepare>

/** Removes rows whose `column` is an address between two others. */
export function removalOfRange(sqlite: Sqlite, table: string, column: string): Removal {
  return prepare(sqlite, table, column, `${column} > ? and ${column} < ?`)
}

/** Removes rows with a `uri` whose `column` is of one value. */
export function removalOf(sqlite: Sqlite, table: string, column: string): Removal {
  return prepare(sqlite, table, 'uri', `${column} = ?`)
}

export function* removeInSteps(removal: Removal, key: readonly string[]): Steps<void> {
  while (removal.run(...key).changes > 0) yield
}

function prepare(sqlite: Sqlite, table: string, key: string, condition: string) {
  return sqlite.prepare<string[]>(
    `delete from ${table} where ${key} in (select ${key} from ${table} where ${condition} limit ${rowsPerStep})`,
  )
}
