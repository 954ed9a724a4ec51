/** Watches the main thread of a simulator, which cannot tell that a run keeps it busy without an end. */
import { writeSync } from 'node:fs'
import { workerData } from 'node:worker_threads'

/** Processor time of the longest run that is waited for. Runs take a tenth of a second, and the longest ones seconds. */
const cpuMsMax = 20_000
const lookMs = 500

const began = workerData as Float64Array // from `watchSeeds`
let runs = -1
let sinceMs = 0
setInterval(() => {
  const { user, system } = process.cpuUsage()
  const cpuMs = (user + system) / 1000
  if (began[0] !== runs) {
    runs = began[0] ?? 0
    sinceMs = cpuMs
  } else if (cpuMs - sinceMs > cpuMsMax) {
    writeSync(1, `simulator: seed ${began[1]} does not end\n`)
    process.kill(process.pid, 'SIGKILL')
  }
}, lookMs)
