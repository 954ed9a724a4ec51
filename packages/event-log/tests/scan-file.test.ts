/** What starts and tools read out of log files that are not as they were written. */
import assert from 'node:assert/strict'
import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { BlockBuilder, sealBlock } from '../src/block.ts'
import { checkedJson } from '../src/checked-json.ts'
import { createCrc } from '../src/crc.ts'
import { EventLog, LogCorruptError, readStoredLog, repairLog, verifyLog } from '../src/index.ts'
import { scanFile } from '../src/scan-file.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }
const crc = await createCrc()
const secret = 77n

function temporaryDirectory(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), 'event-log-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** A log of 12 records in four files, ended in order. Returns the files' names. */
async function writeLog(directory: string): Promise<string[]> {
  const log = await EventLog.open({ directory, fileBytesMax: 600 })
  for (let i = 0; i < 12; i++) {
    log.append(meta, Buffer.alloc(100, i))
    await log.flush()
  }
  await log.close()
  return readdirSync(directory).filter((name) => name.endsWith('.tlog'))
}

async function seqsIn(directory: string): Promise<number[]> {
  const log = await EventLog.open({ directory })
  const seqs: number[] = []
  for await (const slice of log.replay(0))
    for (let row = 0; row < slice.count; row++) seqs.push(slice.seqAt(row))
  await log.close()
  return seqs
}

const all = Array.from({ length: 12 }, (_, i) => i + 1)

function block(seq: number, payloadBytes: number): Buffer {
  const builder = new BlockBuilder()
  builder.append(seq, 1000 + seq, meta, [Buffer.alloc(payloadBytes)])
  const bytes = builder.take()
  sealBlock(bytes, 0, secret, crc)
  return bytes
}

test('a file index that is damaged in any digit, or torn, is not believed: the file itself tells', async () => {
  using directory = temporaryDirectory()
  const [name = ''] = await writeLog(directory.path)
  const path = join(directory.path, `${name}.idx`)
  const whole = readFileSync(path, 'utf8')
  for (const { index } of whole.matchAll(/\d/g)) {
    const digit = (Number(whole[index]) + 1) % 10
    writeFileSync(path, `${whole.slice(0, index)}${digit}${whole.slice(index + 1)}`)
    assert.deepEqual(await seqsIn(directory.path), all, `digit at ${index}`)
  }
  writeFileSync(path, whole.slice(0, -1))
  assert.deepEqual(await seqsIn(directory.path), all)
  // As versions before wrote it.
  writeFileSync(path, whole.replace(/,"crc":\d+/, ''))
  assert.deepEqual(await seqsIn(directory.path), all)
})

test('a file index that tells of a shorter file is not believed', async () => {
  using directory = temporaryDirectory()
  const [name = ''] = await writeLog(directory.path)
  const bytes = readFileSync(join(directory.path, name)).indexOf('TLB1', 1)
  const shorter = { firstSeq: 1, lastSeq: 1, lastTimeMs: 1, bytes, points: [{ seq: 1, offset: 0 }] }
  writeFileSync(join(directory.path, `${name}.idx`), checkedJson(shorter, crc))
  assert.deepEqual(await seqsIn(directory.path), all)
})

test('after an orderly end a last block that is damaged stops the start, and is left as it is', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, (await writeLog(directory.path)).at(-1) ?? '')
  const bytes = readFileSync(path)
  assert.ok(bytes.lastIndexOf('TLB1') > 0, 'there are whole blocks before it')
  bytes.writeUInt8(1 ^ bytes.readUInt8(bytes.length - 1), bytes.length - 1)
  writeFileSync(path, bytes)
  await assert.rejects(EventLog.open({ directory: directory.path }), LogCorruptError)
  assert.deepEqual(readFileSync(path), bytes)
})

test('a file with records of the file before it stops the start, and is left as it is', async () => {
  for (const position of ['last', 'between'] as const) {
    using directory = temporaryDirectory()
    const [first = '', second = ''] = await writeLog(directory.path)
    const name = position === 'last' ? '0000000000000099.tlog' : second.replace('.', '0.')
    const path = join(directory.path, name)
    copyFileSync(join(directory.path, position === 'last' ? first : second), path)
    const { size } = statSync(path)
    await assert.rejects(EventLog.open({ directory: directory.path }), LogCorruptError)
    assert.equal(statSync(path).size, size)
    const { damage } = await verifyLog(directory.path)
    assert.ok(damage.length > 0)
    assert.ok(damage.every(({ file, what }) => file === name && what === 'it overlaps what is before it'))
    await repairLog(directory.path, { how: 'skip' })
    const kept: number[] = []
    for await (const slice of readStoredLog(directory.path, 0))
      for (let row = 0; row < slice.count; row++) kept.push(slice.seqAt(row))
    assert.deepEqual(kept, all)
  }
})

test('the block behind a damaged place is found wherever it begins, and what stands between is one piece', () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, '0000000000000001.tlog')
  const first = block(1, 10)
  const last = block(3, 10)
  // The search reads a megabyte at a time.
  for (let near = -36; near <= 2; near++) {
    const damaged = block(2, 1024 * 1024 - 80 + near)
    damaged.writeUInt8(1, 0)
    writeFileSync(path, Buffer.concat([first, damaged, last]))
    const search = { secret, seqLimit: Infinity }
    const pieces = [...scanFile(path, { crc, afterSeq: 0, search, isNewest: true })]
    assert.deepEqual(
      pieces.map(({ offset, bytes, block, damage }) => [offset, bytes, block?.firstSeq, damage]),
      [
        [0, first.length, 1, undefined],
        [first.length, damaged.length, undefined, 'no whole block'],
        [first.length + damaged.length, last.length, 3, undefined],
      ],
      `${near} bytes from the end of what is read at a time`,
    )
  }
})
