/**
 * Keeps one process of a service running while time passes: starts it, starts it again when it has ended by itself, stops
 * and kills it, and takes the power from its disk.
 */
import { turn } from './real-turn.ts'
import type { SimulatedDisk } from './simulated-disk.ts'
import type { VirtualTime } from './virtual-time.ts'

/** One process of a service, from its start to its end. */
export interface KeptProcess {
  /** It has ended by itself. */
  readonly hasFailed: boolean
  readonly hasStarted: boolean
  /** The process is gone from one moment to the next. */
  kill: () => Promise<void>
  /** Ends it as its service does. False when it failed on the way. */
  stop: () => Promise<boolean>
}

export interface KeeperParts<P extends KeptProcess> {
  /** Of the service. */
  name: string
  time: VirtualTime
  /** What outlives a process. */
  storage: {
    /** Default: it has none that can be looked at. */
    disk?: Pick<SimulatedDisk, 'hasFailedWrite' | 'isMisused' | 'openFiles'>
    /** It takes so many more calls. */
    failAfter: (calls: number) => void
    restart: (isPowerLost: boolean) => void
  }
  /** The promises that broke so far. Nothing is begun after one. */
  broken: readonly string[]
  onBroken: (what: string) => void
  start: () => Promise<P>
  /** It may have failed already. */
  onStarted: (process: P) => void
  /** Its consumers lose their connections. */
  onKill: () => void
  /** It was killed, or has stopped. Default: nothing. */
  onEnded?: () => void
  /** Looks at it, now and then. */
  look: () => void
}

/** How a process ends. */
export interface Ending {
  how: 'stop' | 'kill' | 'power'
  /** It goes on until its disk has taken so many calls, which may take a while. */
  afterCalls: number | undefined
  /** From its end to the next start. */
  downMs: number
}

/** Longest stretch between two looks. */
const lookMs = 2000
/** A process that cannot start at all is no use to wait for. */
const startsMax = 20
/** How long a process may take to end of a write that failed. */
const endingMsMax = 10_000

export class ProcessKeeper<P extends KeptProcess> {
  readonly #parts: KeeperParts<P>
  #process: P | undefined
  /** When a write of the process had failed. */
  #failedWriteMs = Infinity

  constructor(parts: KeeperParts<P>) {
    this.#parts = parts
  }

  /** The present process. Undefined before the first. */
  get process(): P | undefined {
    return this.#process
  }

  /** The present process, if it has started. */
  get started(): P | undefined {
    return this.#process?.hasStarted ? this.#process : undefined
  }

  async start(): Promise<void> {
    const { start, onStarted, onBroken, storage, broken, name } = this.#parts
    for (let starts = 0; starts < startsMax; starts++) {
      this.#process = await start()
      onStarted(this.#process)
      if (!this.#process.hasFailed || broken.length > 0) return
      await this.kill()
      storage.restart(false)
    }
    onBroken(`A4: the ${name} does not start`)
  }

  /** Lets time pass, looks now and then, and starts the process again when it has ended. */
  async pass(ms: number): Promise<void> {
    const { time, broken, look } = this.#parts
    const untilMs = time.nowMs + ms
    do {
      await time.run(Math.min(lookMs, Math.max(0, untilMs - time.nowMs)))
      if (this.#process?.hasFailed) await this.#recover(false, 0)
      look()
      this.#lookAtDisk()
    } while (time.nowMs < untilMs && broken.length === 0)
  }

  /** Ends the process and starts the next one. */
  async restart({ how, afterCalls, downMs }: Ending): Promise<void> {
    const { storage, time, onEnded } = this.#parts
    if (how === 'stop') {
      if (!(await this.started?.stop())) return await this.#recover(false, downMs)
      const { openFiles = 0 } = storage.disk ?? {}
      if (openFiles > 0) this.#parts.onBroken(`A3: ${openFiles} files are open after a stop`)
      onEnded?.()
      if (downMs > 0) await time.run(downMs)
      return await this.start()
    }
    if (afterCalls !== undefined) {
      storage.failAfter(afterCalls)
      await time.run(afterCalls * 50)
    }
    await this.#recover(how === 'power', downMs)
  }

  async kill(): Promise<void> {
    this.#parts.onKill()
    await turn()
    await this.#process?.kill()
  }

  /** A fault of the disk is never swallowed. */
  #lookAtDisk(): void {
    const { time, onBroken, name, storage } = this.#parts
    const { hasFailedWrite, isMisused } = storage.disk ?? {}
    if (isMisused === true) onBroken(`A4: the ${name} writes to a file of which a write failed`)
    if (hasFailedWrite !== true) this.#failedWriteMs = Infinity
    else if (time.nowMs - this.#failedWriteMs > endingMsMax)
      onBroken(`A4: the ${name} goes on after a write that failed`)
    else this.#failedWriteMs = Math.min(this.#failedWriteMs, time.nowMs)
  }

  async #recover(isPowerLost: boolean, downMs: number): Promise<void> {
    const { storage, time, onEnded } = this.#parts
    await this.kill()
    onEnded?.()
    storage.restart(isPowerLost)
    if (downMs > 0) await time.run(downMs)
    await this.start()
  }
}
