/** Single states that a power cut leaves. Random ones: `power.test.ts`. */
import assert from 'node:assert/strict'
import fs, { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { PowerDisk, randomFrom } from '@tributary/testkit/disk'
import type { Disk } from '../src/disk.ts'
import { backUpLog, EventLog, LogWriteError, verifyLog } from '../src/index.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }

function temporaryDirectory(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), 'event-log-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** A disk below a temporary directory, in a directory of its own. */
function diskIn(directory: string): { disk: PowerDisk; root: string } {
  const root = join(directory, 'root')
  mkdirSync(root)
  return { disk: new PowerDisk({ root, random: randomFrom(1) }), root }
}

async function seqsIn(directory: string): Promise<number[]> {
  const log = await EventLog.open({ directory })
  const seqs: number[] = []
  for await (const slice of log.replay(0))
    for (let row = 0; row < slice.count; row++) seqs.push(slice.seqAt(row))
  await log.close()
  return seqs
}

test('a new log is there after a power cut, with every directory above it', async () => {
  using directory = temporaryDirectory()
  const { disk, root } = diskIn(directory.path)
  const log = await EventLog.open({ directory: join(root, 'new', 'log'), disk })
  log.append(meta, Buffer.from('first'))
  await log.flush()
  disk.materialize(join(directory.path, 'cut'), 0)
  assert.deepEqual(await seqsIn(join(directory.path, 'cut', 'new', 'log')), [1])
  await log.close()
})

test('a backup is there after a power cut, with every directory above it', async () => {
  using directory = temporaryDirectory()
  const { disk, root } = diskIn(directory.path)
  const log = await EventLog.open({ directory: join(root, 'log'), fileBytesMax: 200, disk })
  for (let i = 0; i < 3; i++) {
    log.append(meta, Buffer.alloc(100))
    await log.flush()
  }
  await backUpLog(join(root, 'log'), join(root, 'backups', 'today'), { disk })
  disk.materialize(join(directory.path, 'cut'), 0)
  assert.deepEqual(await seqsIn(join(directory.path, 'cut', 'backups', 'today')), [1, 2, 3])
  await log.close()
})

test('files that retention deletes never come back with a hole behind them', async () => {
  using directory = temporaryDirectory()
  const { disk, root } = diskIn(directory.path)
  const log = await EventLog.open({ directory: join(root, 'log'), fileBytesMax: 200, disk })
  for (let i = 0; i < 6; i++) {
    log.append(meta, Buffer.alloc(100))
    await log.flush()
  }
  await log.dropThrough(5)
  for (let state = 0; state < 40; state++) {
    const cut = join(directory.path, `cut-${state}`)
    disk.materialize(cut, 0.5)
    const seqs = await seqsIn(join(cut, 'log'))
    assert.deepEqual(seqs, [1, 2, 3, 4, 5, 6].slice((seqs[0] ?? 0) - 1))
  }
  await log.close()
})

test('no file is deleted before the file after it is durable, when records are shown before', async () => {
  using directory = temporaryDirectory()
  const removed: number[] = []
  const disk: Disk = {
    ...fs,
    unlink: (path, done) => {
      const seq = Number.parseInt(basename(path), 10)
      if (seq >= log.durableSeq) assert.fail(`file ${seq} goes when ${log.durableSeq} is durable`)
      removed.push(seq)
      fs.unlink(path, done)
    },
  }
  // Each file has one record.
  const log = await EventLog.open({ directory: directory.path, fileBytesMax: 200, visible: 'written', disk })
  log.onVisible(() => void log.dropThrough(log.visibleSeq))
  for (let i = 0; i < 5; i++) {
    log.append(meta, Buffer.alloc(100))
    await log.flush()
  }
  await log.close()
  assert.deepEqual([...new Set(removed)], [1, 2, 3])
})

test('a torn tail that a start cut never comes back after new records', async () => {
  using directory = temporaryDirectory()
  const root = join(directory.path, 'root')
  const path = join(root, 'log')
  const append = async (log: EventLog, count: number): Promise<void> => {
    // Each is a block of its own, for more than 64 kB make one.
    for (let i = 0; i < count; i++) log.append(meta, Buffer.alloc(66_000))
    await log.flush()
  }
  const first = await EventLog.open({ directory: path })
  await append(first, 1)
  await append(first, 3)
  cpSync(path, join(directory.path, 'killed'), { recursive: true })
  await first.close()
  rmSync(path, { recursive: true })
  cpSync(join(directory.path, 'killed'), path, { recursive: true })
  const file = join(path, '0000000000000001.tlog')
  const bytes = readFileSync(file)
  // Behind the mark, the second block is torn and the third is whole.
  bytes.writeUInt8(1, bytes.indexOf('TLB1', 4))
  writeFileSync(file, bytes)
  const disk = new PowerDisk({ root, random: randomFrom(1) })
  const log = await EventLog.open({ directory: path, disk })
  assert.equal(log.visibleSeq, 1)
  const next = log.nextSeq
  await append(log, 1)
  disk.materialize(join(directory.path, 'cut'), 0)
  await log.close()
  assert.deepEqual(await seqsIn(join(directory.path, 'cut', 'log')), [1, next])
})

test('a log whose first file was just made, and that has no lease yet, is not damaged', async () => {
  using directory = temporaryDirectory()
  writeFileSync(join(directory.path, '0000000000000001.tlog'), Buffer.alloc(4096))
  assert.deepEqual((await verifyLog(directory.path)).damage, [])
  assert.deepEqual(await seqsIn(directory.path), [])
})

test('what a failed write has left in memory alone is written again by the next start', async () => {
  for (const visible of ['durable', 'written'] as const) {
    using directory = temporaryDirectory()
    const { disk, root } = diskIn(directory.path)
    const path = join(root, 'log')
    const log = await EventLog.open({ directory: path, disk, visible })
    log.append(meta, Buffer.from('first'))
    await log.flush()
    // Zeros are made ready first. That write is a sync where no other follows.
    disk.failNext(visible === 'durable' ? 1 : 0)
    log.append(meta, Buffer.from('second'))
    await assert.rejects(log.flush(), LogWriteError)
    await log.close()

    const again = await EventLog.open({ directory: path, disk, visible })
    assert.equal(again.durableSeq, 2)
    const next = again.nextSeq
    again.append(meta, Buffer.from('next'))
    await again.flush()
    disk.materialize(join(directory.path, 'cut'), 0)
    await again.close()
    assert.deepEqual(await seqsIn(join(directory.path, 'cut', 'log')), [1, 2, next])
  }
})

test('an empty file that a start removed never comes back between others', async () => {
  using directory = temporaryDirectory()
  const { disk, root } = diskIn(directory.path)
  const path = join(root, 'log')
  const log = await EventLog.open({ directory: path, disk })
  log.append(meta, Buffer.from('first'))
  await log.flush()
  await log.close()
  // It was made for the next record, and the program was killed.
  const begin = (name: string) => disk.closeSync(disk.openSync(join(path, name), 'wx'))
  begin('0000000000000002.tlog')
  const names = disk.openSync(path, 'r')
  disk.fsyncSync(names)
  disk.closeSync(names)
  const again = await EventLog.open({ directory: path, disk })
  begin('0000000000000003.tlog')
  for (let state = 0; state < 20; state++) {
    const cut = join(directory.path, `cut-${state}`)
    disk.materialize(cut, 0.5)
    assert.deepEqual(await seqsIn(join(cut, 'log')), [1])
  }
  await again.close()
})
