/**
 * The command of a simulator: plays scripts, drawn from seeds that are new each time, in two processes. A script that
 * breaks a promise is made as short as it gets and printed, so that it can be played again.
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { scriptFrom, textOf, type AnyScript, type Play } from './script.ts'
import { shrink } from './shrink.ts'

export interface Simulator<S extends AnyScript> {
  /** The command's own file, of which it starts a process for each half of the seeds. */
  file: string
  scriptOf: (seed: number) => S
  play: Play<S>
}

/** Megabytes for young objects. A run makes many, and with less room a fifth of the time goes into their collection. */
const memory = ['--min-semi-space-size=32', '--max-semi-space-size=64']
/** What of a run is shown before its end. */
const traceLines = 30

/** Does what the arguments of the process say. */
export async function runCampaign<S extends AnyScript>(simulator: Simulator<S>): Promise<void> {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '2000' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 1e9)) },
      processes: { type: 'string', default: '2' },
      script: { type: 'string' },
      /** Somebody who looks for a fault wants to see it, and not all of its kind. */
      'failures-max': { type: 'string', default: '3' },
      /** How long a script is made shorter. */
      'shrink-ms': { type: 'string', default: '60000' },
    },
  })
  const [seeds, seed, processes, shrinkMs, failuresMax] = [
    values.seeds,
    values.seed,
    values.processes,
    values['shrink-ms'],
    values['failures-max'],
  ].map(Number) as [number, number, number, number, number] // five of five
  if (values.script !== undefined)
    await playOne(simulator, scriptFrom(readFileSync(values.script, 'utf8')) as S, shrinkMs) // as it was printed
  else if (processes > 1 && seeds > 1) await share(simulator.file, { seeds, seed, processes, shrinkMs })
  else {
    let failures = 0
    for (let at = seed; at < seed + seeds && failures < failuresMax; at++)
      if (await playOne(simulator, simulator.scriptOf(at), shrinkMs)) failures++
  }
}

/** @returns whether a promise broke. */
async function playOne<S extends AnyScript>(
  { play }: Simulator<S>,
  script: S,
  shrinkMs: number,
): Promise<boolean> {
  const { broken } = await play(script)
  const [first] = broken
  if (first === undefined) return false
  const short = await shrink(script, play, first, shrinkMs)
  const { trace, broken: again } = await play(short)
  console.log(`simulator: seed ${script.seed} breaks a promise. The shortest script found:`)
  console.log(textOf(short))
  console.log(`simulator: the end of what happened:`)
  console.log(trace.slice(-traceLines).join('\n'))
  console.log(`simulator: ${again.join('\n')}`)
  if (again.length === 0) console.log(`simulator: played again, nothing broke. At first: ${first}`)
  process.exitCode = 1
  return true
}

interface Share {
  seeds: number
  seed: number
  processes: number
  shrinkMs: number
}

async function share(file: string, { seeds, seed, processes, shrinkMs }: Share): Promise<void> {
  const startedMs = performance.now()
  const each = Math.ceil(seeds / processes)
  const codes = await Promise.all(
    Array.from({ length: processes }, async (_, n) => {
      const range = ['--seed', String(seed + n * each), '--seeds', String(Math.min(each, seeds - n * each))]
      range.push('--shrink-ms', String(shrinkMs))
      const child = spawn(process.execPath, [...memory, file, ...range, '--processes', '1'], {
        stdio: 'inherit',
      })
      return await new Promise<number | null>((resolve) => child.once('exit', resolve))
    }),
  )
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1)
  const isWhole = codes.every((code) => code === 0)
  const outcome = isWhole ? 'no promise broke' : 'promises broke'
  console.log(`simulator: ${seeds} seeds from ${seed} on, ${seconds} s: ${outcome}`)
  if (!isWhole) process.exitCode = 1
}
