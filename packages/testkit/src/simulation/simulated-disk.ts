import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PowerCutError, PowerDisk } from '../power-disk.ts'
import type { Random } from '../random.ts'
import type { ProcessClock } from './virtual-time.ts'

export interface SimulatedDiskOptions {
  /** Of its directory. */
  name: string
  random: Random
  /** How long an answer takes now. */
  waitMs: () => number
}

/** The disk of a service: it outlives processes, takes its time, fails when it is told to, and may lose its power. */
export class SimulatedDisk implements Disposable {
  readonly #options: SimulatedDiskOptions
  readonly #base: string
  #root: string
  #states = 0
  /** Of the process that uses it. */
  #generation = 0
  #disk: PowerDisk
  #clock: Pick<ProcessClock, 'after'> | undefined
  /** Answers that are on their way. */
  readonly #answers = new Set<() => void>()

  constructor(options: SimulatedDiskOptions) {
    this.#options = options
    this.#base = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), `${options.name}-`))
    this.#root = join(this.#base, 'first')
    mkdirSync(this.#root)
    this.#disk = this.#diskOf(this.#root)
  }

  /** For a process that begins. Answers come by its clock. */
  open(clock: Pick<ProcessClock, 'after'>): { disk: PowerDisk; root: string } {
    this.#clock = clock
    const generation = this.#generation
    return { disk: whileAlive(this.#disk, () => generation === this.#generation), root: this.#root }
  }

  /** It fails whoever calls it. */
  get hasFailed(): boolean {
    return this.#disk.isOff
  }

  /** A write or a sync of the process has failed. */
  get hasFailedWrite(): boolean {
    return this.#disk.hasFailedWrite
  }

  /** Whether a process wrote on to a file of which a write had failed. */
  get isMisused(): boolean {
    return this.#disk.isMisused
  }

  /** Files that the process has open. */
  get openFiles(): number {
    return this.#disk.openFiles
  }

  /** It takes so many more calls. */
  failAfter(calls: number): void {
    this.#disk.cutAfter(calls)
  }

  /** The next sync after so many fails, and what it should have brought to the disk stays in memory alone. */
  failNext(syncs: number): void {
    this.#disk.failNext(syncs)
  }

  /** It takes nothing more of the process that ends, which hears of what it has under way. */
  end(): void {
    this.#disk.cut()
    const answers = [...this.#answers]
    this.#answers.clear()
    for (const answer of answers) answer()
  }

  /** For the next process: as it was left, or as a power cut may have left it. */
  restart(isPowerLost: boolean): void {
    this.#generation++
    if (!isPowerLost) return this.#disk.revive()
    this.#disk.closeAll()
    const root = join(this.#base, `state${++this.#states}`)
    this.#disk.materialize(root)
    rmSync(this.#root, { recursive: true })
    this.#root = root
    this.#disk = this.#diskOf(root)
  }

  [Symbol.dispose](): void {
    this.#disk.closeAll()
    rmSync(this.#base, { recursive: true })
  }

  #diskOf(root: string): PowerDisk {
    const { random, waitMs } = this.#options
    const disk: PowerDisk = new PowerDisk({
      root,
      random,
      later: (answer) => {
        if (disk.isOff) return void setImmediate(answer)
        this.#answers.add(answer)
        this.#clock?.after(waitMs(), () => {
          if (this.#answers.delete(answer)) answer()
        })
      },
    })
    return disk
  }
}

/** The disk as one process sees it. What goes on of a process that has ended reaches nothing of the next one. */
function whileAlive(disk: PowerDisk, isAlive: () => boolean): PowerDisk {
  const gone = (): PowerCutError => new PowerCutError('the process has ended')
  const promises: PowerDisk['promises'] = {
    open: async (path, flags) => {
      if (!isAlive()) throw gone()
      const handle = await disk.promises.open(path, flags)
      return {
        read: async (...place) => {
          if (!isAlive()) throw gone()
          return await handle.read(...place)
        },
        // The next process may have a file of the same number.
        close: async () => (isAlive() ? await handle.close() : undefined),
      }
    },
  }
  return new Proxy(disk, {
    get(target, name) {
      if (name === 'promises') return promises
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...args: unknown[]): unknown => {
        if (isAlive()) return Reflect.apply(value, target, args)
        if (name === 'closeSync') return undefined
        const done = args.at(-1)
        if (typeof done !== 'function') throw gone()
        return void setImmediate(() => Reflect.apply(done, undefined, [gone(), 0]))
      }
    },
  })
}
