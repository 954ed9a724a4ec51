/**
 * A process that does nothing but look at a clock, and write a little to the disk. How late its timers are, and how long
 * the disk takes, is what the machine takes from every process, so that much is nobody's fault.
 */
import { open } from 'node:fs/promises'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { answerRequests, reportReady } from '@tributary/testkit'
import type { MachineFigures } from './bystander.ts'

const resolution = 10
const writeEveryMs = 50
const written = Buffer.alloc(4096)

const file = await open(process.argv[2] ?? '', 'w')
const loop = monitorEventLoopDelay({ resolution })
loop.enable()
let syncsMs: number[] = []
/** When writes were due that wait. One that comes while the disk stands still waits for the one before. */
let sinceMs: number[] = []
let isWriting = false
setInterval(() => {
  sinceMs.push(performance.now())
  void writeToDisk()
}, writeEveryMs)
answerRequests({
  /** Since the last time. */
  figures: (): MachineFigures => {
    const turnMs = Math.max(0, loop.max / 1e6 - resolution)
    const figures = { turnMs, syncsMs: Float64Array.from(syncsMs).toSorted() }
    loop.reset()
    syncsMs = []
    return figures
  },
})
reportReady('', () => process.exit(0))

async function writeToDisk(): Promise<void> {
  if (isWriting) return
  isWriting = true
  await file.write(written, 0, written.length, 0)
  await file.datasync()
  const doneMs = performance.now()
  syncsMs.push(...sinceMs.map((dueMs) => doneMs - dueMs))
  sinceMs = []
  isWriting = false
}
