/** Sectors that the disk cannot read: that they are found, and that a repair keeps what is beside them. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { repairSegment, SegmentDirectory, type SegmentReport, verifySegments } from '../src/node.ts'
import { segmentName } from '../src/segment-name.ts'
import { fileMethods } from './power.ts'
import { makeRows, witnessedAtMs } from './rows.ts'
import { scratchDirectory } from './scratch.ts'

interface FileMethods {
  read: (bytes: Uint8Array, offset: number, length: number, position: number) => Promise<unknown>
  stat: () => Promise<{ ino: number }>
}

const rowsOfBlocks = [
  [1, 3],
  [4, 6],
  [7, 9],
] as const

async function reportOf(directory: string): Promise<SegmentReport> {
  const { value } = await verifySegments(directory).next()
  return value ?? assert.fail('there is no segment')
}

test('what the disk cannot read is damage, and a repair keeps the rest', async (t) => {
  for (const isSealed of [true, false]) {
    await using scratch = await scratchDirectory()
    const directory = scratch.path
    const path = join(directory, segmentName(0))
    const segments = await SegmentDirectory.open({ directory, now: () => witnessedAtMs })
    for (const [from, to] of rowsOfBlocks)
      await segments.append(makeRows(from, to, { payload: randomBytes(4000) }))
    const badAt = (segments.activeBlocks[1]?.offset ?? 0) + 2000
    if (isSealed) await segments.rotate()
    await segments.close()

    const { ino } = await stat(path)
    const methods = (await fileMethods()) as FileMethods // as they are
    const { read } = methods
    const reading = t.mock.method(
      methods,
      'read',
      async function (this: FileMethods, ...args: Parameters<typeof read>) {
        const [, , length, position] = args
        const isBad = position <= badAt && badAt < position + length && (await this.stat()).ino === ino
        if (isBad) throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO' })
        return await read.apply(this, args)
      },
    )
    const report = await reportOf(directory)
    assert.ok(report.damage.includes('512 bytes cannot be read'), report.damage.join())
    const known = { isLast: !isSealed, afterSeq: 0, logSeq: Infinity, lastSeqMin: 9 }
    const { rowsKept, lost } = await repairSegment(directory, report, known)
    reading.mock.restore()
    const ranges = lost.map(({ afterSeq, beforeSeq }) => [afterSeq, beforeSeq])
    assert.deepEqual([rowsKept, ranges], [6, [[3, 7]]])
    assert.deepEqual((await reportOf(directory)).damage, [])
  }
})
