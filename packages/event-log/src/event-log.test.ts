import assert from 'node:assert/strict'
import {
  appendFileSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  EventLog,
  LogCorruptError,
  LogLockedError,
  verifyLog,
  type EventLogOptions,
  type LogSlice,
} from './index.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }

function temporaryDirectory(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), 'event-log-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

async function write(options: EventLogOptions, payloads: string[], { perCommit = 1 } = {}): Promise<void> {
  const log = await EventLog.open(options)
  for (const [i, payload] of payloads.entries()) {
    log.append(meta, Buffer.from(payload))
    if ((i + 1) % perCommit === 0) await log.flush()
  }
  await log.close()
}

async function readAll(
  log: EventLog,
  afterSeq = 0,
  maxBytes = 100,
): Promise<{ seq: number; payload: string }[]> {
  const records: { seq: number; payload: string }[] = []
  for (let position = afterSeq; ;) {
    const slices = await log.read(position, maxBytes)
    if (slices.length === 0) return records
    records.push(...slices.flatMap(recordsOf))
    position = slices.at(-1)?.lastSeq ?? position
  }
}

function recordsOf(slice: LogSlice): { seq: number; payload: string }[] {
  return Array.from({ length: slice.count }, (_, row) => ({
    seq: slice.seqAt(row),
    payload: slice.payloadAt(row).toString(),
  }))
}

const texts = (count: number) => Array.from({ length: count }, (_, i) => `record ${i} ${'x'.repeat(i % 50)}`)

test('records become visible in order, after they are durable, and read back the same from memory and from disk', async () => {
  using directory = temporaryDirectory()
  const log = await EventLog.open({ directory: directory.path })
  const seen: { seq: number; payload: string }[] = []
  log.onVisible((slices) => seen.push(...slices.flatMap(recordsOf)))
  for (const text of texts(500)) log.append(meta, Buffer.from(text.slice(0, 3)), Buffer.from(text.slice(3)))
  await log.flush()
  assert.equal(log.durableSeq, 500)
  assert.deepEqual(
    seen.map(({ payload }) => payload),
    texts(500),
  )
  assert.deepEqual(await readAll(log), seen)
  await log.close()

  const again = await EventLog.open({ directory: directory.path })
  assert.equal(again.nextSeq, 501)
  assert.deepEqual(await readAll(again), seen)
  assert.deepEqual(await readAll(again, 250), seen.slice(250))
  const [slice] = await again.read(0, 1)
  assert.deepEqual(slice?.metaAt(0), meta)
  await again.close()
})

test('a flush and an end wait for records without a payload too', async () => {
  using directory = temporaryDirectory()
  const log = await EventLog.open({ directory: directory.path })
  log.append(meta)
  await log.flush()
  assert.equal(log.durableSeq, 1)
  log.append(meta)
  await log.close()
  const again = await EventLog.open({ directory: directory.path })
  assert.deepEqual([again.durableSeq, again.nextSeq], [2, 3])
  await again.flush()
  await again.close()
})

test('files roll by size, are read across, and go when everything in them may', async () => {
  using directory = temporaryDirectory()
  await write({ directory: directory.path, fileBytesMax: 2000 }, texts(200))
  const log = await EventLog.open({ directory: directory.path, fileBytesMax: 2000 })
  assert.ok(log.files.length > 5)
  assert.deepEqual(
    (await readAll(log)).map(({ payload }) => payload),
    texts(200),
  )
  await log.dropThrough(100)
  assert.ok(log.lastDeletedSeq > 80 && log.lastDeletedSeq <= 100)
  assert.equal(log.oldestSeq, log.lastDeletedSeq + 1)
  assert.equal((await readAll(log))[0]?.seq, log.oldestSeq)
  await log.close()
})

test('a missing file index is rebuilt from the file, unless that is damaged where the index looks', async () => {
  using directory = temporaryDirectory()
  await write({ directory: directory.path, fileBytesMax: 2000 }, texts(100))
  for (const name of readdirSync(directory.path).filter((entry) => entry.endsWith('.idx')))
    rmSync(join(directory.path, name))
  const [first] = readdirSync(directory.path).filter((entry) => entry.endsWith('.tlog'))
  const path = join(directory.path, first ?? '')
  const whole = readFileSync(path)
  const bytes = Buffer.from(whole)
  bytes.writeUInt8((bytes[40] ?? 0) ^ 1, 40)
  writeFileSync(path, bytes)
  await assert.rejects(EventLog.open({ directory: directory.path }), LogCorruptError)
  writeFileSync(path, whole)
  const log = await EventLog.open({ directory: directory.path })
  assert.deepEqual(
    (await readAll(log)).map(({ payload }) => payload),
    texts(100),
  )
  await log.close()
})

test('a file cut at any byte of its unsynced tail, or zero from there on, starts again with every whole block and no number used twice', async () => {
  using directory = temporaryDirectory()
  const killed = join(directory.path, 'killed')
  await writeAndKill({ directory: directory.path, leaseSize: 10 }, texts(12), killed)
  const name = newestFile(killed)
  const whole = readFileSync(join(killed, name))
  const lastBlock = whole.lastIndexOf('TLB1')
  const length = endOfBlocks(whole) - lastBlock
  const cuts = Array.from({ length }, (_, i) => lastBlock + i).flatMap((at) => [
    { at, zeros: 0 },
    { at, zeros: 4096 },
  ])
  for (const { at, zeros } of cuts) {
    const copy = join(directory.path, `cut-${at}-${zeros}`)
    cpSync(killed, copy, { recursive: true })
    truncateSync(join(copy, name), at)
    truncateSync(join(copy, name), at + zeros)
    const log = await EventLog.open({ directory: copy })
    assert.deepEqual(
      (await readAll(log)).map(({ payload }) => payload),
      texts(11),
    )
    assert.ok(log.nextSeq >= 13, 'numbers continue behind the lease')
    assert.equal(log.append(meta, Buffer.from('next')), Math.max(13, log.nextSeq - 1))
    await log.flush()
    assert.equal((await readAll(log)).at(-1)?.payload, 'next')
    await log.close()
  }
})

test('zeros written ahead of the blocks are no damage and no records, and an orderly end leaves none', async () => {
  using directory = temporaryDirectory()
  const killed = join(directory.path, 'killed')
  await writeAndKill({ directory: directory.path }, texts(12), killed)
  const path = join(killed, newestFile(killed))
  const end = endOfBlocks(readFileSync(path))
  truncateSync(path, end)
  truncateSync(path, end + 1024 * 1024)
  const { damage, tornBytes, files } = await verifyLog(killed)
  assert.deepEqual([damage, tornBytes, files.map(({ bytes }) => bytes)], [[], 0, [end]])
  // The log makes zeros of its own.
  await write({ directory: killed }, texts(30))
  assert.deepEqual(
    (await verifyLog(killed)).files.map(({ bytes, records }) => [bytes, records]),
    [[readFileSync(path).length, 42]],
  )
  const log = await EventLog.open({ directory: killed })
  assert.deepEqual(
    (await readAll(log)).map(({ payload }) => payload),
    [...texts(12), ...texts(30)],
  )
  await log.close()
})

test('whichever record behind the mark is torn, what is before it stays, the whole ones behind it go, and numbers go on behind all of them', async () => {
  using directory = temporaryDirectory()
  const killed = join(directory.path, 'killed')
  const log = await EventLog.open({ directory: directory.path })
  log.append(meta, Buffer.from('first'))
  await log.flush()
  // Blocks of one group commit carry the same synced mark: over 64 kB make several.
  for (let i = 0; i < 4; i++) log.append(meta, Buffer.alloc(65_000, i), Buffer.alloc(1000, i))
  await log.flush()
  copyLog(directory.path, killed)
  await log.close()
  const name = newestFile(killed)
  const whole = readFileSync(join(killed, name))
  const starts = [...whole.toString('latin1').matchAll(/TLB1/g)].map(({ index }) => index)
  assert.equal(starts.length, 5)
  for (const [block, start] of starts.entries()) {
    if (block === 0) continue
    for (const offset of [0, 13, 33, 3000]) {
      const copy = join(directory.path, `torn-${block}-${offset}`)
      cpSync(killed, copy, { recursive: true })
      const bytes = Buffer.from(whole)
      bytes.writeUInt8((bytes[start + offset] ?? 0) ^ 1, start + offset)
      writeFileSync(join(copy, name), bytes)
      const again = await EventLog.open({ directory: copy })
      assert.deepEqual(
        (await readAll(again)).map(({ seq }) => seq),
        [1, 2, 3, 4].slice(0, block),
        `block ${block} torn at ${offset}`,
      )
      assert.ok(again.nextSeq >= 6)
      await again.close()
    }
  }
})

test('after an orderly end everything is before the mark: a file that is cut, damaged or missing stops the start', async () => {
  using directory = temporaryDirectory()
  const name = fileOf(1)
  const spoil: Record<string, (path: string) => void> = {
    cut: (path) => truncateSync(path, readFileSync(path).length - 1),
    damaged: (path) => {
      const bytes = readFileSync(path)
      bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1)
      writeFileSync(path, bytes)
    },
    missing: (path) => rmSync(path),
  }
  for (const [how, damage] of Object.entries(spoil)) {
    const path = join(directory.path, how)
    await write({ directory: path }, ['only one'])
    damage(join(path, name))
    await assert.rejects(EventLog.open({ directory: path }), LogCorruptError, how)
  }
})

test('a lease that is missing, torn or overtaken stops the start', async () => {
  using directory = temporaryDirectory()
  await write({ directory: directory.path }, texts(20))
  for (const lease of ['', 'null', '{"limit":"21"}', '{"limit":20}', '{"limit":5}']) {
    writeFileSync(join(directory.path, 'lease'), lease)
    await assert.rejects(EventLog.open({ directory: directory.path }), LogCorruptError, lease)
  }
  rmSync(join(directory.path, 'lease'))
  await assert.rejects(EventLog.open({ directory: directory.path }), LogCorruptError)
})

test('a raised floor is where numbers go on, and an empty log starts there', async () => {
  using directory = temporaryDirectory()
  const empty = await EventLog.open({ directory: directory.path, floorSeq: 500 })
  assert.deepEqual([empty.nextSeq, empty.visibleSeq, empty.lastDeletedSeq], [500, 499, 499])
  assert.equal(empty.append(meta, Buffer.from('a')), 500)
  await empty.close()
  const again = await EventLog.open({ directory: directory.path, floorSeq: 1000 })
  assert.equal(again.visibleSeq, 500)
  assert.equal(again.append(meta, Buffer.from('b')), 1000)
  await again.close()
  const lower = await EventLog.open({ directory: directory.path, floorSeq: 10 })
  assert.equal(lower.nextSeq, 1001)
  await lower.close()
})

test('retention by bytes runs when a file is finished, and keeps the file that is being read until it has been', async () => {
  using directory = temporaryDirectory()
  const log = await EventLog.open({ directory: directory.path, retentionBytes: 20_000, tailBytesMax: 100 })
  let read: Promise<LogSlice[]> | undefined
  for (let i = 0; i < 100; i++) {
    log.append(meta, Buffer.alloc(1000, i))
    await log.flush()
    const bytes = log.files.reduce((sum, file) => sum + file.bytes, 0)
    assert.ok(bytes < 25_000, `${bytes} bytes`)
    if (i === 10) read = log.read(0, 3000)
  }
  assert.ok(log.files.length > 4, 'in files much smaller than the bound')
  assert.ok(log.lastDeletedSeq > 70)
  assert.deepEqual(
    (await read)?.map(({ firstSeq }) => firstSeq),
    [1, 2],
  )
  await log.applyRetention()
  const names = readdirSync(directory.path).filter((entry) => entry.endsWith('.tlog'))
  assert.deepEqual(
    names,
    log.files.map(({ name }) => name),
  )
  await log.close()
})

test('damage before the synced mark stops the start', async () => {
  using directory = temporaryDirectory()
  await write({ directory: directory.path }, texts(20))
  const [name] = readdirSync(directory.path).filter((entry) => entry.endsWith('.tlog'))
  assert.ok(name)
  const path = join(directory.path, name)
  const bytes = readFileSync(path)
  const middle = Math.floor(bytes.length / 2)
  bytes.writeUInt8((bytes[middle] ?? 0) ^ 0x40, middle)
  writeFileSync(path, bytes)
  await assert.rejects(EventLog.open({ directory: directory.path }), LogCorruptError)
})

test('nothing that is damaged is read from a finished file, whichever byte it is, and what stands before it is', async () => {
  using directory = temporaryDirectory()
  const payloads = texts(40)
  await write({ directory: directory.path, fileBytesMax: 1000 }, payloads, { perCommit: 4 })
  const log = await EventLog.open({ directory: directory.path, fileBytesMax: 1000 })
  const [, second] = log.files
  assert.ok(second)
  const path = join(directory.path, second.name)
  const whole = readFileSync(path)
  for (let at = 0; at < whole.length; at += 7) {
    const bytes = Buffer.from(whole)
    bytes.writeUInt8((bytes[at] ?? 0) ^ 0x40, at)
    writeFileSync(path, bytes)
    const read: { seq: number; payload: string }[] = []
    await assert.rejects(async () => {
      for (let position = 0; ;) {
        const slices = await log.read(position, 1)
        if (slices.length === 0) return
        read.push(...slices.flatMap(recordsOf))
        position = slices.at(-1)?.lastSeq ?? position
      }
    }, LogCorruptError)
    assert.ok(read.length >= second.firstSeq - 1 && read.length < second.lastSeq)
    for (const { seq, payload } of read) assert.equal(payload, payloads[seq - 1])
  }
  writeFileSync(path, whole)
  assert.equal((await readAll(log)).length, payloads.length)
  await log.close()
})

test('garbage behind the last block is cut', async () => {
  using directory = temporaryDirectory()
  await write({ directory: directory.path }, texts(5))
  const [name] = readdirSync(directory.path).filter((entry) => entry.endsWith('.tlog'))
  appendFileSync(join(directory.path, name ?? ''), Buffer.from('TLB1 not a block'))
  const log = await EventLog.open({ directory: directory.path })
  assert.equal((await readAll(log)).length, 5)
  await log.close()
})

test('after a stop without close, numbers continue at the lease', async () => {
  using directory = temporaryDirectory()
  const killed = join(directory.path, 'killed')
  await writeAndKill({ directory: directory.path, leaseSize: 100 }, ['a'], killed)
  const again = await EventLog.open({ directory: killed })
  assert.ok(again.nextSeq > 100)
  assert.deepEqual(
    (await readAll(again)).map(({ seq }) => seq),
    [1],
  )
  await again.close()
})

test('no stop at any record finds numbers that may have been given out before', async () => {
  using directory = temporaryDirectory()
  const log = await EventLog.open({ directory: directory.path, leaseSize: 4 })
  for (let i = 0; i < 12; i++) {
    const seq = log.append(meta, Buffer.from(String(i)))
    await log.flush()
    const killed = join(directory.path, `killed-${i}`)
    copyLog(directory.path, killed)
    const again = await EventLog.open({ directory: killed, leaseSize: 4 })
    assert.ok(again.nextSeq > seq)
    await again.close()
  }
  await log.close()
})

test('a log that is open cannot be opened again', async () => {
  using directory = temporaryDirectory()
  const log = await EventLog.open({ directory: directory.path })
  await assert.rejects(EventLog.open({ directory: directory.path }), LogLockedError)
  await log.close()
  await (await EventLog.open({ directory: directory.path })).close()
})

test('a lock that cannot be taken for another reason does not say that the log is open', async () => {
  using directory = temporaryDirectory()
  writeFileSync(join(directory.path, 'lock'), 'no lock of ours, and no database. '.repeat(100))
  await assert.rejects(EventLog.open({ directory: directory.path }), { message: 'file is not a database' })
})

test('with visible=written records are shown before the sync and durable after it', async () => {
  using directory = temporaryDirectory()
  const log = await EventLog.open({ directory: directory.path, visible: 'written' })
  const order: string[] = []
  log.onVisible((slices) => order.push(`visible ${slices.at(-1)?.lastSeq} durable ${log.durableSeq}`))
  log.onDurable((seq) => order.push(`durable ${seq}`))
  log.append(meta, Buffer.from('a'))
  await log.flush()
  log.append(meta, Buffer.from('b'))
  await log.flush()
  assert.deepEqual(order, ['visible 1 durable 0', 'durable 1', 'visible 2 durable 1', 'durable 2'])
  await log.close()
})

test('a reader that goes on from any place sees every record once, in order, while writing goes on', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(fc.nat(3000), { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 12 }),
      fc.nat(5000),
      fc.nat(20_000),
      async (commits, maxBytes, tailBytesMax) => {
        using directory = temporaryDirectory()
        const log = await EventLog.open({ directory: directory.path, fileBytesMax: 10_000, tailBytesMax })
        const written: number[] = []
        const read: number[] = []
        let position = 0
        for (const sizes of commits) {
          for (const size of sizes) written.push(log.append(meta, Buffer.alloc(size)))
          await log.flush()
          const slices = await log.read(position, maxBytes)
          read.push(...slices.flatMap((slice) => recordsOf(slice).map(({ seq }) => seq)))
          position = slices.at(-1)?.lastSeq ?? position
        }
        read.push(...(await readAll(log, position, maxBytes)).map(({ seq }) => seq))
        assert.deepEqual(read, written)
        await log.close()
      },
    ),
    { numRuns: 25 },
  )
})

/** Leaves a directory as a kill right after the last sync would. */
async function writeAndKill(options: EventLogOptions, payloads: string[], killed: string): Promise<void> {
  const log = await EventLog.open(options)
  for (const payload of payloads) {
    log.append(meta, Buffer.from(payload))
    await log.flush()
  }
  copyLog(options.directory, killed)
  await log.close()
}

function copyLog(from: string, to: string): void {
  mkdirSync(to)
  for (const name of readdirSync(from).filter((entry) => entry === 'lease' || entry.includes('.tlog')))
    copyFileSync(join(from, name), join(to, name))
}

function newestFile(directory: string): string {
  return (
    readdirSync(directory)
      .filter((entry) => entry.endsWith('.tlog'))
      .at(-1) ?? ''
  )
}

/** Where the zeros after the last block begin: no payload here ends in one. */
function endOfBlocks(file: Buffer): number {
  return file.findLastIndex((byte) => byte !== 0) + 1
}

function fileOf(firstSeq: number): string {
  return `${String(firstSeq).padStart(16, '0')}.tlog`
}

test('retention deletes nothing that its owner has not accounted for', async () => {
  using directory = temporaryDirectory()
  const log = await EventLog.open({ directory: directory.path, retentionBytes: 4000 })
  let accountedFor = 10
  log.keepAbove(() => accountedFor)
  for (let i = 0; i < 30; i++) {
    log.append(meta, Buffer.alloc(1000))
    await log.flush()
  }
  assert.equal(log.lastDeletedSeq, 10)
  accountedFor = 30
  await log.applyRetention()
  assert.ok(log.lastDeletedSeq > 25)
  await log.close()
})
