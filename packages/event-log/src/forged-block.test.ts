/** Payloads that look like blocks of the log, and damage that makes a reader search for the next block. */
import assert from 'node:assert/strict'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { BlockBuilder, readBlockHeader, sealBlock } from './block.ts'
import { createCrc } from './crc.ts'
import { backUpLog, EventLog, LogCorruptError, readStoredLog, repairLog, verifyLog } from './index.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }
const crc = await createCrc()
const root = mkdtempSync(join(tmpdir(), 'event-log-forged-'))
after(() => rmSync(root, { recursive: true }))

let directories = 0
function copyOf(directory: string): string {
  const copy = join(root, `copy-${++directories}`)
  cpSync(directory, copy, { recursive: true })
  return copy
}

/** A record's payload that holds a block which is right in every byte but for the secret. */
function forgedPayload({ seq, syncedOffset }: { seq: number; syncedOffset: number }): Buffer {
  const builder = new BlockBuilder()
  builder.append(seq, Date.now(), meta, [Buffer.from('forged')])
  const block = builder.take()
  sealBlock(block, syncedOffset, 0n, crc)
  return Buffer.concat([Buffer.from('before'), block, Buffer.from('behind it')])
}

/** A log with one record a block, ended in order. An old one has no secret. */
async function logOf(
  payloads: readonly Buffer[],
  { fileBytesMax = 1_000_000, isOld = false } = {},
): Promise<string> {
  const directory = join(root, `log-${++directories}`)
  mkdirSync(directory)
  if (isOld) writeFileSync(join(directory, 'lease'), '{"limit":1}')
  const log = await EventLog.open({ directory, fileBytesMax })
  for (const payload of payloads) {
    log.append(meta, payload)
    await log.flush()
  }
  await log.close()
  return directory
}

const honest = (count: number): Buffer[] =>
  Array.from({ length: count }, (_, i) => Buffer.from(`record ${i}`))

function logFiles(directory: string): string[] {
  return readdirSync(directory)
    .filter((name) => name.endsWith('.tlog'))
    .map((name) => join(directory, name))
}

/** Where the blocks of a file with one record a block start. */
function blockStarts(path: string): number[] {
  const bytes = readFileSync(path)
  const starts: number[] = []
  for (let at = 0; at < bytes.length; at += readBlockHeader(bytes, at)?.blockBytes ?? bytes.length)
    starts.push(at)
  return starts
}

function secretsIn(directory: string): Set<bigint | undefined> {
  return new Set(
    logFiles(directory).flatMap((path) => {
      const bytes = readFileSync(path)
      return blockStarts(path).map((at) => readBlockHeader(bytes, at)?.secret)
    }),
  )
}

/** Flips a bit in the count of a block's records. */
function damageHeader(path: string, blockIndex: number): void {
  damageByte(path, (blockStarts(path)[blockIndex] ?? 0) + 4)
}

function damageByte(path: string, at: number): void {
  const bytes = readFileSync(path)
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)
  writeFileSync(path, bytes)
}

async function storedSeqs(directory: string): Promise<number[]> {
  const seqs: number[] = []
  for await (const slice of readStoredLog(directory, 0))
    for (let row = 0; row < slice.count; row++) seqs.push(slice.seqAt(row))
  return seqs
}

/** A start after each tear would take ten seconds, and shows no more than one after a few of them. */
const startEvery = 7

test('wherever the last block is torn, a block inside its payload does not stop the start or come back as a record', async () => {
  const plain = await logOf(honest(3))
  const markedBytes = statSync(logFiles(plain)[0] ?? '').size
  // One mark that is beyond every file, and one that a real block in its place could carry.
  for (const syncedOffset of [2 ** 40, markedBytes + 1]) {
    const open = copyOf(plain)
    const log = await EventLog.open({ directory: open })
    log.append(meta, forgedPayload({ seq: 5, syncedOffset }))
    await log.flush()
    const killed = copyOf(open)
    await log.close()
    const [path = ''] = logFiles(killed)
    const file = readFileSync(path)
    // Zeros at the end are what the writer made ready for the next block.
    const endOf = (bytes: Buffer): number => bytes.findLastIndex((byte) => byte !== 0) + 1
    const whole = file.subarray(0, endOf(file))
    for (let at = markedBytes; at < whole.length; at++) {
      for (const tear of [() => truncateSync(path, at), () => damageByte(path, at)]) {
        writeFileSync(path, whole)
        tear()
        const { damage, tornBytes } = await verifyLog(killed)
        const torn = Math.max(0, endOf(readFileSync(path)) - markedBytes)
        assert.deepEqual([damage, tornBytes], [[], torn], `byte ${at}`)
        // A start reads the file as this does, and takes long.
        if ((at - markedBytes) % startEvery !== 0) continue
        const again = await EventLog.open({ directory: copyOf(killed) })
        assert.deepEqual([again.visibleSeq, again.nextSeq > 4], [3, true], `byte ${at}`)
        await again.close()
      }
    }
  }
})

test('behind a damaged header the next real block is found, not one inside a payload, and repair keeps what is real', async () => {
  // Only the secret tells: its number is free and below the lease, its mark stands before it.
  for (const seq of [4, 10]) {
    const payloads = honest(10).with(2, forgedPayload({ seq, syncedOffset: 0 }))
    const whole = await logOf(payloads)
    const [, , damagedAt = 0, next = 0] = blockStarts(logFiles(whole)[0] ?? '')
    for (const isLeaseLost of [false, true]) {
      const directory = copyOf(whole)
      damageHeader(logFiles(directory)[0] ?? '', 2)
      if (isLeaseLost) rmSync(join(directory, 'lease'))
      const before = await verifyLog(directory)
      const [found] = before.damage
      assert.deepEqual([found?.offset, found?.bytes], [damagedAt, next - damagedAt])
      assert.deepEqual([before.files[0]?.records, before.damage.length], [9, isLeaseLost ? 2 : 1])
      const { recordsKept, nextSeq } = await repairLog(directory, { how: 'skip' })
      assert.deepEqual([recordsKept, nextSeq], [9, isLeaseLost ? 1_000_010 : 11])
      assert.deepEqual(await storedSeqs(directory), [1, 2, 4, 5, 6, 7, 8, 9, 10])
      const again = await EventLog.open({ directory })
      assert.equal(again.append(meta, Buffer.from('next')), nextSeq)
      await again.close()
      assert.deepEqual((await verifyLog(directory)).damage, [])
      assert.deepEqual(secretsIn(directory), secretsIn(whole), 'the log keeps its secret')
    }
  }
})

test('every log has its own secret, in each of its blocks and those of its copies, and in no report', async () => {
  const one = await logOf(honest(10), { fileBytesMax: 300 })
  const other = await logOf(honest(1))
  const [secret, ...more] = secretsIn(one)
  assert.ok(secret !== undefined && secret !== 0n && more.length === 0)
  assert.ok(!secretsIn(other).has(secret))
  const copy = join(root, 'backup')
  await backUpLog(one, copy)
  const log = await EventLog.open({ directory: copy })
  log.append(meta, Buffer.from('next'))
  await log.close()
  assert.deepEqual([...secretsIn(copy)], [secret])
  const report = await repairLog(copy, { how: 'skip' })
  const text = JSON.stringify(report)
  assert.ok(!text.includes('secret') && !text.includes(secret.toString(16)))
})

test('when the lease is lost and so is the first block, the secret is that of the next file', async () => {
  const whole = await logOf(honest(12), { fileBytesMax: 300 })
  const directory = copyOf(whole)
  damageHeader(logFiles(directory)[0] ?? '', 0)
  rmSync(join(directory, 'lease'))
  assert.deepEqual((await repairLog(directory, { how: 'skip' })).recordsKept, 11)
  assert.deepEqual(secretsIn(directory), secretsIn(whole))
})

test('a log from before there were secrets goes on without one, and its blocks are found behind damage', async () => {
  const directory = await logOf(honest(10), { isOld: true })
  damageHeader(logFiles(directory)[0] ?? '', 4)
  await assert.rejects(EventLog.open({ directory: copyOf(directory) }), LogCorruptError)
  assert.equal((await repairLog(directory, { how: 'skip' })).recordsKept, 9)
  const log = await EventLog.open({ directory })
  log.append(meta, Buffer.from('next'))
  await log.close()
  assert.deepEqual([...secretsIn(directory)], [0n])
})

test('without a secret too, a block that claims a number above the lease or a mark behind itself is not believed', async () => {
  for (const claim of [
    { seq: 10_000_000, syncedOffset: 0 },
    { seq: 9, syncedOffset: 2 ** 40 },
  ]) {
    const directory = await logOf(honest(10).with(2, forgedPayload(claim)), { isOld: true })
    damageHeader(logFiles(directory)[0] ?? '', 2)
    assert.deepEqual(await storedSeqs(directory), [1, 2, 4, 5, 6, 7, 8, 9, 10])
    assert.equal((await repairLog(directory, { how: 'skip' })).nextSeq, 11)
  }
})

test('a lease that is too old takes nothing away: what stands above it and carries the secret still counts', async () => {
  const directory = await logOf(honest(10))
  const [path = ''] = logFiles(directory)
  const leasePath = join(directory, 'lease')
  const { secret } = JSON.parse(readFileSync(leasePath, 'utf8')) as { secret: string } // written by `writeLease`
  writeFileSync(leasePath, JSON.stringify({ limit: 5, secret }))
  damageHeader(path, 2)
  const { size } = statSync(path)
  await assert.rejects(EventLog.open({ directory }), LogCorruptError)
  assert.equal(statSync(path).size, size)
  assert.deepEqual(await storedSeqs(directory), [1, 2, 4, 5, 6, 7, 8, 9, 10])
})

test('a lease whose secret is not whole stops the start', async () => {
  const directory = await logOf(honest(1))
  for (const secret of ['"12"', 'null', '12', '"000000000000000g"']) {
    writeFileSync(join(directory, 'lease'), `{"limit":5,"secret":${secret}}`)
    await assert.rejects(EventLog.open({ directory }), LogCorruptError, secret)
  }
})
