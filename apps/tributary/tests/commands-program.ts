/** The process of `Commands`: runs each command that it is sent, and answers with what came of it. */
import { createProgram } from '../src/program.ts'
import type { Call, Outcome } from './commands.ts'

class Ended extends Error {
  readonly code: number
  constructor(code: number) {
    super(`ended with ${code}`)
    this.code = code
  }
}

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

async function answer(call: Call): Promise<void> {
  process.send?.(await outcomeOf(call))
}

process.on('message', (message) => void answer(message as Call)) // `Commands` sends nothing else
// Connections of commands that have ended may be open still.
process.once('disconnect', () => exit(0))
