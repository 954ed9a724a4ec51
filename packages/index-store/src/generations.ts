/**
 * Generations of an index: whole databases at one place, of which readers read one. A rebuild fills the next one beside the
 * present one and then makes it the present one, in one step that happens or does not. In SQLite a generation is a file and
 * a small file beside it names the present one; in PostgreSQL it is a schema and a row names it.
 */
import { IndexStorageError } from './storage-error.ts'

/** How far a generation has come in its stream. */
export interface GenerationProgress {
  readonly generation: number
  readonly cursor: number
}

/** Why generations are still there that were to be removed. */
export class GenerationsLeftError extends Error {
  override readonly name = 'GenerationsLeftError'
  readonly generations: readonly number[]

  /** @param faults the reason of each generation; undefined when all are gone */
  static of(faults: ReadonlyMap<number, Error>): GenerationsLeftError | undefined {
    const [first] = faults.values()
    return first && new GenerationsLeftError([...faults.keys()], first)
  }

  private constructor(generations: readonly number[], cause: Error) {
    super(cause.message, { cause })
    this.generations = generations
  }
}

export interface Generations extends AsyncDisposable {
  /** The number of the one that is read; 1 at first. */
  current(): Promise<number>
  /** True from `askForRebuild` until the next generation is the present one. */
  isRebuildAsked(): Promise<boolean>
  /** Asks the index that writes here to rebuild. Asking again changes nothing. */
  askForRebuild(): Promise<void>
  /** Makes this generation the present one. It must be whole and durable. */
  switchTo(generation: number): Promise<void>
  /**
   * Removes every other generation. Resolves with why one is still there, such as the lock of somebody who reads it: then try
   * again later.
   * @throws IndexStorageError when the present one is not among them, and when the storage is away.
   */
  keepOnly(generations: readonly number[]): Promise<GenerationsLeftError | undefined>
  /** Every generation that is there, in order. */
  progress(): Promise<GenerationProgress[]>
}

/** Reads the number of a generation as it is stored; undefined for anything else. */
export function readGeneration(text: string): number | undefined {
  return /^[1-9]\d{0,8}\n?$/.test(text) ? Number(text) : undefined
}

/** @throws IndexStorageError unless what is kept has the generation that is read: another index may have made that one. */
export function requireCurrent(current: number, kept: readonly number[]): void {
  if (kept.includes(current)) return
  throw new IndexStorageError(`generation ${current} is read by now, which another index has made`)
}
