/**
 * The thread that writes the relay's databases, off the way of events: a sync takes 250 ms on a busy disk. Requests are
 * answered in the order in which they came. What a database throws ends the thread, and with it the relay.
 */
import { parentPort } from 'node:worker_threads'
import Database from 'better-sqlite3'
import { NoticeRows } from '../policy/notice-rows.ts'
import { RefusalRows } from '../policy/refusal-rows.ts'
import type { DatabaseRequest } from './database-writer.ts'
import { rowWriter } from './row-writer.ts'
import { prepare } from './schema.ts'
import type { StateWrite } from './state-write.ts'

/** Opened with the first request that names the file. */
const states = new Map<string, (rows: StateWrite) => boolean>()
const refusals = new Map<string, RefusalRows>()
const notices = new Map<string, NoticeRows>()

// What loading took is given back, where Node lets programs do so (`--expose-gc`).
globalThis.gc?.({ type: 'major', flavor: 'last-resort' })

parentPort?.on('message', (request: DatabaseRequest) => parentPort?.postMessage(answer(request)))

function answer(request: DatabaseRequest): unknown {
  const { path } = request
  switch (request.ask) {
    case 'write-state':
      return opened(states, path, openState)(request.rows)
    case 'add-refusals':
      return opened(refusals, path, openRefusals).add(request.rows, request.nowMs)
    case 'list-refusals':
      return opened(refusals, path, openRefusals).list(request.query, request.nowMs)
    case 'add-notice':
      return opened(notices, path, openNotices).add(request.row, request.share)
    case 'list-notices':
      return opened(notices, path, openNotices).list(request.query)
  }
}

function openState(path: string): (rows: StateWrite) => boolean {
  const db = new Database(path)
  prepare(db)
  const write = rowWriter(db)
  return (rows) => write(rows, Date.now())
}

const openRefusals = (path: string): RefusalRows => new RefusalRows(path)
const openNotices = (path: string): NoticeRows => new NoticeRows(path)

function opened<T>(files: Map<string, T>, path: string, open: (path: string) => T): T {
  const known = files.get(path)
  if (known !== undefined) return known
  const file = open(path)
  files.set(path, file)
  return file
}
