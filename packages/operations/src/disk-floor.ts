import { statfs } from 'node:fs/promises'
import type { Logger } from '@tributary/telemetry'

export interface DiskFloorOptions {
  directory: string
  /** Megabytes that have to be free. Asked for at every look, since it can change. */
  freeMbMin: () => number
  /** What is not read below it, with its verb, as in `sources are`: for the log. */
  reading: string
  onChange: (isBelow: boolean) => void
  logger: Logger
  everyMs?: number
  freeBytes?: (directory: string) => Promise<number>
}

/** Over the floor by this much before reading goes on, so that it does not start and stop all the time. */
const marginMb = 64

/** Watches the free disk: below the floor reading pauses, and goes on by itself when there is room again. */
export class DiskFloor {
  readonly #options: DiskFloorOptions
  readonly #timer: NodeJS.Timeout
  isBelow = false
  /** As of the last look; undefined before the first. */
  freeBytes: number | undefined

  constructor(options: DiskFloorOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.look(), options.everyMs ?? 5000).unref()
  }

  /** Looks now. A disk that cannot be asked changes nothing, and is logged. */
  async look(): Promise<void> {
    const { directory, freeMbMin, freeBytes = readFreeBytes, reading, logger, onChange } = this.#options
    try {
      this.freeBytes = await freeBytes(directory)
    } catch (error) {
      logger.error({ err: error }, 'free disk cannot be read')
      return
    }
    const floorBytes = freeMbMin() * 1_000_000
    const wanted = this.isBelow ? floorBytes + marginMb * 1_000_000 : floorBytes
    const isBelow = floorBytes > 0 && this.freeBytes < wanted
    if (isBelow === this.isBelow) return
    this.isBelow = isBelow
    logger[isBelow ? 'error' : 'info'](
      { freeBytes: this.freeBytes, floorBytes },
      isBelow ? `too little disk is free: ${reading} not read` : `enough disk is free: ${reading} read again`,
    )
    onChange(isBelow)
  }

  close(): void {
    clearInterval(this.#timer)
  }
}

async function readFreeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory)
  return bavail * bsize
}
