/**
 * Preloaded into a stream process (`--import crash-point.ts?armed=FILE`): kills the process as `kill -9` does at a named
 * point. The file says which, as `point at`: the `at`-th time that the stream comes there after the file was written. The
 * stream knows nothing of it: the points are the calls that it makes of Node and of SQLite.
 */
import fs, { promises } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { isMainThread } from 'node:worker_threads'
import Database from 'better-sqlite3'

/** `state`: a transaction of the database, with saved states, jobs, policy or keys. */
export type CrashPoint =
  | `${'block' | 'seal' | 'new-segment' | 'compaction'}:${'written' | 'synced'}`
  | `${'new-segment' | 'compaction'}:${'before-rename' | 'renamed'}`
  | `state:${'before-commit' | 'committed'}`

const armed = new URL(import.meta.url).searchParams.get('armed') ?? ''
let passed = 0

function pass(point: CrashPoint): void {
  if (!fs.existsSync(armed)) return
  const [chosen, at] = fs.readFileSync(armed, 'utf8').split(' ')
  if (chosen !== point || ++passed < Number(at)) return
  process.kill(process.pid, 'SIGKILL')
  // The signal is on its way: nothing more may happen here.
  for (;;);
}

const isSegment = (path: unknown): path is string => typeof path === 'string' && /\.jss(\.tmp)?$/.test(path)

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
  const { prototype } = Database
  // oxlint-disable-next-line typescript/unbound-method -- it is called with the database that it is called on
  const { transaction } = prototype
  prototype.transaction = function (this: Database.Database, change: (...args: unknown[]) => unknown) {
    const run = transaction.call(this, (...args: unknown[]) => {
      const result = change(...args)
      pass('state:before-commit')
      return result
    })
    const committed = (...args: unknown[]): unknown => {
      const result = run(...args)
      pass('state:committed')
      return result
    }
    return Object.assign(committed, run)
  } as typeof transaction // the kinds of transaction, such as `immediate`, stay as they are
  syncBuiltinESMExports()
}

if (isMainThread) patch()
