/** Finished files that are not there any more, or not whole: nothing that was durable is left out in silence. */
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { checkedJson } from '../src/checked-json.ts'
import { createCrc } from '../src/crc.ts'
import { EventLog, LogCorruptError, readStoredLog, repairLog, verifyLog } from '../src/index.ts'

const meta = { kind: 1, account: 7n, source: 2, epoch: 1, upstreamSeq: 9 }
const options = { fileBytesMax: 4000, leaseSize: 1000, retentionMs: 3_600_000 }
const root = mkdtempSync(join(tmpdir(), 'event-log-missing-'))
after(() => rmSync(root, { recursive: true }))

/** A log of 60 records in several files, two records a block, ended in order. */
const original = join(root, 'original')
const log = await EventLog.open({ directory: original, ...options })
for (let seq = 1; seq <= 60; seq++) {
  log.append(meta, Buffer.from(`record ${seq} ${'.'.repeat(200)}`))
  if (seq % 2 === 0) await log.flush()
}
await log.close()
const names = readdirSync(original).filter((name) => name.endsWith('.tlog'))
const [first = '', second = '', third = ''] = names
const firstSeqOf = (name: string): number => Number.parseInt(name, 10)

const lostOfSecond = firstSeqOf(third) - firstSeqOf(second)

const lastBlockAt = (path: string): number => readFileSync(path).lastIndexOf('TLB1')

interface Fault {
  does: (directory: string) => void
  /** As `log verify` tells. */
  file: string
  what: RegExp
  /** Records that are not there any more. */
  lost: number
}

const faults: Record<string, Fault> = {
  'is missing': {
    does: (directory) => rmSync(join(directory, second)),
    file: second,
    what: /^it is missing$/,
    lost: lostOfSecond,
  },
  'is missing with its index': {
    does: (directory) => {
      for (const end of ['', '.idx']) rmSync(join(directory, second + end))
    },
    file: first,
    what: /^records up to seq \d+ are missing after it$/,
    lost: lostOfSecond,
  },
  'is missing, and the open time too': {
    does: (directory) => {
      for (const name of [second, 'open-time']) rmSync(join(directory, name))
    },
    file: second,
    what: /^it is missing$/,
    lost: lostOfSecond,
  },
  'is empty': {
    does: (directory) => truncateSync(join(directory, second), 0),
    file: second,
    what: /^it is empty$/,
    lost: lostOfSecond,
  },
  'is empty, and has no index': {
    does: (directory) => {
      truncateSync(join(directory, second), 0)
      rmSync(join(directory, `${second}.idx`))
    },
    file: second,
    what: /^it is empty$/,
    lost: lostOfSecond,
  },
  'ends before its last block': {
    does: (directory) => truncateSync(join(directory, second), lastBlockAt(join(directory, second))),
    file: second,
    what: /^it is cut short$/,
    lost: 2,
  },
  'ends before its last block, in a log without the open time': {
    does: (directory) => {
      truncateSync(join(directory, second), lastBlockAt(join(directory, second)))
      rmSync(join(directory, 'open-time'))
    },
    file: second,
    what: /^it is cut short$/,
    lost: 2,
  },
  'ends before its last block, and has no index': {
    does: (directory) => {
      truncateSync(join(directory, second), lastBlockAt(join(directory, second)))
      rmSync(join(directory, `${second}.idx`))
    },
    file: second,
    what: /^records up to seq \d+ are missing after it$/,
    lost: 2,
  },
}

let copies = 0
function damagedCopy({ does }: Fault): string {
  const copy = join(root, `copy-${++copies}`)
  cpSync(original, copy, { recursive: true })
  does(copy)
  return copy
}

const logFilesIn = (directory: string) =>
  readdirSync(directory)
    .filter((name) => name.includes('.tlog'))
    .map((name) => [name, readFileSync(join(directory, name)).toString('base64')])

async function seqsIn(directory: string): Promise<number[]> {
  const seqs: number[] = []
  for await (const slice of readStoredLog(directory, 0))
    for (let row = 0; row < slice.count; row++) seqs.push(slice.seqAt(row))
  return seqs
}

for (const [how, fault] of Object.entries(faults)) {
  test(`a finished file that ${how} stops the start, is left as it is, and is told of`, async () => {
    const directory = damagedCopy(fault)
    const before = logFilesIn(directory)
    await assert.rejects(EventLog.open({ directory, ...options }), LogCorruptError)
    assert.deepEqual(logFilesIn(directory), before)
    const { damage } = await verifyLog(directory)
    assert.deepEqual(
      damage.map(({ file }) => file),
      [fault.file],
    )
    assert.match(damage[0]?.what ?? '', fault.what)
  })

  test(`a log of which a finished file ${how} can be repaired`, async () => {
    const skipped = damagedCopy(fault)
    const { nextSeq } = await repairLog(skipped, { how: 'skip' })
    assert.deepEqual([(await verifyLog(skipped)).damage, nextSeq], [[], 61])
    const kept = await seqsIn(skipped)
    assert.equal(kept.length, 60 - fault.lost)
    for (let start = 1; start <= 2; start++) {
      const again = await EventLog.open({ directory: skipped, ...options })
      again.append(meta, Buffer.from('next'))
      await again.close()
    }
    assert.deepEqual(await seqsIn(skipped), [...kept, 61, 62])

    const cut = damagedCopy(fault)
    await repairLog(cut, { how: 'cut' })
    assert.deepEqual((await verifyLog(cut)).damage, [])
    const last = kept.findIndex((seq, index) => seq !== index + 1)
    assert.deepEqual(await seqsIn(cut), kept.slice(0, last))
    await (await EventLog.open({ directory: cut, ...options })).close()
  })
}

test('a newest record that a power cut took, and that the open time names, is not missed when a later file was begun', async () => {
  const directory = join(root, 'power-cut')
  cpSync(original, directory, { recursive: true })
  const later = await EventLog.open({ directory, ...options, fileBytesMax: 1, floorSeq: 100 })
  later.append(meta, Buffer.from('after the cut'))
  await later.close()
  const written = [...names.slice(1).map((name) => firstSeqOf(name) - 1), 61].map((seq) => [seq, 0])
  writeFileSync(join(directory, 'open-time'), checkedJson({ openMs: 0, written }, await createCrc()))
  assert.deepEqual((await verifyLog(directory)).damage, [])
  const again = await EventLog.open({ directory, ...options })
  assert.deepEqual([again.oldestSeq, again.visibleSeq], [1, 100])
  await again.close()
})
