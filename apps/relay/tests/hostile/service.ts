/**
 * A service under attack: started again when it ends, as a supervisor does it. An end that nobody caused is a breach;
 * its memory and the longest turn of its event loop are looked at all the time.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { startProcess, type ServiceProcess } from '@tributary/testkit'
import { ThreadTimes } from './thread-times.ts'
import type { OnBreach } from './witness.ts'

export interface ServiceOptions {
  name: 'relay' | 'stream'
  entry: string
  env: Record<string, string>
  /** Where a profile of what it did is left when it ends in order. */
  profileDirectory: string | undefined
  onBreach: OnBreach
}

/** The longest turn of the event loop, without what the thread waited for a core, and what of it was for the disk. */
export interface Turn {
  ms: number
  diskMs: number
}

const lookMs = 500
const metricsTimeoutMs = 10_000
const restartMs = 200
/** So many ends that nobody caused are a loop that only an operator could end. */
const endsMax = 4
const stderrShown = 1200
/** Events that a defect of the service cost. */
const defectMetric = /^\w+\{[^}]*internal-error[^}]*\} (\d+)$/gm
const refusedMetric = /^\w+_events_refused_total\{[^}]*reason="([^"]+)"[^}]*\} (\d+)$/gm
const loopMetric = /^nodejs_eventloop_lag_max_seconds\S* (\S+)$/m

export class Service implements AsyncDisposable {
  readonly name: string
  readonly #options: ServiceOptions
  #process: ServiceProcess | undefined
  #isClosed = false
  #isKilled = false
  #ends = 0
  #looking: Promise<void> | undefined
  /** Resolves when the service ends again and again. */
  readonly lost: Promise<void>
  #lose: () => void = () => {}
  /** The largest since the last `takeFigures`. */
  #memoryBytes = 0
  #turn: Turn = { ms: 0, diskMs: 0 }
  #defects = 0
  #refused = ''
  readonly #times = new ThreadTimes()

  private constructor(options: ServiceOptions) {
    this.#options = options
    this.name = options.name
    this.lost = new Promise((resolve) => (this.#lose = resolve))
  }

  static async start(options: ServiceOptions): Promise<Service> {
    const service = new Service(options)
    await service.#start()
    service.#looking = service.#look()
    return service
  }

  /** When it was ready last. */
  startedAtMs = Infinity

  get url(): string {
    return this.#process?.url ?? ''
  }

  /** Kills it without a word; it is started again like after any other end. */
  async kill(): Promise<void> {
    this.#isKilled = true
    await this.#process?.kill('SIGKILL')
  }

  /** Of this process's present run. */
  cpuSeconds(): number {
    return this.#process?.isRunning ? this.#process.cpuSeconds() : 0
  }

  /** Resolves when it serves. After a kill it is away for as long as its start takes. */
  async whenUp(): Promise<void> {
    while (!this.#isClosed && this.#ends < endsMax && this.#process?.isRunning !== true)
      await sleep(restartMs)
  }

  /** The largest figures since the last call. */
  takeFigures(): { memoryBytes: number; turn: Turn } {
    const figures = { memoryBytes: this.#memoryBytes, turn: this.#turn }
    this.#memoryBytes = 0
    this.#turn = { ms: 0, diskMs: 0 }
    return figures
  }

  /** How many events it refused since its start, by reason, of all accounts. */
  get refused(): string {
    return this.#refused
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    const exit = await this.#process?.stop()
    if (exit && exit.code !== 0)
      this.#breach(`ended with code ${exit.code}, signal ${exit.signal}, when it was asked to end`)
    await this.#looking
  }

  async #start(): Promise<void> {
    const { name, entry, env, profileDirectory } = this.#options
    const process = await startProcess(entry, {
      env,
      endsByItself: true,
      stopTimeoutMs: 15_000,
      nodeOptions: profileDirectory === undefined ? [] : profiling(name, profileDirectory),
    })
    this.#process = process
    this.startedAtMs = performance.now()
    void process.exited.then(({ code, signal }) => {
      if (this.#isClosed) return
      if (!this.#isKilled)
        this.#ended(`ended by itself with code ${code}, signal ${signal}: ${tail(process.stderr)}`)
      this.#isKilled = false
      void this.#restart()
    })
  }

  async #restart(): Promise<void> {
    while (!this.#isClosed && this.#ends < endsMax) {
      await sleep(restartMs)
      try {
        return await this.#start()
      } catch (error) {
        this.#ended(`did not start: ${tail(String((error as Error).cause))}`)
      }
    }
  }

  #ended(what: string): void {
    this.#ends++
    this.#breach(this.#ends === endsMax ? `ends at every start; ${what}` : what)
    if (this.#ends >= endsMax) this.#lose()
  }

  async #look(): Promise<void> {
    let before: ServiceProcess | undefined
    while (!this.#isClosed) {
      const process = this.#process
      if (process?.isRunning) {
        this.#memoryBytes = Math.max(this.#memoryBytes, residentBytes(process.pid))
        const { turnMs, defects, refused } = await readMetrics(process.url)
        this.#refused = refused
        if (process !== before) this.#defects = 0
        if (defects > this.#defects)
          this.#breach(`had a defect of its own (internal-error) with ${defects - this.#defects} events`)
        this.#defects = Math.max(defects, this.#defects)
        // Starting is one long turn, before anybody is served.
        if (process === before) {
          const { runMs, coreMs } = this.#times.mostWithin(turnMs)
          const ms = turnMs - coreMs
          if (ms > this.#turn.ms) this.#turn = { ms, diskMs: Math.max(0, ms - runMs) }
        }
        this.#times.forget()
        before = process
      }
      await this.#times.sample(this.#process?.pid, lookMs)
    }
  }

  #breach(what: string): void {
    this.#options.onBreach({ promise: 'A4', what: `${this.name} ${what}` })
  }
}

function profiling(name: string, directory: string): string[] {
  return ['--cpu-prof', `--cpu-prof-dir=${directory}`, `--cpu-prof-name=${name}-${Date.now()}.cpuprofile`]
}

function residentBytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}

/** The longest delay of a timer since the last look, which the service measures itself, and what became of events. */
async function readMetrics(url: string): Promise<{ turnMs: number; defects: number; refused: string }> {
  const askedMs = performance.now()
  try {
    const response = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(metricsTimeoutMs) })
    const text = await response.text()
    const defects = [...text.matchAll(defectMetric)].reduce((sum, [, count]) => sum + Number(count), 0)
    const refused = [...text.matchAll(refusedMetric)].map(([, reason, count]) => `${reason} ${count}`)
    return { turnMs: Number(loopMetric.exec(text)?.[1] ?? 0) * 1000, defects, refused: refused.join(', ') }
  } catch {
    // It is being killed, or holds its loop for longer than anybody waits.
    const tookMs = performance.now() - askedMs
    return { turnMs: tookMs >= metricsTimeoutMs ? tookMs : 0, defects: 0, refused: '' }
  }
}

/** The end of what a process wrote, where the error is. */
function tail(text: string): string {
  const fatal = text.lastIndexOf('"level":"fatal"')
  return (fatal >= 0 ? text.slice(fatal, fatal + stderrShown) : text.slice(-stderrShown)).trim()
}
