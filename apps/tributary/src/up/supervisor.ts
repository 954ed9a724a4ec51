/**
 * Keeps services running as child processes. A service that ends is started again, however often it ended: after a wait
 * that doubles up to half a minute, so that it comes back by itself when a port or the disk is free again, and costs
 * little until then. The others go on. Children end when this process does, however it ends: the channel to them closes, and they stop on that.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { ServiceName } from '../service-entry.ts'
import type { ServicePlan } from './service-plan.ts'

export type ServiceState =
  | { is: 'starting' }
  | { is: 'ready'; pid: number; url: string }
  /** It ended and will be started again. */
  | { is: 'waiting'; delayMs: number; reason: string }
  | { is: 'stopped' }

export interface SupervisorOptions {
  services: readonly ServicePlan[]
  onState: (name: ServiceName, state: ServiceState) => void
  /** Every line that a service writes, to stdout or stderr. */
  onLine: (name: ServiceName, line: string) => void
  /** The wait before the first start again, which doubles. Default 250. */
  restartMs?: number
  /** The longest wait. Default 30 s. */
  restartMsMax?: number
}

/** A service that was ready for so long is well: if it ends, the waits begin with the shortest again. */
const wellAfterMs = 60_000
/** A service stops itself within 10 s. */
const stopGraceMs = 12_000
/** sysexits.h EX_CONFIG: a service says that it will not start until somebody changes its settings. */
const exitCodeSettings = 78
/** Lines of a service that may explain its end. */
const lastLinesMax = 20

export class Supervisor implements AsyncDisposable {
  readonly #services: Map<ServiceName, SupervisedService>

  constructor(options: SupervisorOptions) {
    this.#services = new Map(
      options.services.map((plan) => [plan.name, new SupervisedService(plan, options)]),
    )
  }

  /** Starts all, and resolves once each was ready or has ended for the first time. */
  async start(): Promise<void> {
    await Promise.all([...this.#services.values()].map((service) => service.start()))
  }

  /** The state of every service, in the order given. */
  get states(): Map<ServiceName, ServiceState> {
    return new Map([...this.#services].map(([name, service]) => [name, service.state]))
  }

  /** Stops all and waits for their ends. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#services.values()].map((service) => service.stop()))
  }
}

class SupervisedService {
  state: ServiceState = { is: 'stopped' }
  readonly #plan: ServicePlan
  readonly #options: SupervisorOptions
  readonly #settled = Promise.withResolvers<void>()
  readonly #lastLines: string[] = []
  /** How often it ended since it was well. */
  #deaths = 0
  #readyAtMs = Infinity
  #wasReady = false
  #child: ChildProcess | undefined
  #exited: Promise<void> = Promise.resolve()
  #restart: NodeJS.Timeout | undefined
  #isStopping = false

  constructor(plan: ServicePlan, options: SupervisorOptions) {
    this.#plan = plan
    this.#options = options
  }

  start(): Promise<void> {
    this.#spawn()
    return this.#settled.promise
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    clearTimeout(this.#restart)
    const child = this.#child
    child?.kill('SIGTERM')
    const timer = setTimeout(() => child?.kill('SIGKILL'), stopGraceMs)
    await this.#exited
    clearTimeout(timer)
    this.#enter({ is: 'stopped' })
  }

  #spawn(): void {
    this.#readyAtMs = Infinity
    this.#enter({ is: 'starting' })
    const { entry, laterEnv } = this.#plan
    const env = { ...this.#plan.env, ...(this.#wasReady && laterEnv) }
    const child = fork(entry, { env, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
    this.#child = child
    for (const stream of [child.stdout, child.stderr]) {
      if (stream) createInterface(stream).on('line', (line) => this.#keepLine(line))
    }
    child.on('message', (message) => {
      const url = readReady(message)
      if (url === undefined) return
      this.#wasReady = true
      this.#readyAtMs = performance.now()
      this.#enter({ is: 'ready', pid: child.pid ?? 0, url })
    })
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#exited = promise
    child.on('error', (error) => {
      this.#keepLine(error.message)
      // A process that could not be started never closes.
      if (child.pid === undefined) onEnd('it could not be started')
    })
    // After 'close' everything it wrote has been read.
    child.once('close', (code, signal) =>
      onEnd(signal === null ? `exit code ${code}` : `signal ${signal}`, code),
    )
    const onEnd = (end: string, code: number | null = null): void => {
      this.#child = undefined
      resolve()
      if (!this.#isStopping) this.#onDeath(end, code)
    }
  }

  #onDeath(end: string, code: number | null): void {
    const { restartMs = 250, restartMsMax = 30_000 } = this.#options
    if (performance.now() - this.#readyAtMs >= wellAfterMs) this.#deaths = 0
    this.#deaths++
    const reason = `${end}${this.#explanation()}`
    const doubled = code === exitCodeSettings ? restartMsMax : restartMs * 2 ** (this.#deaths - 1)
    const delayMs = Math.min(doubled, restartMsMax)
    this.#enter({ is: 'waiting', delayMs, reason })
    this.#restart = setTimeout(() => this.#spawn(), delayMs)
  }

  #enter(state: ServiceState): void {
    this.state = state
    if (state.is !== 'starting') this.#settled.resolve()
    this.#options.onState(this.#plan.name, state)
  }

  #keepLine(line: string): void {
    this.#lastLines.push(line)
    if (this.#lastLines.length > lastLinesMax) this.#lastLines.shift()
    this.#options.onLine(this.#plan.name, line)
  }

  /** What the service itself said last about its end: its last fatal log line, or what it wrote that is no log line. */
  #explanation(): string {
    const fatal = this.#lastLines.map(readFatal).findLast((text) => text !== undefined)
    const text = fatal ?? this.#lastLines.findLast((line) => line.trim() !== '' && !line.startsWith('{'))
    this.#lastLines.length = 0
    return text === undefined ? '' : `: ${text.trim()}`
  }
}

function readReady(message: unknown): string | undefined {
  if (typeof message !== 'object' || message === null || !('ready' in message) || message.ready !== true)
    return undefined
  return 'url' in message && typeof message.url === 'string' ? message.url : ''
}

function readFatal(line: string): string | undefined {
  try {
    const entry: { level?: unknown; msg?: unknown; err?: { message?: unknown } } = JSON.parse(line)
    if (entry.level !== 'fatal') return undefined
    return [entry.msg, entry.err?.message].filter((part) => typeof part === 'string').join(': ')
  } catch {
    return undefined
  }
}
