/** Moments and places where a log is easily wrong by one: between write and sync, at the ends of memory and files. */
import assert from 'node:assert/strict'
import fs, { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Disk, ReadHandle } from '../src/disk.ts'
import { EventLog, type LogSlice } from '../src/index.ts'
import { VirtualClock } from './virtual-clock.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }

function temporaryDirectory(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), 'event-log-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** A disk that keeps every write of blocks until it is told to let one go. */
function heldDisk(): { disk: Disk; release: () => void; writes: () => number } {
  const held: (() => void)[] = []
  const disk: Disk = {
    ...fs,
    writev: (fd, buffers, at, done) => {
      if (buffers[0]?.toString('latin1', 0, 4) !== 'TLB1') fs.writev(fd, buffers, at, done)
      else held.push(() => fs.writev(fd, buffers, at, done))
    },
  }
  return { disk, release: () => held.shift()?.(), writes: () => held.length }
}

const seqsOf = (slices: readonly LogSlice[]): number[] =>
  slices.flatMap((slice) => Array.from({ length: slice.count }, (_, row) => slice.seqAt(row)))

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i)

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await turn()
}

test('what is appended during a write is not durable, nor flushed, when that write is', async () => {
  using directory = temporaryDirectory()
  const { disk, release, writes } = heldDisk()
  const log = await EventLog.open({ directory: directory.path, disk })
  const told: string[] = []
  log.onVisible((slices) => told.push(`visible ${seqsOf(slices).join()}, durable ${log.durableSeq}`))
  log.onDurable((seq) => told.push(`durable ${seq} ${log.durableSeq}`))
  log.append(meta, Buffer.alloc(10))
  await until(() => writes() === 1)
  log.append(meta, Buffer.alloc(10))
  let isFlushed = false
  const flush = log.flush().then(() => (isFlushed = true))
  assert.equal(log.durableSeq, 0)
  release()
  await until(() => writes() === 1)
  await turn()
  assert.deepEqual([log.durableSeq, log.visibleSeq, isFlushed], [1, 1, false])
  release()
  await flush
  assert.deepEqual(told, ['visible 1, durable 0', 'durable 1 1', 'visible 2, durable 1', 'durable 2 2'])
  await log.close()
})

test('of records that take more than one write only those that were written are durable', async () => {
  using directory = temporaryDirectory()
  const { disk, release, writes } = heldDisk()
  const log = await EventLog.open({ directory: directory.path, disk })
  for (let i = 0; i < 100; i++) log.append(meta, Buffer.alloc(66_000))
  await until(() => writes() === 1)
  release()
  await until(() => writes() === 1)
  assert.ok(log.durableSeq > 10 && log.durableSeq < 90)
  assert.equal(log.durableSeq, log.visibleSeq)
  release()
  await log.flush()
  assert.equal(log.durableSeq, 100)
  await log.close()
})

test('bytes that wait are counted from the append on, and given back when they are durable', async () => {
  using directory = temporaryDirectory()
  const log = await EventLog.open({ directory: directory.path })
  for (const sizes of [[1000], [10, 20, 30], [200_000, 1], [0]]) {
    for (const size of sizes) log.append(meta, Buffer.alloc(size))
    const appended = sizes.reduce((sum, size) => sum + size, 0)
    assert.equal(log.pendingBytes, appended)
    await log.flush()
    assert.equal(log.pendingBytes, 0)
  }
  await log.close()
})

test('a reader after any record gets the next one, whether memory, a file or the next file has it', async () => {
  for (const recordsPerBlock of [1, 3]) {
    using directory = temporaryDirectory()
    const tailBytesMax = 250_000
    const options = { directory: directory.path, fileBytesMax: 1_000_000, tailBytesMax }
    const log = await EventLog.open(options)
    for (let seq = 1; seq <= 60; seq++) {
      log.append(meta, Buffer.alloc(20_000, seq))
      if (seq % recordsPerBlock === 0) await log.flush()
    }
    assert.ok(log.files.length > 1 && log.files.some(({ points }) => points.length > 1))
    const check = async (open: EventLog): Promise<number> => {
      let fromMemory = 0
      for (const afterSeq of range(0, 60)) {
        for (const maxBytes of [1, 100_000]) {
          const seqs = seqsOf(await open.read(afterSeq, maxBytes))
          assert.deepEqual(seqs, range(afterSeq + 1, afterSeq + seqs.length))
          assert.equal(seqs.length > 0, afterSeq < 60)
        }
        const slices = open.readMemory(afterSeq, Infinity)
        if (!slices) continue
        fromMemory++
        assert.deepEqual(seqsOf(slices), range(afterSeq + 1, 60))
      }
      // Readers that go on from where they were.
      for (let position = 0; position < 60;) {
        const seqs = seqsOf(await open.read(position, 1))
        assert.deepEqual(seqs, range(position + 1, position + seqs.length))
        position = seqs.at(-1) ?? Infinity
      }
      return fromMemory
    }
    const fromMemory = await check(log)
    assert.ok(fromMemory > 5 && fromMemory < 20)
    await log.close()
    const again = await EventLog.open(options)
    assert.equal(await check(again), 0)
    await again.close()
  }
})

test('a file that retention takes from under a reader is read to the end, and then goes', async () => {
  using directory = temporaryDirectory()
  let held: Promise<void> | undefined
  const open: Disk['promises']['open'] = async (path, flags) => {
    await held
    const handle = await fs.promises.open(path, flags)
    const read: ReadHandle['read'] = async (...place) => {
      await held
      return await handle.read(...place)
    }
    return { read, close: async () => await handle.close() }
  }
  const log = await EventLog.open({
    directory: directory.path,
    fileBytesMax: 1000,
    tailBytesMax: 0,
    disk: { ...fs, promises: { open } },
  })
  for (let i = 0; i < 9; i++) {
    log.append(meta, Buffer.alloc(200, i))
    await log.flush()
  }
  const [first] = log.files
  assert.ok(first)
  const path = join(directory.path, first.name)
  // One that opens the file itself, and one that has it open.
  for (const after of [0, 1]) {
    const { promise, resolve } = Promise.withResolvers<void>()
    held = promise
    const read = log.read(after, 100_000)
    if (after === 1) await log.dropThrough(first.lastSeq)
    assert.ok(existsSync(path))
    resolve()
    assert.deepEqual(seqsOf(await read), range(after + 1, first.lastSeq))
  }
  await log.dropThrough(0)
  assert.deepEqual([existsSync(path), log.oldestSeq], [false, first.lastSeq + 1])
  assert.equal(seqsOf(await log.read(0, 1))[0], first.lastSeq + 1)
  await log.close()
})

test('a file that cannot be removed after it was read ends the log', async () => {
  using directory = temporaryDirectory()
  const [opening, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const open: Disk['promises']['open'] = async (path, flags) => {
    opening.resolve()
    await held.promise
    return await fs.promises.open(path, flags)
  }
  const disk: Disk = {
    ...fs,
    promises: { open },
    unlink: (_path, done) => setImmediate(() => done(new Error('EIO'))),
  }
  const log = await EventLog.open({ directory: directory.path, fileBytesMax: 1000, tailBytesMax: 0, disk })
  const failures: string[] = []
  log.onFailure(({ message }) => failures.push(message))
  for (let i = 0; i < 9; i++) {
    log.append(meta, Buffer.alloc(200, i))
    await log.flush()
  }
  const read = log.read(0, 100_000)
  await opening.promise
  await log.dropThrough(log.files[0]?.lastSeq ?? 0)
  assert.deepEqual(failures, [])
  held.resolve()
  await read
  for (let turns = 0; turns < 3; turns++) await turn()
  assert.match(failures.join(), /EIO/)
  await log.close()
})

test('a log whose disk failed deletes nothing any more', async () => {
  using directory = temporaryDirectory()
  let isBroken = false
  const disk: Disk = {
    ...fs,
    writev: (fd, buffers, at, done) =>
      isBroken ? setImmediate(() => done(new Error('EIO'), 0)) : fs.writev(fd, buffers, at, done),
  }
  // More than 16 kB are written with a thread.
  const log = await EventLog.open({ directory: directory.path, fileBytesMax: 20_000, disk })
  for (let i = 0; i < 3; i++) {
    log.append(meta, Buffer.alloc(19_000))
    await log.flush()
  }
  isBroken = true
  log.append(meta, Buffer.alloc(19_000))
  await assert.rejects(log.flush())
  await log.dropThrough(2)
  assert.equal(log.oldestSeq, 1)
  await log.close()
})

test('a block of more records than are reserved at a time reaches no number that a start could give out again', async () => {
  using directory = temporaryDirectory()
  const log = await EventLog.open({ directory: join(directory.path, 'log'), leaseSize: 4 })
  for (let i = 0; i < 50; i++) log.append(meta, Buffer.alloc(10))
  await log.flush()
  cpSync(join(directory.path, 'log'), join(directory.path, 'killed'), { recursive: true })
  await log.close()
  const again = await EventLog.open({ directory: join(directory.path, 'killed') })
  assert.ok(again.nextSeq > 50)
  await again.close()
})

test('zeros that take long to be written ahead go over no block', async () => {
  using directory = temporaryDirectory()
  let zeros = 0
  const disk: Disk = {
    ...fs,
    writev: (fd, buffers, at, done) => {
      if (buffers[0]?.[0] !== 0) return fs.writev(fd, buffers, at, done)
      zeros++
      setTimeout(() => fs.writev(fd, buffers, at, done), 20)
    },
  }
  // On a clock that stands the disk is quick, so that small commits are made at once.
  const clock = new VirtualClock()
  const log = await EventLog.open({ directory: directory.path, disk, clock })
  for (let i = 0; i < 200; i++) {
    log.append(meta, Buffer.alloc(8000, 1))
    await log.flush()
  }
  assert.ok(zeros > 1)
  await log.close()
  const again = await EventLog.open({ directory: directory.path })
  const seqs: number[] = []
  for await (const slice of again.replay(0)) seqs.push(...seqsOf([slice]))
  assert.deepEqual(seqs, range(1, 200))
  await again.close()
})
