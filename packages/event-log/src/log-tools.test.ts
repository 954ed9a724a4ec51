import assert from 'node:assert/strict'
import fs, {
  constants,
  cpSync,
  existsSync,
  fstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { systemDisk, type Disk } from './disk.ts'
import {
  backUpLog,
  EventLog,
  LogCorruptError,
  LogLockedError,
  readStoredLog,
  repairLog,
  verifyLog,
} from './index.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }
const root = mkdtempSync(join(tmpdir(), 'event-log-tools-'))
after(() => rmSync(root, { recursive: true }))

/** A log of 60 records in several files, two records a block, ended in order. */
const original = join(root, 'original')
const log = await EventLog.open({ directory: original, fileBytesMax: 4000, leaseSize: 1000 })
for (let seq = 1; seq <= 60; seq++) {
  log.append(meta, Buffer.from(`record ${seq} ${'.'.repeat(200)}`))
  if (seq % 2 === 0) await log.flush()
}
await log.close()

let copies = 0
function copyOf(directory: string): string {
  const copy = join(root, `copy-${++copies}`)
  cpSync(directory, copy, { recursive: true })
  return copy
}

function logFiles(directory: string): string[] {
  return readdirSync(directory).filter((name) => name.endsWith('.tlog'))
}

/** Flips a bit of a file. A negative offset counts from its end. */
function damage(path: string, offset: number): void {
  const bytes = readFileSync(path)
  const at = offset < 0 ? bytes.length + offset : offset
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)
  writeFileSync(path, bytes)
}

async function storedSeqs(directory: string, afterSeq = 0): Promise<number[]> {
  const seqs: number[] = []
  for await (const slice of readStoredLog(directory, afterSeq))
    for (let row = 0; row < slice.count; row++) seqs.push(slice.seqAt(row))
  return seqs
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i)

test('a whole log has no damage, and every record can be read without opening it', async () => {
  const { files, damage, tornBytes, lease } = await verifyLog(original)
  assert.deepEqual([damage, tornBytes, lease?.limit], [[], 0, 61])
  assert.ok(files.length > 3)
  assert.equal(
    files.reduce((sum, { records }) => sum + records, 0),
    60,
  )
  assert.deepEqual([files[0]?.firstSeq, files.at(-1)?.lastSeq], [1, 60])
  assert.deepEqual(await storedSeqs(original, 41), range(42, 60))
  const { before, replaced, nextSeq } = await repairLog(copyOf(original), { how: 'skip' })
  assert.deepEqual([before.damage, replaced, nextSeq], [[], [], 61])
})

test('damage in any file is found, and skipping it loses no whole record and gives no number out again', async () => {
  for (const position of [0, 1, -1]) {
    const directory = copyOf(original)
    const name = logFiles(directory).at(position) ?? ''
    // The last byte of a file belongs to the payload of its last record.
    damage(join(directory, name), -1)
    const { damage: found } = await verifyLog(directory)
    assert.deepEqual(
      found.map(({ file, what }) => [file, what]),
      [[name, 'a payload fails its checksum']],
    )
    const lost = (await verifyLog(original)).files.find((file) => file.name === name)?.lastSeq ?? 0
    const { recordsKept, recordsLost, nextSeq, replaced } = await repairLog(directory, { how: 'skip' })
    assert.deepEqual([recordsKept, recordsLost, nextSeq, replaced], [59, 1, 61, [name]])
    assert.deepEqual((await verifyLog(directory)).damage, [])
    const again = await EventLog.open({ directory })
    assert.equal(again.append(meta, Buffer.from('next')), 61)
    await again.close()
    assert.deepEqual(
      await storedSeqs(directory),
      range(1, 61).filter((seq) => seq !== lost),
    )
    assert.ok(readdirSync(directory).includes(`${name}.damaged`), 'the damaged file is kept')
  }
})

test('a block that is no block any more is skipped whole', async () => {
  const directory = copyOf(original)
  const name = logFiles(directory)[1] ?? ''
  const first = Number.parseInt(name, 10)
  damage(join(directory, name), 8)
  assert.deepEqual(
    (await verifyLog(directory)).damage.map(({ offset, what }) => [offset, what]),
    [[0, 'no whole block']],
  )
  const { bytes = 0 } = (await verifyLog(directory)).damage[0] ?? {}
  const { recordsKept, recordsLost, bytesUnreadable } = await repairLog(directory, { how: 'skip' })
  // What cannot be counted is not said to be nothing.
  assert.ok(bytes > 0)
  assert.deepEqual([recordsKept, recordsLost, bytesUnreadable], [58, 0, bytes])
  assert.deepEqual(
    await storedSeqs(directory),
    range(1, 60).filter((seq) => seq !== first && seq !== first + 1),
  )
})

test('a finished file whose last block reads as zeros is damaged, and can be repaired', async () => {
  const directory = copyOf(original)
  const path = join(directory, logFiles(directory)[1] ?? '')
  const { size } = statSync(path)
  truncateSync(path, readFileSync(path).lastIndexOf('TLB1'))
  truncateSync(path, size)
  rmSync(`${path}.idx`)
  const { damage: found } = await verifyLog(directory)
  assert.equal(found.length, 1)
  await repairLog(directory, { how: 'skip' })
  const again = await EventLog.open({ directory })
  await again.close()
  assert.equal((await storedSeqs(directory)).length, 58)
})

test('cutting ends the log before the first damage, and numbers still go on behind everything there was', async () => {
  const directory = copyOf(original)
  const name = logFiles(directory)[1] ?? ''
  damage(join(directory, name), -1)
  const { recordsKept, nextSeq, replaced } = await repairLog(directory, { how: 'cut' })
  assert.ok(recordsKept > 10 && recordsKept < 40)
  assert.equal(replaced.length, logFiles(original).length - 1)
  assert.equal(nextSeq, 61)
  const again = await EventLog.open({ directory })
  assert.equal(again.append(meta, Buffer.from('next')), 61)
  await again.close()
  assert.deepEqual(await storedSeqs(directory), [...range(1, recordsKept), 61])
})

test('a lost lease is replaced far behind every record, a floor is kept to', async () => {
  const directory = copyOf(original)
  writeFileSync(join(directory, 'lease'), 'x')
  await assert.rejects(EventLog.open({ directory }), LogCorruptError)
  assert.equal((await repairLog(directory, { how: 'skip' })).nextSeq, 1_000_060)
  assert.equal((await repairLog(directory, { how: 'skip', floorSeq: 5_000_000 })).nextSeq, 5_000_000)
  const again = await EventLog.open({ directory })
  assert.equal(again.nextSeq, 5_000_000)
  await assert.rejects(repairLog(directory, { how: 'cut' }), LogLockedError)
  await again.close()
})

test('a torn tail is no damage: a start cuts it', async () => {
  const directory = copyOf(original)
  const open = await EventLog.open({ directory })
  open.append(meta, Buffer.from('torn'))
  await open.flush()
  const killed = copyOf(directory)
  await open.close()
  const path = join(killed, logFiles(killed).at(-1) ?? '')
  // Zeros may follow the block.
  damage(
    path,
    readFileSync(path).findLastIndex((byte) => byte !== 0),
  )
  const { damage: found, tornBytes } = await verifyLog(killed)
  assert.deepEqual(found, [])
  assert.ok(tornBytes > 0)
  await (await EventLog.open({ directory: killed })).close()
  assert.deepEqual(await storedSeqs(killed), range(1, 60))
})

test('a copy made while the log is written is a log of its own that skips what may have been given out since', async () => {
  const directory = copyOf(original)
  const open = await EventLog.open({ directory, leaseSize: 1000 })
  open.append(meta, Buffer.from([61, 0, 0, 0]))
  await open.flush()
  // As when zeros have been written ahead of what comes next.
  const newest = join(directory, logFiles(directory).at(-1) ?? '')
  truncateSync(newest, statSync(newest).size + 8192)
  const copy = join(root, 'backup')
  assert.equal((await backUpLog(directory, copy)).lastSeq, 61)
  assert.equal(open.append(meta, Buffer.from('62')), 62)
  await open.close()
  assert.deepEqual((await verifyLog(copy)).damage, [])
  const restored = await EventLog.open({ directory: copy })
  assert.ok(restored.nextSeq > 1_000_000)
  await restored.close()
  assert.deepEqual(await storedSeqs(copy), range(1, 61))
})

test('a repair that is stopped at any change of a name loses nothing that the next one would keep', async (t) => {
  for (let stopAt = 1; ; stopAt++) {
    const directory = copyOf(original)
    const [, second = ''] = logFiles(directory)
    damage(join(directory, second), -5)
    let changes = 0
    const { renameSync } = fs
    const stopping = t.mock.method(fs, 'renameSync', (from: string, to: string) => {
      if (from.includes(second) && ++changes === stopAt) throw new Error('stopped')
      renameSync(from, to)
    })
    syncBuiltinESMExports()
    const repair = repairLog(directory, { how: 'skip' })
    const isStopped = await repair.then(
      () => false,
      () => true,
    )
    stopping.mock.restore()
    syncBuiltinESMExports()
    if (!isStopped) return assert.ok(stopAt > 1)
    await repairLog(directory, { how: 'skip' })
    assert.equal((await storedSeqs(directory)).length, 59)
  }
})

test('what a repair replaces is kept beside what an earlier one has replaced', async () => {
  const directory = copyOf(original)
  const [name = ''] = logFiles(directory)
  const path = join(directory, name)
  const first = readFileSync(path)
  damage(path, -5)
  const second = readFileSync(path)
  await repairLog(directory, { how: 'skip' })
  const repaired = readFileSync(path)
  damage(path, 200)
  await repairLog(directory, { how: 'skip' })
  assert.notDeepEqual(repaired, first)
  assert.deepEqual(readFileSync(`${path}.damaged`), second)
  assert.equal(readFileSync(`${path}.damaged2`).length, repaired.length)
})

test('a backup leaves out the oldest files that go meanwhile, and fails when the next one went after it had the first', async () => {
  for (const hasFirst of [false, true]) {
    const directory = copyOf(original)
    let copied = 0
    const disk: Disk = {
      ...systemDisk,
      copyFile: (from, to, mode, done) => {
        if (copied++ === (hasFirst ? 1 : 0))
          for (const name of logFiles(original).slice(0, 2)) rmSync(join(directory, name))
        systemDisk.copyFile(from, to, mode, done)
      },
    }
    const copy = `${directory}-backup`
    const backup = backUpLog(directory, copy, { disk })
    if (hasFirst) await assert.rejects(backup, { code: 'ENOENT' })
    else {
      await backup
      assert.deepEqual(logFiles(copy), logFiles(original).slice(2))
    }
  }
})

/** A log of four records in two files. */
async function logWithLargeFiles(): Promise<{ directory: string; first: string }> {
  const directory = join(root, `large-${++copies}`)
  const large = await EventLog.open({ directory, fileBytesMax: 3_500_000 })
  for (let seq = 1; seq <= 4; seq++) {
    large.append(meta, Buffer.alloc(1_500_000, seq))
    await large.flush()
  }
  await large.close()
  const [first = ''] = logFiles(directory)
  return { directory, first: join(directory, first) }
}

/** As the log's owner does. */
function removeInParts(path: string): void {
  renameSync(path, `${path}.gone`)
  truncateSync(`${path}.gone`, 4096)
}

test('a file that goes while it is copied is no part of the backup', async () => {
  const { directory, first } = await logWithLargeFiles()
  const { copyFile, writev } = systemDisk
  const disk: Disk = {
    ...systemDisk,
    // As Node does on a file system that gives files no second name.
    copyFile: (from, to, mode, done) => {
      if (mode & constants.COPYFILE_FICLONE_FORCE)
        setImmediate(() => done(Object.assign(new Error('not supported'), { code: 'ENOTSUP' })))
      else copyFile(from, to, mode, done)
    },
    writev: (fd, buffers, at, done) => {
      if (existsSync(first)) removeInParts(first)
      writev(fd, buffers, at, done)
    },
  }
  const copy = `${directory}-backup`
  assert.equal((await backUpLog(directory, copy, { disk })).lastSeq, 4)
  assert.equal(logFiles(copy).length, 1)
  const restored = await EventLog.open({ directory: copy })
  assert.equal(restored.oldestSeq, 3)
  await restored.close()
})

test('a file that goes while it is read is no damage, and is not left out without a word', async (t) => {
  const { readSync } = fs
  let first = ''
  t.after(() => {
    fs.readSync = readSync
    syncBuiltinESMExports()
  })
  fs.readSync = ((fd: number, bytes: Uint8Array, offset: number, length: number, at: number) => {
    // The first record is read whole, the second one is not.
    if (existsSync(first) && at > 1_500_000) removeInParts(first)
    return readSync(fd, bytes, offset, length, at)
  }) as typeof readSync // the overload that the log uses
  syncBuiltinESMExports()
  const checked = await logWithLargeFiles()
  first = checked.first
  const { files, damage } = await verifyLog(checked.directory)
  assert.deepEqual([files.map(({ firstSeq, records }) => [firstSeq, records]), damage], [[[3, 2]], []])
  const read = await logWithLargeFiles()
  first = read.first
  await assert.rejects(storedSeqs(read.directory), { code: 'ENOENT' })
})

test('while a backup is made others have their turn, file by file', async () => {
  const directory = copyOf(original)
  let turns = 0
  let isDone = false
  const count = (): void => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  const turnsAtSyncs: number[] = []
  const disk: Disk = {
    ...systemDisk,
    fdatasync: (fd, done) => {
      turnsAtSyncs.push(turns)
      systemDisk.fdatasync(fd, done)
    },
    fsyncSync: (fd) => {
      assert.ok(fstatSync(fd).isDirectory(), 'a thread syncs what is long')
      systemDisk.fsyncSync(fd)
    },
  }
  const copy = `${directory}-backup`
  await backUpLog(directory, copy, { disk }).finally(() => (isDone = true))
  assert.ok(turnsAtSyncs.length >= 3)
  // Each file is copied, and then synced.
  assert.deepEqual([turnsAtSyncs.length, new Set(turnsAtSyncs).size], Array(2).fill(logFiles(copy).length))
})
