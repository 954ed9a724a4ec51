/**
 * Preloaded into a relay process (`--import crash-point.ts?point=…&at=…`), in its main thread and in all others: kills
 * the process as `kill -9` does at a named point, the `at`-th time that it comes there. The relay knows nothing of it:
 * the points are the calls that the relay makes of Node and of SQLite.
 */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { Socket } from 'node:net'
import { isMainThread, Worker } from 'node:worker_threads'
import Database from 'better-sqlite3'
import type { DatabaseRequest } from '../src/state/database-writer.ts'
import type { CrashPoint } from './crash-points.ts'

const query = new URL(import.meta.url).searchParams
const chosen = query.get('point')
let left = Number(query.get('at'))
/** Path of every log file that is open for writing. */
const logFiles = new Set<number>()

function pass(point: CrashPoint): void {
  if (point !== chosen || --left > 0) return
  process.kill(process.pid, 'SIGKILL')
  // The signal is on its way: nothing more may happen here.
  for (;;);
}

const isLogFile = (path: unknown): boolean => typeof path === 'string' && path.endsWith('.tlog')
const isData = (bytes: unknown): boolean => bytes instanceof Uint8Array && bytes[0] === 0x82

const { closeSync, openSync, renameSync, rmSync, writeFileSync, writev, writevSync } = fs

fs.openSync = (path, flags, mode) => {
  const isRoll = isLogFile(path) && (Number(flags) & fs.constants.O_EXCL) !== 0
  if (isRoll) pass('segment-roll:before-create')
  const fd = openSync(path, flags, mode)
  if (isRoll) pass('segment-roll:created')
  if (isLogFile(path)) logFiles.add(fd)
  return fd
}
fs.closeSync = (fd) => {
  logFiles.delete(fd)
  closeSync(fd)
}
fs.writeFileSync = (path, data, options) => {
  const isIndex = typeof path === 'string' && path.endsWith('.tlog.idx')
  if (isIndex) pass('segment-roll:before-index')
  writeFileSync(path, data, options)
  if (isIndex) pass('segment-roll:indexed')
}
fs.renameSync = (from, to) => {
  const isLease = typeof to === 'string' && to.endsWith('/lease')
  if (isLease) pass('lease:before-rename')
  renameSync(from, to)
  if (isLease) pass('lease:renamed')
}
fs.rmSync = (path, options) => {
  if (isLogFile(path)) pass('retention:before-delete')
  rmSync(path, options)
  if (isLogFile(path)) pass('retention:deleted')
}
/** A log file is open so that a write ends when its bytes are on the disk: half of it is what a kill within leaves. */
function beforeWrite(fd: number, buffers: readonly Buffer[], position: number): void {
  pass('append:before')
  if (chosen === 'append:half' && left === 1) {
    const bytes = Buffer.concat(buffers)
    writevSync(fd, [bytes.subarray(0, bytes.length >> 1)], position)
  }
  pass('append:half')
}
type StateRequest = Extract<DatabaseRequest, { ask: 'write-state' }>
const isStateWrite = (message: unknown): message is StateRequest =>
  typeof message === 'object' && message !== null && 'ask' in message && message.ask === 'write-state'

type Done = (error: NodeJS.ErrnoException | null, bytes: number) => void
fs.writev = ((fd: number, buffers: Buffer[], position: number, done: Done) => {
  if (!logFiles.has(fd)) return writev(fd, buffers, position, done)
  beforeWrite(fd, buffers, position)
  writev(fd, buffers, position, (error, bytes) => {
    pass('append:synced')
    done(error, bytes)
  })
  pass('append:handed-over')
}) as typeof fs.writev // the overload that the log uses
fs.writevSync = ((fd: number, buffers: Buffer[], position: number) => {
  if (!logFiles.has(fd)) return writevSync(fd, buffers, position)
  beforeWrite(fd, buffers, position)
  pass('append:handed-over')
  const bytes = writevSync(fd, buffers, position)
  pass('append:synced')
  return bytes
}) as typeof fs.writevSync // the overload that the log uses
syncBuiltinESMExports()

if (isMainThread) {
  // oxlint-disable-next-line typescript/unbound-method -- called on its object below
  const write = Socket.prototype.write as (...args: unknown[]) => boolean // whichever overload
  Socket.prototype.write = function (this: Socket, ...args: unknown[]): boolean {
    if (isData(args[0])) pass('broadcast:before')
    const isTaken = write.apply(this, args)
    if (isData(args[0])) pass('broadcast:written')
    return isTaken
  }
  // oxlint-disable-next-line typescript/unbound-method -- called on its object below
  const post = Worker.prototype.postMessage as (...args: unknown[]) => void // whichever overload
  Worker.prototype.postMessage = function (this: Worker, ...args: unknown[]): void {
    const isCursor = isStateWrite(args[0]) && args[0].rows.sources.length > 0
    if (isCursor) pass('acknowledge:before')
    post.apply(this, args)
    if (isCursor) pass('acknowledge:handed-over')
  }
} else {
  type Transaction = typeof Database.prototype.transaction
  // oxlint-disable-next-line typescript/unbound-method -- called on its object below
  const transaction: Transaction = Database.prototype.transaction
  Database.prototype.transaction = function (this: Database.Database, work: (...args: unknown[]) => unknown) {
    const run = transaction.call(this, (...args) => {
      const result = work(...args)
      pass('state:before-commit')
      return result
    })
    return (...args: unknown[]) => {
      pass('state:before')
      const result = run(...args)
      pass('state:committed')
      return result
    }
  } as unknown as Transaction // its other modes are not used
}
