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

const { closeSync, fdatasyncSync, openSync, renameSync, rmSync, writeFileSync, writeSync } = fs

fs.openSync = (path, flags, mode) => {
  const isRoll = isLogFile(path) && flags === 'wx'
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
fs.fdatasyncSync = (fd) => {
  if (logFiles.has(fd)) pass('sync:before')
  fdatasyncSync(fd)
  if (logFiles.has(fd)) pass('sync:done')
}
/** As the log calls it: a buffer with offset, length and position. */
function writeLogFile(fd: number, bytes: Buffer, offset: number, length: number, position: number): number {
  if (!logFiles.has(fd)) return writeSync(fd, bytes, offset, length, position)
  pass('append:before')
  if (chosen === 'append:half' && left === 1) writeSync(fd, bytes, offset, length >> 1, position)
  pass('append:half')
  const written = writeSync(fd, bytes, offset, length, position)
  pass('append:written')
  return written
}
fs.writeSync = ((fd: number, bytes: Buffer | string, ...rest: number[]) => {
  const [offset, length, position] = rest
  return typeof bytes === 'string' || offset === undefined || length === undefined || position === undefined
    ? writeSync(fd, bytes as string) // a string is written as a whole
    : writeLogFile(fd, bytes, offset, length, position)
}) as typeof fs.writeSync // the overloads that the relay uses
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
    const message = args[0]
    const isCursor =
      typeof message === 'object' &&
      message !== null &&
      'sources' in message &&
      Array.isArray(message.sources) &&
      message.sources.length > 0
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
