/**
 * Kills a process, as `kill -9` does, on the way of a record into an event log. Preloaded by tests of programs that know
 * nothing of it: the points are the calls that the log makes of Node.
 */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/** In the order of a record's way. A file of the log is begun and deleted in between. */
export const logCrashPoints = [
  'lease:before-rename',
  'lease:renamed',
  'append:before',
  'append:half',
  'append:handed-over',
  'append:synced',
  'log-roll:before-index',
  'log-roll:indexed',
  'log-roll:before-create',
  'log-roll:created',
  'retention:before-delete',
  'retention:out-of-log',
  'retention:deleted',
] as const

export type LogCrashPoint = (typeof logCrashPoints)[number]

export interface CrashWatch {
  /** Called at each point. It kills the process, or returns. */
  pass: (point: LogCrashPoint) => void
  /** Whether the process is to end at this point the next time that it comes there. */
  isNext: (point: LogCrashPoint) => boolean
}

type Done = (error: NodeJS.ErrnoException | null) => void
type Answered = (error: NodeJS.ErrnoException | null, answer: number) => void

const isLogFile = (path: unknown): boolean => typeof path === 'string' && path.endsWith('.tlog')

/** Watches every log of this process from now on. */
export function watchLogs({ pass, isNext }: CrashWatch): void {
  const { closeSync, open, openSync, rename, unlink, writeFile, writev, writevSync } = fs
  /** Descriptors of the log files that are open for writing. */
  const logFiles = new Set<number>()

  // A start goes on with the newest file.
  fs.openSync = (path, flags, mode) => {
    const fd = openSync(path, flags, mode)
    if (isLogFile(path)) logFiles.add(fd)
    return fd
  }
  fs.open = ((...args: [path: string, flags: number, done: Answered]) => {
    const [path, flags, done] = args
    if (!isLogFile(path)) return Reflect.apply(open, fs, args)
    pass('log-roll:before-create')
    open(path, flags, (error, fd) => {
      pass('log-roll:created')
      logFiles.add(fd)
      done(error, fd)
    })
  }) as typeof fs.open // the overload that the log uses
  fs.closeSync = (fd) => {
    logFiles.delete(fd)
    closeSync(fd)
  }
  fs.writeFile = ((...args: [path: string, text: string, done: Done]) => {
    const [path, text, done] = args
    if (typeof path !== 'string' || !path.endsWith('.tlog.idx')) return Reflect.apply(writeFile, fs, args)
    pass('log-roll:before-index')
    writeFile(path, text, (error) => {
      pass('log-roll:indexed')
      done(error)
    })
  }) as typeof fs.writeFile // the overload that the log uses
  fs.rename = ((from: string, to: string, done: Done) => {
    const isLease = to.endsWith('/lease')
    if (!isLease && !isLogFile(from)) return rename(from, to, done)
    pass(isLease ? 'lease:before-rename' : 'retention:before-delete')
    rename(from, to, (error) => {
      pass(isLease ? 'lease:renamed' : 'retention:out-of-log')
      done(error)
    })
  }) as typeof fs.rename // the form that the log uses
  fs.unlink = ((path: string, done: Done) =>
    unlink(path, (error) => {
      if (path.endsWith('.tlog.gone')) pass('retention:deleted')
      done(error)
    })) as typeof fs.unlink // the form that the log uses
  /** A log file is open so that a write ends when its bytes are on the disk: half of it is what a kill within leaves. */
  function beforeWrite(fd: number, buffers: readonly Buffer[], position: number): void {
    pass('append:before')
    if (isNext('append:half')) {
      const bytes = Buffer.concat(buffers)
      writevSync(fd, [bytes.subarray(0, bytes.length >> 1)], position)
    }
    pass('append:half')
  }
  fs.writev = ((fd: number, buffers: Buffer[], position: number, done: Answered) => {
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
}

/** Ends this process as `kill -9` does. */
export function killSelf(): never {
  process.kill(process.pid, 'SIGKILL')
  // The signal is on its way: nothing more may happen here.
  for (;;);
}
