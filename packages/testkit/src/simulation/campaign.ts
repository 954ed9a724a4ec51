/**
 * The command of a simulator: plays scripts, drawn from seeds that are new each time, in two processes. A script that
 * breaks a promise is made as short as it gets and printed, so that it can be played again.
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { scriptFrom, textOf, type AnyScript, type Play } from './script.ts'
import { shrink } from './shrink.ts'
import { watchSeeds } from './watch-seeds.ts'

export interface Simulator<S extends AnyScript> {
  /** The command's own file, of which it starts a process for each share of the seeds. */
  file: string
  scriptOf: (seed: number) => S
  play: Play<S>
}

interface Options {
  /** The first seed. */
  seed: number
  /** How many are played, each so many after the one before. */
  seeds: number
  stride: number
  /** No seed is begun after so long. */
  seconds: number
  processes: number
  /** How long a script is made shorter. */
  shrinkMs: number
  /** A process ends after so many. Somebody who looks for a fault wants to see it, and not all of its kind. */
  failuresMax: number
}

/** What came of some seeds. */
interface Tally {
  seeds: number
  failures: number
  /** Time of the processor, in milliseconds. */
  cpuMs: number
  /** By the clock. */
  seconds: number
}

/** Megabytes for young objects. A run makes many, and with less room a fifth of the time goes into their collection. */
const memory = ['--min-semi-space-size=32', '--max-semi-space-size=64']
/** What of a run is shown before its end. */
const traceLines = 30

/** Does what the arguments of the process say. */
export async function runCampaign<S extends AnyScript>(simulator: Simulator<S>): Promise<void> {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 1e9)) },
      seconds: { type: 'string' },
      stride: { type: 'string', default: '1' },
      processes: { type: 'string', default: '2' },
      script: { type: 'string' },
      'failures-max': { type: 'string', default: '3' },
      'shrink-ms': { type: 'string', default: '60000' },
    },
  })
  const options: Options = {
    seed: Number(values.seed),
    seeds: Number(values.seeds ?? (values.seconds === undefined ? 2000 : Infinity)),
    stride: Number(values.stride),
    seconds: Number(values.seconds ?? Infinity),
    processes: Number(values.processes),
    shrinkMs: Number(values['shrink-ms']),
    failuresMax: Number(values['failures-max']),
  }
  if (values.script === undefined && options.processes > 1 && options.seeds > 1)
    return await share(simulator.file, options)
  const watched = watchSeeds(simulator.play)
  const watchedSimulator = { ...simulator, play: watched }
  if (values.script !== undefined) {
    const script = scriptFrom(readFileSync(values.script, 'utf8')) as S // as it was printed
    await playOne(watchedSimulator, script, options.shrinkMs)
  } else await playAll(watchedSimulator, options)
}

/** Plays seeds in this process. Whoever has started it learns what came of them. */
async function playAll<S extends AnyScript>(simulator: Simulator<S>, options: Options): Promise<void> {
  const { seed, seeds, stride, seconds, shrinkMs, failuresMax } = options
  const startedMs = performance.now()
  const untilMs = startedMs + 1000 * seconds
  const tally: Tally = { seeds: 0, failures: 0, cpuMs: 0, seconds: 0 }
  for (let n = 0; n < seeds && tally.failures < failuresMax && performance.now() < untilMs; n++) {
    if (await playOne(simulator, simulator.scriptOf(seed + n * stride), shrinkMs)) tally.failures++
    tally.seeds++
  }
  const { user, system } = process.cpuUsage()
  tally.cpuMs = (user + system) / 1000
  tally.seconds = (performance.now() - startedMs) / 1000
  if (process.connected) process.send?.(tally, () => process.disconnect())
  else tell(seed, tally)
}

/** Says what came of seeds. */
function tell(seed: number, { seeds, failures, cpuMs, seconds }: Tally): void {
  const took = `${seconds.toFixed(1)} s, ${Math.round(cpuMs / Math.max(1, seeds))} ms of a processor each`
  const outcome = failures === 0 ? 'no promise broke' : `promises broke at ${failures}`
  console.log(`simulator: ${seeds} seeds from ${seed} on, ${took}: ${outcome}`)
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

/** Plays seeds in several processes, each every so many, and says what came of all. */
async function share(file: string, options: Options): Promise<void> {
  const { seed, seeds, stride, seconds, processes, shrinkMs, failuresMax } = options
  const startedMs = performance.now()
  const all: Tally = { seeds: 0, failures: 0, cpuMs: 0, seconds: 0 }
  const codes = await Promise.all(
    Array.from({ length: processes }, async (_, n) => {
      const range = ['--seed', seed + n * stride, '--stride', stride * processes, '--processes', 1]
      if (seeds < Infinity) range.push('--seeds', Math.ceil((seeds - n) / processes))
      if (seconds < Infinity) range.push('--seconds', seconds)
      range.push('--shrink-ms', shrinkMs, '--failures-max', failuresMax)
      const child = spawn(process.execPath, [...memory, file, ...range.map(String)], {
        stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
      })
      child.on('message', (message) => {
        const tally = message as Tally // our own process
        all.seeds += tally.seeds
        all.failures += tally.failures
        all.cpuMs += tally.cpuMs
      })
      return await new Promise<number | null>((resolve) => child.once('exit', resolve))
    }),
  )
  all.seconds = (performance.now() - startedMs) / 1000
  // A process that has ended without a word was told of by its seed.
  all.failures = Math.max(all.failures, codes.filter((code) => code !== 0).length)
  tell(seed, all)
  if (all.failures > 0) process.exitCode = 1
}
