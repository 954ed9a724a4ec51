/**
 * Runs commands in one process, each at a width of the terminal or with its output in a pipe, and prints what came of
 * them: `golden-program.ts FILE` with a JSON list of calls. It starts Node once for all of them.
 */
import { readFileSync } from 'node:fs'
import { createProgram } from '../src/program.ts'
import type { Call, Outcome } from './golden-files.ts'

class Ended extends Error {
  readonly code: number
  constructor(code: number) {
    super(`ended with ${code}`)
    this.code = code
  }
}

const calls = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as Call[] // written by the test
const write = process.stdout.write.bind(process.stdout)
const exit = process.exit.bind(process)
// Each command listens for signals.
process.setMaxListeners(0)
process.exit = (code) => {
  throw new Ended(Number(code))
}

async function outcomeOf({ args, columns }: Call): Promise<Outcome> {
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    const stream = process[name]
    // A terminal, as far as commands ask.
    Object.assign(stream, { columns, isTTY: columns !== undefined, hasColors: () => false })
    stream.write = (text: string | Uint8Array, ...rest: unknown[]) => {
      said[name] += typeof text === 'string' ? text : Buffer.from(text).toString()
      const done = rest.at(-1)
      if (typeof done === 'function') done()
      return true
    }
  }
  try {
    await createProgram().parseAsync(args, { from: 'user' })
    return { code: 0, ...said }
  } catch (error) {
    if (!(error instanceof Ended)) throw error
    return { code: error.code, ...said }
  }
}

const outcomes = []
for (const call of calls) outcomes.push(await outcomeOf(call))
// Connections of commands that have ended may be open still.
write(JSON.stringify(outcomes), () => exit(0))
