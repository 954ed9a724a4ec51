import assert from 'node:assert/strict'
import fs, { cpSync, mkdtempDisposableSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Disk } from '../src/disk.ts'
import { EventLog } from '../src/index.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }

async function readAll(log: EventLog): Promise<{ seq: number; payload: string }[]> {
  const records: { seq: number; payload: string }[] = []
  for (;;) {
    const slices = await log.read(records.at(-1)?.seq ?? 0, 1000)
    if (slices.length === 0) return records
    for (const slice of slices)
      for (let row = 0; row < slice.count; row++)
        records.push({ seq: slice.seqAt(row), payload: slice.payloadAt(row).toString() })
  }
}

test('a file that is ended can go as a whole, also the newest one, and numbers go on after it', async () => {
  using directory = mkdtempDisposableSync(join(tmpdir(), 'event-log-'))
  const log = await EventLog.open({ directory: directory.path, tailBytesMax: 0 })
  const logFiles = (): string[] => readdirSync(directory.path).filter((name) => name.includes('.tlog'))
  for (const text of ['one', 'two']) log.append(meta, Buffer.from(text))
  await log.flush()
  await log.dropThrough(2)
  assert.equal((await readAll(log)).length, 2)
  const ending = log.endFile()
  log.append(meta, Buffer.from('three'))
  await Promise.all([ending, log.flush()])
  assert.deepEqual([log.files.length, (await readAll(log)).length], [2, 3])
  await log.dropThrough(2)
  assert.deepEqual([logFiles(), log.oldestSeq], [['0000000000000003.tlog'], 3])
  await Promise.all([log.endFile(), log.flush()])
  await log.dropThrough(2)
  assert.equal(log.files.length, 1)
  await log.dropThrough(3)
  assert.deepEqual([logFiles(), await readAll(log), log.lastDeletedSeq], [[], [], 3])
  assert.equal(log.append(meta, Buffer.from('four')), 4)
  await log.endFile()
  await log.close()
  const again = await EventLog.open({ directory: directory.path })
  assert.deepEqual(await readAll(again), [{ seq: 4, payload: 'four' }])
  await again.endFile()
  await again.dropThrough(4)
  await again.close()
  const empty = await EventLog.open({ directory: directory.path })
  assert.deepEqual([await readAll(empty), empty.append(meta, Buffer.from('five'))], [[], 5])
  await empty.close()
})

test('a log whose newest file was dropped starts again after a kill', async () => {
  using directory = mkdtempDisposableSync(join(tmpdir(), 'event-log-'))
  const path = join(directory.path, 'log')
  const log = await EventLog.open({ directory: path, leaseSize: 4 })
  // The lease that is taken meanwhile names the file.
  for (let i = 0; i < 6; i++) {
    log.append(meta, Buffer.from('one'))
    await log.flush()
  }
  await log.endFile()
  await log.dropThrough(6)
  cpSync(path, join(directory.path, 'killed'), { recursive: true })
  await log.close()
  const again = await EventLog.open({ directory: join(directory.path, 'killed') })
  assert.deepEqual([await readAll(again), again.nextSeq > 6], [[], true])
  await again.close()
})

test('a file is ended also while records never cease to come', async () => {
  using directory = mkdtempDisposableSync(join(tmpdir(), 'event-log-'))
  const log = await EventLog.open({ directory: directory.path })
  let isEnded = false
  let more = 200
  log.onVisible(() => {
    if (!isEnded && more-- > 0) log.append(meta, Buffer.from('more'))
  })
  log.append(meta, Buffer.from('one'))
  await new Promise(setImmediate)
  await log.endFile()
  isEnded = true
  assert.ok(more > 190, `${200 - more} records came first`)
  await log.flush()
  const records = await readAll(log)
  assert.deepEqual(
    records.map(({ seq }) => seq),
    records.map((_, i) => i + 1),
  )
  await log.close()
})

test('a log whose disk failed ends no file, and keeps nobody waiting', async () => {
  using directory = mkdtempDisposableSync(join(tmpdir(), 'event-log-'))
  const disk: Disk = {
    ...fs,
    writev: (_fd, _buffers, _at, done) => setImmediate(() => done(new Error('EIO'), 0)),
  }
  const log = await EventLog.open({ directory: directory.path, disk })
  // More than 16 kB are written with a thread.
  log.append(meta, Buffer.alloc(19_000))
  await new Promise(setImmediate)
  const [ended, flushed] = await Promise.allSettled([log.endFile(), log.flush()])
  assert.deepEqual([ended.status, flushed.status], ['fulfilled', 'rejected'])
  await log.endFile()
  await log.close()
})
