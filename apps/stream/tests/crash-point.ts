/**
 * Preloaded into a stream process (`--import crash-point.ts?armed=FILE`): kills the process as `kill -9` does at a named
 * point. The file says which, as `point at`: the `at`-th time that the stream comes there after the file was written. The
 * stream knows nothing of it: the points are the calls that it makes of Node and of SQLite.
 */
import fs, { promises } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { isMainThread } from 'node:worker_threads'
import { killSelf, watchLogs } from '@tributary/testkit/log-crash-points'
import Database from 'better-sqlite3'
import type { CrashPoint, Stored } from './crash-points.ts'

const armed = new URL(import.meta.url).searchParams.get('armed') ?? ''
let passed = 0

function isNext(point: CrashPoint): boolean {
  if (!fs.existsSync(armed)) return false
  const [chosen, at] = fs.readFileSync(armed, 'utf8').split(' ')
  return chosen === point && passed + 1 >= Number(at)
}

function pass(point: CrashPoint): void {
  if (isNext(point)) killSelf()
  if (fs.existsSync(armed) && fs.readFileSync(armed, 'utf8').startsWith(`${point} `)) passed++
}

const isSegment = (path: unknown): path is string => typeof path === 'string' && /\.jss(\.tmp)?$/.test(path)

const tables: Readonly<Record<string, Stored>> = {
  upstream: 'states',
  compaction: 'pass',
  pending_takedowns: 'takedown',
  backfill_jobs: 'job',
  backfill_repos: 'job',
  watch_policy: 'policy',
  api_keys: 'key',
}

/** What a file of a segment that is written as a whole becomes. */
function wholeOf(path: string): 'compaction' | 'new-segment' {
  return fs.existsSync(path.replace(/\.tmp$/, '')) ? 'compaction' : 'new-segment'
}

function patch(): void {
  const { open, rename } = promises
  promises.open = async (path, flags, mode) => {
    const handle = await open(path, flags, mode)
    if (!isSegment(path) || flags === 'r') return handle
    const datasync = handle.datasync.bind(handle)
    const sync = handle.sync.bind(handle)
    handle.datasync = async () => {
      pass('block:written')
      await datasync()
      pass('block:synced')
    }
    handle.sync = async () => {
      const what = path.endsWith('.tmp') ? wholeOf(path) : 'seal'
      pass(`${what}:written`)
      await sync()
      pass(`${what}:synced`)
    }
    return handle
  }
  promises.rename = async (from, to) => {
    const what = isSegment(from) ? wholeOf(from) : undefined
    if (what) pass(`${what}:before-rename`)
    await rename(from, to)
    if (what) pass(`${what}:renamed`)
  }
  watchTransactions()
  watchLogs({ pass, isNext })
  syncBuiltinESMExports()
}

/** What the transaction under way has changed so far. */
const changed = new Set<Stored>()

function watchTransactions(): void {
  const { prototype } = Database
  // oxlint-disable-next-line typescript/unbound-method -- they are called with the database that they are called on
  const { prepare, transaction } = prototype
  prototype.prepare = function (this: Database.Database, source: string) {
    const statement = prepare.call(this, source)
    const [, table = ''] = /\b(?:INTO|UPDATE|FROM)\s+(\w+)/.exec(source) ?? []
    const stored = tables[table]
    if (!stored) return statement
    const run = statement.run.bind(statement) as (...values: unknown[]) => Database.RunResult // whichever values
    statement.run = (...values: unknown[]) => {
      changed.add(stored)
      return run(...values)
    }
    return statement
  } as typeof prepare
  prototype.transaction = function (this: Database.Database, change: (...args: unknown[]) => unknown) {
    const run = transaction.call(this, (...args: unknown[]) => {
      changed.clear()
      const result = change(...args)
      for (const stored of changed) pass(`${stored}:before-commit`)
      return result
    })
    const committed =
      (begin: (...args: unknown[]) => unknown) =>
      (...args: unknown[]): unknown => {
        const result = begin(...args)
        for (const stored of changed) pass(`${stored}:committed`)
        return result
      }
    return Object.assign(committed(run), { immediate: committed((...args) => run.immediate(...args)) })
  } as unknown as typeof transaction // its other modes are not used
}

if (isMainThread) patch()
