/**
 * Preloaded into a relay process (`--import crash-point.ts?point=…&at=…`), in its main thread and in all others: kills
 * the process as `kill -9` does at a named point, the `at`-th time that it comes there. The relay knows nothing of it:
 * the points are the calls that the relay makes of Node and of SQLite.
 */
import { Socket } from 'node:net'
import { isMainThread, Worker } from 'node:worker_threads'
import { killSelf, watchLogs } from '@tributary/testkit/log-crash-points'
import Database from 'better-sqlite3'
import type { DatabaseRequest } from '../src/state/database-writer.ts'
import type { CrashPoint } from './crash-points.ts'

const query = new URL(import.meta.url).searchParams
const chosen = query.get('point')
let left = Number(query.get('at'))

function pass(point: CrashPoint): void {
  if (point !== chosen || --left > 0) return
  killSelf()
}

const isData = (bytes: unknown): boolean => bytes instanceof Uint8Array && bytes[0] === 0x82

type StateRequest = Extract<DatabaseRequest, { ask: 'write-state' }>
const isStateWrite = (message: unknown): message is StateRequest =>
  typeof message === 'object' && message !== null && 'ask' in message && message.ask === 'write-state'

watchLogs({ pass, isNext: (point) => chosen === point && left === 1 })

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
    const passing =
      (begin: (...args: unknown[]) => unknown) =>
      (...args: unknown[]): unknown => {
        pass('state:before')
        const result = begin(...args)
        pass('state:committed')
        return result
      }
    return Object.assign(passing(run), { immediate: passing((...args) => run.immediate(...args)) })
  } as unknown as Transaction // its other modes are not used
}
