import { migrationNames } from './migrations.ts'
import { IndexNotReadyError } from './reader.ts'

/** @throws IndexNotReadyError when the schema is not the one that this version reads. */
export function requireSchema(found: readonly string[]): void {
  if (found.join() === migrationNames.join()) return
  throw new IndexNotReadyError(
    `the index database has schema ${found.at(-1) ?? 'none'}, this program reads ${migrationNames.at(-1)}`,
  )
}
