/** The thread that writes the relay's state: one transaction a message, off the way of events. */
import { parentPort, workerData } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { rowWriter } from './row-writer.ts'
import { prepare } from './schema.ts'
import type { StateWrite } from './state-store.ts'

const { path } = workerData as { path: string } // set by StateStore
const db = new Database(path)
prepare(db)
const write = rowWriter(db)

// What loading took is given back, where Node lets programs do so (`--expose-gc`).
globalThis.gc?.({ type: 'major', flavor: 'last-resort' })

parentPort?.on('message', (rows: StateWrite) => {
  write(rows, Date.now())
  parentPort?.postMessage('written')
})
