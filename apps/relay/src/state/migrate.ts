import type Database from 'better-sqlite3'

/**
 * Applies the migrations that a database has not had yet, all or none of them; `user_version` counts them.
 * @param name of its file, for operators. @throws Error when a newer version of the relay has written it.
 */
export function migrate(db: Database.Database, name: string, migrations: readonly string[]): void {
  db.transaction(() => {
    const done = Number(db.pragma('user_version', { simple: true }))
    if (done > migrations.length)
      throw new Error(
        `${name} has version ${done}, and this relay knows ${migrations.length}: a newer relay has written it`,
      )
    for (const migration of migrations.slice(done)) db.exec(migration)
    db.pragma(`user_version = ${migrations.length}`)
  }).immediate()
}
