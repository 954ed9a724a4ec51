/**
 * Child processes of tests, the demo and the benchmark. Every child has an end: it is stopped by
 * its owner, ends by itself when the channel to this process closes, and is killed when this
 * process exits in the ordinary way.
 */
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { isAnswer } from './child-requests.ts'
import type { ChildRequest } from './child-requests.ts'

export interface ProcessOptions {
  /** Added to this process's environment. */
  env?: Record<string, string>
  args?: readonly string[]
  /** Options for Node itself, such as `--expose-gc`. */
  nodeOptions?: readonly string[]
  /** Working directory. */
  directory?: string
  /** How long to wait for the ready message. Default 30 s. */
  readyTimeoutMs?: number
  /** How long `stop()` waits after SIGTERM before it kills. Default 10 s. */
  stopTimeoutMs?: number
  /** It will end by itself, so that need not be printed. */
  endsByItself?: boolean
}

/** How a child ended: an exit code, or the signal that killed it. */
export interface ProcessExit {
  code: number | null
  signal: NodeJS.Signals | null
}

/** What is shown of the error output of a child that ended by itself. */
const stderrShownMax = 4000
/** Output kept per stream; older output is dropped. */
const outputCharsMax = 1_000_000
const nodeMajorMin = 24
/** `/proc/PID/stat` counts CPU time in these. */
const ticksPerSecond = 100

const running = new Set<ChildProcess>()
let isExitHooked = false

/** A running child process. */
export class ServiceProcess implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #stopTimeoutMs: number
  /** Settles when the child has ended, however that came about. */
  readonly exited: Promise<ProcessExit>
  /** The address from the child's ready message, or an empty string. */
  url = ''
  /** What the child wrote so far, the last million characters. */
  stdout = ''
  stderr = ''
  #nextRequest = 1
  #isToldToEnd = false

  constructor(child: ChildProcess, stopTimeoutMs: number) {
    this.#child = child
    this.#stopTimeoutMs = stopTimeoutMs
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout = (this.stdout + text).slice(-outputCharsMax)
    })
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr = (this.stderr + text).slice(-outputCharsMax)
    })
    this.exited = new Promise((resolve) => {
      // 'close' comes after the last output has been read; a failed fork has only 'error'.
      child.once('close', (code, signal) => resolve({ code, signal }))
      child.on('error', (error) => {
        this.stderr += `${error.message}\n`
        if (child.pid === undefined) resolve({ code: null, signal: null })
      })
    })
  }

  get pid(): number {
    const { pid } = this.#child
    if (pid === undefined) throw new Error('the process was never started')
    return pid
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Sends one message over the channel between the two processes. Rejects when the child is gone. */
  async send(message: object): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#child.send(message, (error) => (error === null ? resolve() : reject(error)))
    })
  }

  /** Calls `listener` with every message of the child until the returned function is called. */
  onMessage(listener: (message: unknown) => void): () => void {
    this.#child.on('message', listener)
    return () => this.#child.off('message', listener)
  }

  /** The first message that `accept` turns into something. Rejects when the child ends before. */
  async waitForMessage<T>(accept: (message: unknown) => T | undefined): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<T>()
    const off = this.onMessage((message) => {
      const accepted = accept(message)
      if (accepted !== undefined) resolve(accepted)
    })
    const ended = this.exited.then((exit) => {
      throw new Error(`the process ended ${describeExit(exit)}\n${this.stderr}`)
    })
    try {
      return await Promise.race([promise, ended])
    } finally {
      off()
    }
  }

  /** Asks a child that uses `answerRequests`. Rejects with what its handler threw. */
  async request<T>(request: string, argument: unknown = {}): Promise<T> {
    const id = this.#nextRequest++
    const answered = this.waitForMessage((message) =>
      isAnswer(message) && message.id === id ? message : undefined,
    )
    const sent = this.send({ id, request, argument } satisfies ChildRequest)
    const [{ answer, error }] = await Promise.all([answered, sent])
    if (error !== undefined) throw new Error(`${request} failed: ${error}`)
    return answer as T // reason: parent and child share the type of the answer.
  }

  /** User and system CPU time that the child has used, in seconds. Linux only. */
  cpuSeconds(): number {
    const stat = readFileSync(`/proc/${this.pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
  }

  /** Resident memory of the child in bytes. Linux only. */
  memoryBytes(): number {
    const status = readFileSync(`/proc/${this.pid}/status`, 'utf8')
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024
  }

  /** From now on an end that nobody asked for is printed: otherwise a test only sees that something does not come. */
  reportEnd(entry: string): void {
    void this.exited.then((exit) => {
      if (this.#isToldToEnd) return
      const output = this.stderr.slice(-stderrShownMax)
      console.error(`${entry} (pid ${this.#child.pid}) ended by itself ${describeExit(exit)}\n${output}`)
    })
  }

  /** Sends `signal` (SIGKILL by default) and waits for the end. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<ProcessExit> {
    this.#isToldToEnd = true
    if (this.isRunning) this.#child.kill(signal)
    return this.exited
  }

  /** Asks the child to end, kills it when it takes too long, and waits for the end. */
  async stop(): Promise<ProcessExit> {
    if (!this.isRunning) return this.exited
    this.#isToldToEnd = true
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), this.#stopTimeoutMs)
    this.#child.kill('SIGTERM')
    const exit = await this.exited
    clearTimeout(timer)
    return exit
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

function describeExit({ code, signal }: ProcessExit): string {
  return signal === null ? `with code ${code}` : `by ${signal}`
}

/**
 * Starts `entry` (a path of a module) under this Node and waits for its message
 * `{ ready: true, url }`. Throws with the child's error output when it ends or takes too long
 * before that; the child is gone then.
 */
export async function startProcess(entry: string, options: ProcessOptions = {}): Promise<ServiceProcess> {
  const { readyTimeoutMs = 30_000, stopTimeoutMs = 10_000 } = options
  if (Number.parseInt(process.versions.node, 10) < nodeMajorMin) {
    throw new Error(`the services need Node ${nodeMajorMin}, this is ${process.version}`)
  }
  hookExit()
  const child = fork(entry, options.args ?? [], {
    env: { ...process.env, ...options.env },
    execArgv: [
      // How large its heap is to be is passed on, what is preloaded here is not.
      ...process.execArgv.filter((argument) => argument.startsWith('--initial-')),
      '--import',
      import.meta.resolve('./end-with-parent.ts'),
      ...(options.nodeOptions ?? []),
    ],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    serialization: 'advanced',
    ...(options.directory === undefined ? {} : { cwd: options.directory }),
  })
  running.add(child)
  const service = new ServiceProcess(child, stopTimeoutMs)
  void service.exited.then(() => running.delete(child))
  const timer = setTimeout(() => child.kill('SIGKILL'), readyTimeoutMs)
  try {
    service.url = await service.waitForMessage(readReady)
  } catch (error) {
    throw new Error(`${entry} did not become ready`, { cause: error })
  } finally {
    clearTimeout(timer)
  }
  if (!options.endsByItself) service.reportEnd(entry)
  return service
}

function readReady(message: unknown): string | undefined {
  if (typeof message !== 'object' || message === null) return undefined
  if (!('ready' in message) || message.ready !== true) return undefined
  return 'url' in message && typeof message.url === 'string' ? message.url : ''
}

/** A process that ends with `process.exit` leaves no child behind; a killed one closes the channels. */
function hookExit(): void {
  if (isExitHooked) return
  isExitHooked = true
  process.once('exit', () => {
    for (const child of running) child.kill('SIGKILL')
  })
}
