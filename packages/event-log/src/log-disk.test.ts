import assert from 'node:assert/strict'
import fs, { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Disk } from './disk.ts'
import { EventLog, LogWriteError } from './index.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }

test('a disk that fails ends the log: what waits is told, nothing more is taken, and nothing visible is lost', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'event-log-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const log = await EventLog.open({ directory, fileBytesMax: 200 })
  const failures: Error[] = []
  log.onFailure((error) => failures.push(error))
  log.append(meta, Buffer.alloc(100))
  await log.flush()
  // The file that comes next cannot be made.
  mkdirSync(join(directory, '0000000000000002.tlog'))
  log.append(meta, Buffer.alloc(100))
  await assert.rejects(log.flush(), LogWriteError)
  assert.throws(() => log.append(meta, Buffer.alloc(1)), LogWriteError)
  assert.equal(failures.length, 1)
  assert.deepEqual([log.visibleSeq, log.durableSeq], [1, 1])
  await log.close()

  rmSync(join(directory, '0000000000000002.tlog'), { recursive: true })
  const again = await EventLog.open({ directory })
  assert.equal((await again.read(0, 1000))[0]?.lastSeq, 1)
  assert.ok(again.nextSeq > 2)
  await again.close()
})

test(
  'zeros that cannot be written end the log as any other fault of the disk does',
  { skip: !existsSync('/dev/shm') },
  async (t) => {
    const path = mkdtempSync('/dev/shm/event-log-')
    t.after(() => rmSync(path, { recursive: true }))
    const failed: number[] = []
    const disk: Disk = {
      ...fs,
      writev: (fd, buffers, at, done) => {
        if (buffers[0]?.[0] !== 0) return fs.writev(fd, buffers, at, done)
        failed.push(at)
        setImmediate(() => done(Object.assign(new Error('EIO: i/o error, write'), { code: 'EIO' }), 0))
      },
    }
    for (const where of ['before the next commit', 'at the end'] as const) {
      failed.length = 0
      const directory = join(path, where)
      const log = await EventLog.open({ directory, disk })
      const failures: string[] = []
      log.onFailure(({ message }) => failures.push(message))
      while (failed.length === 0) {
        log.append(meta, Buffer.from('small'))
        await log.flush()
      }
      const { durableSeq } = log
      if (where === 'at the end') await assert.rejects(log.close(), LogWriteError)
      for (let turns = 0; turns < 3; turns++) await turn()
      assert.match(failures.join(), /EIO/)
      if (where === 'before the next commit') await log.close()
      assert.throws(() => log.append(meta, Buffer.from('late')), LogWriteError)
      const again = await EventLog.open({ directory })
      assert.deepEqual([again.visibleSeq, again.nextSeq > durableSeq + 1], [durableSeq, true])
      await again.close()
    }
  },
)

test('where a write may end in the cache of the drive, a sync follows before anyone sees the record', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'event-log-'))
  const platform = Object.getOwnPropertyDescriptor(process, 'platform')
  t.after(() => {
    if (platform) Object.defineProperty(process, 'platform', platform)
    rmSync(directory, { recursive: true })
  })
  Object.defineProperty(process, 'platform', { value: 'darwin' })
  const order: string[] = []
  const disk: Disk = {
    ...fs,
    fdatasync: (fd, done) =>
      fs.fdatasync(fd, (error) => {
        order.push('synced')
        done(error)
      }),
  }
  const log = await EventLog.open({ directory, disk })
  log.onVisible(() => order.push('visible'))
  // Enough of them that small commits are made without a thread, where the disk is quick.
  for (let i = 0; i < 30; i++) {
    log.append(meta, Buffer.from('small'))
    await log.flush()
  }
  await log.close()
  assert.deepEqual(order, Array.from({ length: 30 }, () => ['synced', 'visible']).flat())
  const again = await EventLog.open({ directory })
  assert.deepEqual([again.visibleSeq, again.nextSeq], [30, 31])
  await again.close()
})

test('a disk that stood still is written to by a thread for a minute, so that nothing else stands still', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'event-log-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const nextMs = { takes: 0.1, elapsed: 0 }
  let ways: string[] = []
  const disk: Disk = {
    ...fs,
    writevSync: (fd, buffers, at) => {
      ways.push('here')
      nextMs.elapsed += nextMs.takes
      return fs.writevSync(fd, buffers, at)
    },
    writev: (fd, buffers, at, done) => {
      if (buffers.some((buffer) => buffer.includes('small'))) ways.push('by a thread')
      nextMs.elapsed += nextMs.takes
      fs.writev(fd, buffers, at, done)
    },
  }
  const clock = { wallMs: () => nextMs.elapsed, elapsedMs: () => nextMs.elapsed }
  const log = await EventLog.open({ directory, disk, clock })
  const waysOf = async (commits: number): Promise<Set<string>> => {
    ways = []
    for (let i = 0; i < commits; i++) {
      log.append(meta, Buffer.from('small'))
      await log.flush()
    }
    return new Set(ways)
  }
  await waysOf(50)
  assert.deepEqual(await waysOf(50), new Set(['here']))
  nextMs.takes = 15
  await waysOf(1)
  nextMs.takes = 0.1
  assert.deepEqual(await waysOf(500), new Set(['by a thread']))
  nextMs.elapsed += 60_000
  assert.deepEqual(await waysOf(50), new Set(['here']))
  await log.close()
})

test('small commits do not make the file longer, on a disk that is slow as well', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'event-log-'))
  t.after(() => rmSync(directory, { recursive: true }))
  let elapsedMs = 0
  let zeros = 0
  const longer: number[] = []
  const disk: Disk = {
    ...fs,
    writev: (fd, buffers, at, done) => {
      elapsedMs += 2
      if (buffers[0]?.[0] === 0) zeros++
      else if (buffers.some((each) => each.includes('small')) && fs.fstatSync(fd).size <= at) longer.push(at)
      fs.writev(fd, buffers, at, done)
    },
    writevSync: () => assert.fail('the disk is too slow for that'),
  }
  const clock = { wallMs: () => elapsedMs, elapsedMs: () => elapsedMs }
  const log = await EventLog.open({ directory, disk, clock })
  for (let i = 0; i < 200; i++) {
    log.append(meta, Buffer.alloc(8000, 'small'))
    await log.flush()
  }
  await log.close()
  assert.deepEqual([zeros > 1, longer], [true, [0]])
})

test('leases, rolls and the open time are left to a thread, so that a disk that stands still holds up nothing else', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'event-log-'))
  t.after(() => rmSync(directory, { recursive: true }))
  let elapsedMs = 0
  const clock = { wallMs: () => elapsedMs, elapsedMs: () => elapsedMs }
  const here: string[] = []
  const byThread: string[] = []
  const disk: Disk = {
    ...fs,
    openSync: (path, flags) => {
      if (flags !== 'r') here.push('open')
      return fs.openSync(path, flags)
    },
    fsyncSync: (fd) => {
      here.push('sync')
      fs.fsyncSync(fd)
    },
    ftruncateSync: (fd, length) => {
      here.push('cut')
      fs.ftruncateSync(fd, length)
    },
    fsync: (fd, done) => {
      byThread.push('sync')
      fs.fsync(fd, done)
    },
  }
  const log = await EventLog.open({
    directory,
    disk,
    clock,
    leaseSize: 4,
    fileBytesMax: 200,
    retentionMs: 1e9,
  })
  // A start may sync what it finds.
  here.length = 0
  for (let i = 0; i < 10; i++) {
    log.append(meta, Buffer.alloc(100))
    await log.flush()
  }
  assert.ok(log.files.length > 3)
  const before = byThread.length
  elapsedMs = 600_000
  await log.applyRetention()
  await log.endFile()
  assert.deepEqual(here, [])
  await log.close()
  assert.ok(before > 10 && byThread.length > before, `${before} and ${byThread.length} syncs`)
  const again = await EventLog.open({ directory })
  assert.deepEqual([again.visibleSeq, again.nextSeq], [10, 11])
  await again.close()
})

test('a disk that refuses to delete a file ends the log as a write does, and the lock is given back', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'event-log-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const refuse = (): never => {
    throw Object.assign(new Error('EROFS: read-only file system, unlink'), { code: 'EROFS' })
  }
  const log = await EventLog.open({
    directory,
    fileBytesMax: 200,
    retentionBytes: 300,
    disk: { ...fs, unlink: refuse },
  })
  const failures: Error[] = []
  log.onFailure((error) => failures.push(error))
  for (let i = 0; i < 4 && failures.length === 0; i++) {
    log.append(meta, Buffer.alloc(100))
    await log.flush().catch(() => {})
  }
  assert.ok(failures[0] instanceof LogWriteError)
  assert.throws(() => log.append(meta, Buffer.alloc(1)), LogWriteError)
  await log.close()
  await (await EventLog.open({ directory })).close()
})

test('a disk that fails while the log ends is told of, and the lock is given back', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'event-log-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const fail: Disk['writev'] = (_fd, _buffers, _at, done) => setImmediate(() => done(new Error('EIO'), 0))
  const log = await EventLog.open({ directory, disk: { ...fs, writev: fail } })
  log.append(meta, Buffer.alloc(100))
  await assert.rejects(log.close(), LogWriteError)
  await (await EventLog.open({ directory })).close()
})

test('no file is closed under a write when the log failed elsewhere meanwhile', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'event-log-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const writing = new Set<number>()
  const underWrite: number[] = []
  let isBroken = false
  let started: (() => void) | undefined
  const disk: Disk = {
    ...fs,
    writev: (fd, buffers, at, done) => {
      writing.add(fd)
      started?.()
      fs.writev(fd, buffers, at, (error, bytes) => {
        setImmediate(() => {
          writing.delete(fd)
          done(error, bytes)
        })
      })
    },
    closeSync: (fd) => {
      if (writing.has(fd)) underWrite.push(fd)
      fs.closeSync(fd)
    },
    unlink: (path, done) => {
      if (isBroken) throw new Error('EIO')
      fs.unlink(path, done)
    },
  }
  const log = await EventLog.open({ directory, fileBytesMax: 20_000, disk })
  for (let i = 0; i < 3; i++) {
    log.append(meta, Buffer.alloc(19_000))
    await log.flush()
  }
  const isWriting = new Promise<void>((resolve) => (started = resolve))
  log.append(meta, Buffer.alloc(19_000))
  await isWriting
  isBroken = true
  await log.dropThrough(1)
  await log.close()
  assert.deepEqual(underWrite, [])
})
