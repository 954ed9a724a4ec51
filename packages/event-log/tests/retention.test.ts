/** Retention by age, under clocks that others set. */
import assert from 'node:assert/strict'
import { cpSync, linkSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import fc from 'fast-check'
import type { Disk } from '../src/disk.ts'
import { EventLog } from '../src/index.ts'
import { quickDisk } from './quick-disk.ts'
import { VirtualClock } from './virtual-clock.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }
const hourMs = 3_600_000
const retentionMs = 72 * hourMs
const yearMs = 365 * 24 * hourMs
/** Two records fit into a file. */
const fileBytesMax = 300

function temporaryDirectory(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), 'event-log-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

function openAt(directory: string, clock: VirtualClock, fileAgeMsMax = hourMs): Promise<EventLog> {
  return EventLog.open({ directory, clock, retentionMs, fileBytesMax, fileAgeMsMax, disk: quickDisk })
}

async function append(log: EventLog): Promise<number> {
  const seq = log.append(meta, Buffer.alloc(50))
  await log.flush()
  return seq
}

async function timesIn(log: EventLog): Promise<number[]> {
  const times: number[] = []
  for await (const slice of log.replay(0))
    for (let row = 0; row < slice.count; row++) times.push(slice.timeMsAt(row))
  return times
}

test('a file goes when the log has been open for longer than the window since its newest record, and the newest stays', async () => {
  using directory = temporaryDirectory()
  const clock = new VirtualClock()
  const log = await openAt(directory.path, clock)
  for (let i = 0; i < 3; i++) {
    await append(log)
    await append(log)
    clock.pass(hourMs)
  }
  clock.pass(retentionMs - 3 * hourMs)
  await log.applyRetention()
  assert.equal(log.lastDeletedSeq, 0)
  clock.pass(1)
  await log.applyRetention()
  assert.deepEqual([log.lastDeletedSeq, log.oldestSeq, log.files.length], [2, 3, 2])
  clock.pass(10 * retentionMs)
  await log.applyRetention()
  assert.deepEqual([log.lastDeletedSeq, log.files.length], [4, 1])
  await log.close()
})

test('a file that was written on after a start is kept by its newest record, over the next start, too', async () => {
  using directory = temporaryDirectory()
  const first = await openAt(directory.path, new VirtualClock())
  await append(first)
  await first.close()
  const clock = new VirtualClock()
  const second = await openAt(directory.path, clock, retentionMs)
  clock.pass(retentionMs)
  // The second record fills the file of the first one. The third is in a file of its own.
  await append(second)
  await append(second)
  await second.close()
  const after = new VirtualClock()
  const third = await openAt(directory.path, after)
  after.pass(hourMs)
  await third.applyRetention()
  assert.deepEqual([third.lastDeletedSeq, third.files.length], [0, 2])
  after.pass(retentionMs)
  await third.applyRetention()
  assert.deepEqual([third.lastDeletedSeq > 0, third.files.length], [true, 1])
  await third.close()
})

test('a date that jumps ahead deletes nothing, whether the log is open or closed meanwhile', async () => {
  using directory = temporaryDirectory()
  const clock = new VirtualClock()
  const log = await openAt(directory.path, clock)
  for (let i = 0; i < 6; i++) await append(log)
  clock.setWall(clock.wallMs() + 10 * yearMs)
  await log.applyRetention()
  for (let i = 0; i < 6; i++) await append(log)
  assert.equal(log.lastDeletedSeq, 0)
  await log.close()
  const again = await openAt(directory.path, clock.restarted(10 * yearMs))
  await append(again)
  await append(again)
  await again.applyRetention()
  assert.deepEqual([again.lastDeletedSeq, again.oldestSeq], [0, 1])
  await again.close()
})

test('records that were written under a date far ahead go in time after it was set back', async () => {
  using directory = temporaryDirectory()
  const clock = new VirtualClock(Date.UTC(2060, 0, 1))
  const log = await openAt(directory.path, clock)
  for (let i = 0; i < 6; i++) await append(log)
  clock.setWall(Date.UTC(2026, 0, 1))
  await log.close()
  const after = clock.restarted(0)
  const again = await openAt(directory.path, after)
  after.pass(retentionMs + 1)
  await append(again)
  await again.applyRetention()
  assert.equal(again.lastDeletedSeq, 6)
  await again.close()
})

test('a log that is quiet and started again every few hours does not keep its records for good', async () => {
  using directory = temporaryDirectory()
  let clock = new VirtualClock()
  let log = await openAt(directory.path, clock)
  for (let i = 0; i < 4; i++) await append(log)
  for (let hours = 12; hours <= 84; hours += 12) {
    clock.pass(12 * hourMs)
    await log.applyRetention()
    assert.equal(log.lastDeletedSeq, hours > 72 ? 2 : 0)
    await log.close()
    clock = clock.restarted(hourMs)
    log = await openAt(directory.path, clock)
  }
  await log.close()
})

test('what was written between the last save and a kill is as young after it', async () => {
  using directory = temporaryDirectory()
  const clock = new VirtualClock()
  const log = await openAt(join(directory.path, 'log'), clock, 100 * hourMs)
  await append(log)
  clock.pass(60 * hourMs)
  await log.applyRetention()
  // The file that the save knew has a newer record, and two files are new.
  for (let i = 0; i < 5; i++) await append(log)
  cpSync(join(directory.path, 'log'), join(directory.path, 'killed'), { recursive: true })
  await log.close()
  const after = clock.restarted(0)
  const again = await openAt(join(directory.path, 'killed'), after)
  after.pass(retentionMs)
  await again.applyRetention()
  assert.equal(again.lastDeletedSeq, 0)
  after.pass(1)
  await again.applyRetention()
  assert.equal(again.lastDeletedSeq, 4)
  await again.close()
})

test('a count that is lost or damaged begins again: everything is kept for the whole window', async () => {
  for (const spoil of ['missing', 'torn', 'damaged'] as const) {
    using directory = temporaryDirectory()
    const clock = new VirtualClock()
    const log = await openAt(directory.path, clock)
    for (let i = 0; i < 4; i++) await append(log)
    clock.pass(retentionMs)
    await log.close()
    const path = join(directory.path, 'open-time')
    const text = readFileSync(path, 'utf8')
    if (spoil === 'missing') rmSync(path)
    else if (spoil === 'torn') writeFileSync(path, text.slice(0, -5))
    else writeFileSync(path, text.replace('"openMs":2', '"openMs":9'))
    const after = clock.restarted(0)
    const again = await openAt(directory.path, after)
    after.pass(retentionMs)
    await again.applyRetention()
    assert.equal(again.lastDeletedSeq, 0, spoil)
    after.pass(1)
    await again.applyRetention()
    assert.equal(again.lastDeletedSeq, 2, spoil)
    await again.close()
  }
})

test('a log that ends while an earlier save is under way keeps its count', async () => {
  using directory = temporaryDirectory()
  const clock = new VirtualClock()
  const underWay = new Set<string>()
  const disk: Disk = {
    ...quickDisk,
    open: (path, flags, done) => {
      assert.ok(!underWay.has(path), `${path} is written twice at a time`)
      if (path.endsWith('.tmp')) underWay.add(path)
      quickDisk.open(path, flags, done)
    },
    rename: (from, to, done) =>
      quickDisk.rename(from, to, (error) => {
        underWay.delete(from)
        done(error)
      }),
  }
  const log = await EventLog.open({ directory: directory.path, clock, retentionMs, disk })
  await append(log)
  clock.pass(hourMs)
  await log.applyRetention()
  clock.pass(hourMs)
  await log.applyRetention()
  await log.close()
  const after = clock.restarted(0)
  const again = await openAt(directory.path, after)
  after.pass(retentionMs - 2 * hourMs)
  await append(again)
  await append(again)
  await again.applyRetention()
  assert.equal(again.lastDeletedSeq, 0)
  after.pass(1)
  await again.applyRetention()
  assert.equal(again.lastDeletedSeq, 1)
  await again.close()
})

test("records' times never go back, over a restart either, and go on when the date has caught up", async () => {
  using directory = temporaryDirectory()
  const clock = new VirtualClock()
  const startMs = clock.wallMs()
  const log = await openAt(directory.path, clock)
  await append(log)
  clock.setWall(startMs - 5000)
  await append(log)
  await log.close()
  const after = clock.restarted(1000)
  const again = await openAt(directory.path, after)
  await append(again)
  after.pass(10_000)
  await append(again)
  assert.deepEqual(await timesIn(again), [startMs, startMs, startMs, startMs + 6000])
  await again.close()
})

test('whatever date anybody sets, nothing goes before the window has really passed, and everything goes soon after', async () => {
  const hours = fc.integer({ min: 0, max: 100 })
  const step = fc.oneof(
    fc.record({ kind: fc.constant('pass' as const), hours }),
    fc.record({ kind: fc.constant('date' as const), years: fc.integer({ min: -30, max: 30 }) }),
    fc.record({ kind: fc.constant('append' as const), count: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ kind: fc.constant('retain' as const) }),
    fc.record({ kind: fc.constant('end' as const), downHours: hours }),
    fc.record({ kind: fc.constant('kill' as const), downHours: hours }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      using root = temporaryDirectory()
      let directory = join(root.path, '0')
      let clock = new VirtualClock()
      let log = await openAt(directory, clock)
      let openMs = 0
      const writtenAt = new Map<number, number>()
      const pass = (ms: number): void => {
        openMs += ms
        clock.pass(ms)
      }
      const check = (): void => {
        for (const [seq, atMs] of writtenAt)
          if (openMs - atMs <= retentionMs) assert.ok(log.lastDeletedSeq < seq, `seq ${seq} went early`)
      }
      for (const [i, step] of steps.entries()) {
        if (step.kind === 'pass') {
          // The owner asks every minute.
          for (let half = 0; half < 2 * step.hours; half++) {
            pass(hourMs / 2)
            await log.applyRetention()
          }
        } else if (step.kind === 'date') clock.setWall(clock.wallMs() + step.years * yearMs)
        else if (step.kind === 'append')
          for (let n = 0; n < step.count; n++) writtenAt.set(await append(log), openMs)
        else if (step.kind === 'retain') await log.applyRetention()
        else {
          const killed = join(root.path, String(i + 1))
          if (step.kind === 'kill') cpSync(directory, killed, { recursive: true })
          await log.close()
          if (step.kind === 'kill') directory = killed
          clock = clock.restarted(step.downHours * hourMs)
          log = await openAt(directory, clock)
        }
        check()
      }
      // A kill forgets less than an hour here.
      pass(retentionMs + steps.length * hourMs)
      await log.applyRetention()
      assert.ok(log.files.length <= 1)
      await log.close()
    }),
    { numRuns: 40 },
  )
})

test('files that go hold up nobody: a thread removes one after the other, and a close waits for it', async () => {
  using directory = temporaryDirectory()
  const removals: { name: string; go: () => void }[] = []
  const disk: Disk = {
    ...quickDisk,
    unlink: (path, done) =>
      void removals.push({ name: basename(path), go: () => quickDisk.unlink(path, done) }),
  }
  const log = await EventLog.open({ directory: directory.path, fileBytesMax, tailBytesMax: 0, disk })
  for (let i = 0; i < 6; i++) await append(log)
  void log.dropThrough(2)
  let isGone = false
  void log.dropThrough(4).then(() => (isGone = true))
  // To readers they are gone, and the log goes on.
  assert.deepEqual([log.lastDeletedSeq, (await timesIn(log)).length, await append(log)], [4, 2, 7])
  let isClosed = false
  const closed = log.close().then(() => (isClosed = true))
  await pause(50)
  const removed: string[] = []
  while (removed.length < 4) {
    assert.ok(!isClosed && !isGone && removals.length <= 1)
    const removal = removals.shift()
    if (removal) removed.push(removal.name)
    removal?.go()
    await pause(1)
  }
  await closed
  assert.ok(isGone)
  const names = ['0000000000000001', '0000000000000003'].flatMap((seq) => [
    `${seq}.tlog.idx`,
    `${seq}.tlog.gone`,
  ])
  assert.deepEqual(removed, names)
  assert.deepEqual(
    readdirSync(directory.path).filter((name) => names.includes(name)),
    [],
  )
})

test('a large file is removed in parts, and what a kill leaves of it goes at the next start', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'log')
  const lengths: number[] = []
  const disk: Disk = {
    ...quickDisk,
    ftruncate: (fd, length, done) =>
      quickDisk.ftruncate(fd, length, (error) => {
        if (isRemoving) lengths.push(length)
        if (isRemoving && lengths.length === 2)
          cpSync(path, join(directory.path, 'killed'), { recursive: true })
        done(error)
      }),
  }
  let isRemoving = false
  const log = await EventLog.open({ directory: path, fileBytesMax: 14_000_000, tailBytesMax: 0, disk })
  for (let i = 0; i < 15; i++) log.append(meta, Buffer.alloc(1_000_000))
  await log.flush()
  const [first] = log.files
  isRemoving = true
  await log.dropThrough(first?.lastSeq ?? 0)
  assert.ok(first && lengths.length === 3, lengths.join())
  const parts = [first.bytes, ...lengths].map((length, at) => length - (lengths[at] ?? 0))
  assert.ok(
    parts.every((bytes) => bytes > 0 && bytes <= 4 * 1024 * 1024),
    parts.join(),
  )
  const names = (of: string): string[] => readdirSync(of).filter((name) => name.startsWith('0'))
  assert.deepEqual(names(path), [`${first.lastSeq + 1}.tlog`.padStart(21, '0')])
  await log.close()
  const killed = join(directory.path, 'killed')
  assert.equal(names(killed).length, 2)
  const again = await EventLog.open({ directory: killed, tailBytesMax: 0 })
  assert.deepEqual([names(killed), again.oldestSeq], [names(path), first.lastSeq + 1])
  await again.close()
})

test('a copy that an operator made of the log by further names of its files stays whole', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'log')
  const log = await EventLog.open({ directory: path, fileBytesMax: 6_000_000, tailBytesMax: 0 })
  for (let i = 0; i < 8; i++) log.append(meta, Buffer.alloc(1_000_000))
  await log.flush()
  const [first = assert.fail()] = log.files
  const copy = join(directory.path, 'copy')
  linkSync(join(path, first.name), copy)
  const before = readFileSync(copy)
  await log.dropThrough(first.lastSeq)
  await log.close()
  assert.deepEqual(
    readdirSync(path).filter((name) => name.startsWith(first.name)),
    [],
  )
  assert.ok(before.equals(readFileSync(copy)))
})

test('a file that is gone already, because an operator removed it, does not end the log', async () => {
  using directory = temporaryDirectory()
  const log = await EventLog.open({ directory: directory.path, fileBytesMax, tailBytesMax: 0 })
  for (let i = 0; i < 6; i++) await append(log)
  for (const name of readdirSync(directory.path).filter((each) => each.startsWith('0000000000000001')))
    rmSync(join(directory.path, name))
  await log.dropThrough(4)
  assert.deepEqual([await append(log), log.oldestSeq], [7, 5])
  assert.deepEqual(
    readdirSync(directory.path).filter((name) => name.startsWith('0000000000000003')),
    [],
  )
  await log.close()
})

test('after a close no file goes any more, though a reader of it ends only then', async () => {
  using directory = temporaryDirectory()
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  const open: Disk['promises']['open'] = async (path, flags) => {
    const handle = await quickDisk.promises.open(path, flags)
    const read: typeof handle.read = async (...place) => {
      await held
      return await handle.read(...place)
    }
    return { read, close: async () => await handle.close() }
  }
  const disk: Disk = { ...quickDisk, promises: { open } }
  const log = await EventLog.open({ directory: directory.path, fileBytesMax, tailBytesMax: 0, disk })
  for (let i = 0; i < 6; i++) await append(log)
  const read = log.read(0, 1)
  await log.dropThrough(2)
  await log.close()
  const again = await EventLog.open({ directory: directory.path, fileBytesMax, tailBytesMax: 0 })
  release()
  await assert.rejects(read, { code: 'EBADF' })
  await pause(50)
  assert.equal((await again.read(0, 1))[0]?.firstSeq, 1)
  await again.close()
})
