import type { ServiceProcess } from '@tributary/testkit'
import type { Bench } from '../lib/bench.ts'
import type { Figure } from '../lib/figure.ts'
import { makeArchive } from '../lib/made-archive.ts'
import { operate, operatorTokenFile, startService } from '../lib/services.ts'
import { compressionSeconds } from '../lib/zstd-program.ts'

/** How many rows are compacted for each commit of the load, which is how large a run is asked for. */
const rowsPerCommit = 7
const lookMs = 50

/** What `admin.getCompaction` tells. */
interface CompactionReport {
  rowsDropped: number
  segmentsRewritten: number
  endedAt?: string
}

/**
 * One pass of compaction in a stream process over an archive of which a tenth of the rows deletes a tenth: every block is
 * rewritten, and as fast as it goes.
 */
export async function compaction(bench: Bench): Promise<Figure[]> {
  const rows = bench.load.parameters.commits * rowsPerCommit
  const directory = bench.newDirectory('archive')
  bench.say(`compaction: writing an archive of ${rows} rows`)
  await makeArchive(directory, rows, true)
  bench.say('compaction: zstd of the same blocks')
  // Before the stream starts, which begins a segment of its own.
  const zstd = rows / (await compressionSeconds(bench, directory))
  await using stream = await startService(bench, 'stream', {
    DATA_DIRECTORY: directory,
    RELAY_URL: 'ws://127.0.0.1:1',
    OPERATOR_TOKEN: operatorTokenFile(bench),
    COMPACTION_HOURS: '0',
    COMPACTION_MEGABYTES_PER_SECOND: '10000',
  })
  bench.say(`compaction: ${bench.effort.quietSeconds} s of silence`)
  await new Promise((resolve) => setTimeout(resolve, bench.effort.quietSeconds * 1000))
  const idleBytes = stream.memoryBytes()
  bench.say('compaction: one pass')
  const startCpu = stream.cpuSeconds()
  const startMs = performance.now()
  const { report, peakBytes } = await runPass(stream)
  const cpuSeconds = stream.cpuSeconds() - startCpu
  const seconds = (performance.now() - startMs) / 1000
  const rewritten = `${report.segmentsRewritten} segments rewritten, ${report.rowsDropped} rows dropped`
  const reference = { name: 'zstd -3 of the same blocks, one thread, this run', value: zstd }
  return [
    {
      name: `compaction of ${rows} rows, per CPU second`,
      value: rows / cpuSeconds,
      unit: 'rows/s',
      better: 'higher',
      references: [reference],
      note: `${rewritten}; what is superseded is looked for first, which reads everything once more`,
    },
    {
      name: 'compaction, by the clock',
      value: rows / seconds,
      unit: 'rows/s',
      better: 'higher',
      references: [reference],
    },
    {
      name: 'compaction, peak memory',
      value: peakBytes / 1e6,
      unit: 'MB',
      better: 'lower',
      references: [{ name: 'the same process before it, this run', value: idleBytes / 1e6 }],
      note: `${((peakBytes - idleBytes) / 1e6).toFixed(0)} MB above idle`,
    },
  ]
}

/** Runs a pass to its end, and looks at the memory all the while. */
async function runPass(stream: ServiceProcess): Promise<{ report: CompactionReport; peakBytes: number }> {
  let peakBytes = 0
  const looking = setInterval(() => (peakBytes = Math.max(peakBytes, stream.memoryBytes())), lookMs)
  try {
    await operate(stream, 'POST', 'compact', {})
    for (;;) {
      const report = await operate<CompactionReport>(stream, 'GET', 'getCompaction')
      if (report.endedAt !== undefined) return { report, peakBytes }
      if (!stream.isRunning) throw new Error('the stream ended')
      await new Promise((resolve) => setTimeout(resolve, lookMs))
    }
  } finally {
    clearInterval(looking)
  }
}
