/** The client for Node: everything of `@tributary/client`, on Node's own zstd, hashing and sockets, and stores of cursors. */
export * from './entry.ts'
export { FileCursorStore } from './file-cursor-store.ts'
export { createStreamClient } from './node-client.ts'
export { FileStore } from './runner/file-store.ts'
export { PostgresStore, type PostgresDatabase } from './runner/postgres-store.ts'
export { SqliteStore, type SqliteDatabase } from './runner/sqlite-store.ts'
