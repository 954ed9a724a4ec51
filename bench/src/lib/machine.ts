import { hash } from 'node:crypto'
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseDidKey } from '@tributary/repo-verify'
import { percentile, Signer } from '@tributary/testkit'
import secp256k1 from 'secp256k1/bindings.js'

/** Half a core of somebody else's work already moves the figures. */
const idleLoadMax = 0.5
const syncBytes = 16 * 1024
const syncRounds = 200
const verifyRounds = 5
const verificationsPerRound = 2000

/** The machine and what is on it besides us. */
export function describeMachine(): string[] {
  const [load1 = 0, load5 = 0] = loadavg()
  const model = cpus()[0]?.model ?? 'unknown CPU'
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  const lines = [
    `${model}, ${availableParallelism()} cores, ${memory}, kernel ${release()}, Node ${process.version}`,
    `load average at start: ${load1.toFixed(2)} (1 min), ${load5.toFixed(2)} (5 min)`,
  ]
  if (load1 > idleLoadMax)
    lines.push('WARNING: this machine is not idle. Expect figures that are worse, delays most of all.')
  return lines
}

/** Microseconds of CPU time that this machine takes to verify one K-256 signature, the hash of 230 bytes included. */
export function k256VerifyMicros(): number {
  const unsigned = new Uint8Array(230).fill(7)
  const signer = Signer.fromSeed('bench')
  const signature = signer.signNow(unsigned)
  const key = parseDidKey(signer.did())
  if (key === undefined) throw new Error('the key of the signer cannot be read')
  const rounds = Array.from({ length: verifyRounds }, () => {
    const start = process.cpuUsage()
    for (let index = 0; index < verificationsPerRound; index++) {
      if (!secp256k1.ecdsaVerify(signature, hash('sha256', unsigned, 'buffer'), key.point))
        throw new Error('a good signature was not accepted')
    }
    const { user, system } = process.cpuUsage(start)
    return (user + system) / verificationsPerRound
  })
  return percentile(Float64Array.from(rounds).toSorted(), 0.5)
}

export interface SyncTimes {
  p50: number
  p99: number
}

/** Milliseconds that the disk of a folder takes to write and sync 16 kB at the end of a file. */
export function fdatasyncMs(directory: string): SyncTimes {
  const path = join(directory, 'fdatasync')
  const file = openSync(path, 'w')
  const block = Buffer.alloc(syncBytes, 1)
  try {
    const times = Array.from({ length: syncRounds }, () => {
      const startMs = performance.now()
      writeSync(file, block)
      fdatasyncSync(file)
      return performance.now() - startMs
    })
    const sorted = Float64Array.from(times).toSorted()
    return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) }
  } finally {
    closeSync(file)
    rmSync(path)
  }
}
