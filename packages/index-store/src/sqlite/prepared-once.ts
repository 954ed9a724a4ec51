import type Sqlite from 'better-sqlite3'

/** Statements that a connection keeps prepared; more than all it has. */
const statementsMax = 200

/** Keeps prepared statements: a program runs the same few, and preparing one can cost as much as running it. */
export function preparedOnce(sqlite: Sqlite.Database): (text: string) => Sqlite.Statement {
  const statements = new Map<string, Sqlite.Statement>()
  return (text) => {
    const known = statements.get(text)
    if (known) return known
    if (statements.size >= statementsMax) statements.clear()
    const statement = sqlite.prepare(text)
    statements.set(text, statement)
    return statement
  }
}
