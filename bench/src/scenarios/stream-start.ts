import { closeSync, openSync, readdirSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { blocksPerSegment, makeSegments } from '../lib/made-segments.ts'
import { startService } from '../lib/services.ts'

const segmentCount = 2500
const headerBytes = 256

/** What a start of the stream takes with many sealed segments, and what they take while it runs. */
export async function streamStart(bench: Bench): Promise<Figure[]> {
  const none = bench.newDirectory('empty')
  await startAndLook(bench, none) // makes the databases
  const empty = await startAndLook(bench, none)
  const directory = bench.newDirectory('stream')
  bench.say(`stream-start: writing ${segmentCount} segments`)
  await makeSegments(join(directory, 'segments'), segmentCount)
  const first = await startAndLook(bench, directory)
  const known = await startAndLook(bench, directory)
  const readMs = readFooters(join(directory, 'segments'))
  const references = [
    { name: 'the same without segments, this run', value: empty.startMs / 1000 },
    { name: 'their headers and footers alone, one by one by node:fs, this run', value: readMs / 1000 },
  ]
  const what = `${segmentCount} sealed segments of ${blocksPerSegment} blocks`
  return [
    {
      name: `stream, start with ${what}`,
      value: known.startMs / 1000,
      unit: 's',
      better: 'lower',
      references,
    },
    {
      name: '  the first start, which checks all filters',
      value: first.startMs / 1000,
      unit: 's',
      better: 'lower',
      references,
    },
    {
      name: '  resident memory',
      value: known.bytes / 1e6,
      unit: 'MB',
      better: 'lower',
      references: [{ name: 'the same without segments, this run', value: empty.bytes / 1e6 }],
      note: `${((known.bytes - empty.bytes) / segmentCount / 1000).toFixed(1)} kB a segment`,
    },
  ]
}

/** Starts a stream on a directory, and stops it after some silence. */
async function startAndLook(bench: Bench, directory: string): Promise<{ startMs: number; bytes: number }> {
  const startedMs = performance.now()
  // A relay that is not there: nothing comes in.
  await using stream = await startService(bench, 'stream', {
    DATA_DIRECTORY: directory,
    RELAY_URL: 'ws://127.0.0.1:1',
  })
  const startMs = performance.now() - startedMs
  bench.say(`started after ${startMs.toFixed(0)} ms: ${bench.effort.quietSeconds} s of silence`)
  await new Promise((resolve) => setTimeout(resolve, bench.effort.quietSeconds * 1000))
  return { startMs, bytes: stream.memoryBytes() }
}

/** Milliseconds for the bytes of a first start, from the system's page cache. The footer begins where the header says. */
function readFooters(directory: string): number {
  const startMs = performance.now()
  const head = Buffer.alloc(headerBytes)
  for (const name of readdirSync(directory)) {
    const path = join(directory, name)
    const { size } = statSync(path)
    const file = openSync(path, 'r')
    readSync(file, head, 0, headerBytes, 0)
    const footerOffset = Number(head.readBigUInt64LE(58))
    // The active segment has none.
    if (footerOffset > 0)
      readSync(file, Buffer.allocUnsafe(size - footerOffset), 0, size - footerOffset, footerOffset)
    closeSync(file)
  }
  return performance.now() - startMs
}
