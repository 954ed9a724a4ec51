import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { decodeFrame, parseSegment } from '@tributary/segment'
import { nodeDecompress } from '@tributary/segment/node'
import { rowText } from '@tributary/stream/render'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { makeArchive } from '../lib/made-archive.ts'

const rowCount = 200_000
const rounds = 5

interface Frame {
  bytes: Uint8Array
  bodyBytes: number
}

/** Blocks of an archive, decompressed and decoded in this process with every column of every row read. */
export async function blockDecode(bench: Bench): Promise<Figure[]> {
  const directory = bench.newDirectory('archive')
  bench.say(`block-decode: writing ${rowCount} rows`)
  await makeArchive(directory, rowCount)
  const frames = readFrames(join(directory, 'segments'))
  bench.say('block-decode: decoding')
  const decoded = rowsPerCpuSecond(() => {
    for (const { bytes } of frames) decodeFrame(bytes, nodeDecompress).rows()
  })
  const views = rowsPerCpuSecond(() => {
    for (const { bytes } of frames) decodeFrame(bytes, nodeDecompress)
  })
  const decompressed = rowsPerCpuSecond(() => {
    for (const { bytes, bodyBytes } of frames) nodeDecompress(bytes, bodyBytes)
  })
  // Made last, because a heap with so many lines in it makes each garbage collection long, and so all of the others slow.
  const lines = frames.flatMap(({ bytes }) =>
    decodeFrame(bytes, nodeDecompress)
      .rows()
      .map((row) => rowText(row)),
  )
  const parsed = rowsPerCpuSecond(() => {
    for (const line of lines) JSON.parse(line)
  })
  const references = [
    { name: "Node's zstd alone on the same frames, this run", value: decompressed },
    { name: 'JSON.parse of the same rows as messages, this run', value: parsed },
  ]
  return [
    {
      name: `blocks decoded, every column of ${rowCount} rows`,
      value: decoded,
      unit: 'rows a CPU s',
      better: 'higher',
      references,
    },
    {
      name: 'blocks decoded and checked, no row looked at',
      value: views,
      unit: 'rows a CPU s',
      better: 'higher',
      references,
    },
  ]
}

function readFrames(directory: string): Frame[] {
  return readdirSync(directory).flatMap((name) => {
    const segment = parseSegment(readFileSync(join(directory, name)), nodeDecompress)
    return segment.blocks.map(({ uncompressedSize }, i) => ({
      bytes: segment.readFrame(i),
      bodyBytes: uncompressedSize,
    }))
  })
}

/** Of this process, after a round that is not counted. */
function rowsPerCpuSecond(work: () => void): number {
  work()
  const start = process.cpuUsage()
  for (let round = 0; round < rounds; round++) work()
  const { user, system } = process.cpuUsage(start)
  return (rowCount * rounds) / ((user + system) / 1e6)
}
