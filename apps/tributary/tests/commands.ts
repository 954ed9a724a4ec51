/** Commands that run one after the other in one process, so that Node is started once for all of them. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { childEnvironment } from '@tributary/settings'

/** One command, and how wide the terminal is; without a width its output goes into a pipe. */
export interface Call {
  args: readonly string[]
  columns?: number | undefined
}

export interface Outcome {
  code: number
  stdout: string
  stderr: string
}

/**
 * A process that runs commands as `runCli` does. `runCli` is for what only a process of its own shows: real pipes and
 * files as output, variables, a start of services.
 */
export class Commands implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #exited: Promise<unknown[]>

  /** @param directory the working directory of the commands */
  constructor(directory: string = process.cwd()) {
    this.#child = fork(join(import.meta.dirname, 'commands-program.ts'), {
      cwd: directory,
      env: childEnvironment({}),
      execArgv: [],
    })
    this.#exited = once(this.#child, 'exit')
  }

  /** Runs one command to its end. The next one may be run after that. */
  async run(args: readonly string[], columns?: number): Promise<Outcome> {
    this.#child.send({ args, columns } satisfies Call)
    const ended = this.#exited.then((): never => {
      throw new Error(`${args.join(' ')}: the process of the commands has ended`)
    })
    const answered = once(this.#child, 'message')
    const [outcome] = (await Promise.race([answered, ended])) as [Outcome] // as the program sends it
    return outcome
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.connected) this.#child.disconnect()
    await this.#exited
  }
}
