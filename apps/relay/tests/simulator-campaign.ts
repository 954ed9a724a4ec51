/**
 * Plays scripts of the simulator, drawn from seeds that are new each time, in two processes. A script that breaks a
 * promise is made as short as it gets and printed, so that it can be played again.
 *
 *     npm run campaign -- simulator --seeds 100000
 *     npm run campaign -- simulator --seed 770 --seeds 1
 *     npm run campaign -- simulator --script failed.jsonl
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { scriptFrom, scriptOf, textOf, type Script } from './simulator/script.ts'
import { shrink } from './simulator/shrink.ts'
import { play } from './simulator/simulation.ts'

/** What of a run is shown before its end. */
const traceLines = 30
/** One who looks for a fault wants to see it, and not all of its kind. */
const failuresMax = 3

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '2000' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 1e9)) },
    processes: { type: 'string', default: '2' },
    script: { type: 'string' },
    /** How long a script is made shorter. */
    'shrink-ms': { type: 'string', default: '60000' },
  },
})
const [seeds, seed, processes] = [values.seeds, values.seed, values.processes].map(Number) as [
  number,
  number,
  number,
] // three of three
if (values.script !== undefined) await playOne(scriptFrom(readFileSync(values.script, 'utf8')))
else if (processes > 1 && seeds > 1) await share()
else await playAll()

async function playAll(): Promise<void> {
  let failures = 0
  for (let at = seed; at < seed + seeds && failures < failuresMax; at++)
    if (await playOne(scriptOf(at))) failures++
}

/** @returns whether a promise broke. */
async function playOne(script: Script): Promise<boolean> {
  const { broken } = await play(script)
  const [first] = broken
  if (first === undefined) return false
  const short = await shrink(script, first, Number(values['shrink-ms']))
  const { trace, broken: again } = await play(short)
  console.log(`simulator: seed ${script.seed} breaks a promise. The shortest script found:`)
  console.log(textOf(short))
  console.log(`simulator: the end of what happened:`)
  console.log(trace.slice(-traceLines).join('\n'))
  console.log(`simulator: ${again.join('\n')}`)
  process.exitCode = 1
  return true
}

async function share(): Promise<void> {
  const startedMs = performance.now()
  const each = Math.ceil(seeds / processes)
  const codes = await Promise.all(
    Array.from({ length: processes }, async (_, n) => {
      const range = ['--seed', String(seed + n * each), '--seeds', String(Math.min(each, seeds - n * each))]
      range.push('--shrink-ms', values['shrink-ms'])
      const child = spawn(process.execPath, [import.meta.filename, ...range, '--processes', '1'], {
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
