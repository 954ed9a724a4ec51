import { readFile, rename, writeFile } from 'node:fs/promises'
import { xxh3Hex } from './hash.ts'

/** What a segment was when all of its footer was read and checked. */
interface KnownSegment {
  checksum: string
  fileBytes: number
  /** Hash of the header, the block index and the collection index. */
  indexHash: string
}

/**
 * Remembers which sealed segments were checked as a whole, so that a start reads only their indexes: the DID filters are
 * nine tenths of a footer, and have checksums of their own for when they are read. The file is a hint. Without it, or
 * with a wrong one, everything is read and checked, so it is written without a sync.
 */
export class KnownSegments {
  readonly #path: string | undefined
  readonly #segments: Map<string, KnownSegment>
  #isChanged = false

  private constructor(path: string | undefined, segments: Map<string, KnownSegment>) {
    this.#path = path
    this.#segments = segments
  }

  /** @param path of the file; undefined for one that forgets. */
  static async open(path: string | undefined): Promise<KnownSegments> {
    if (path === undefined) return new KnownSegments(undefined, new Map())
    try {
      const stored = JSON.parse(await readFile(path, 'utf8')) as Record<string, KnownSegment> // compared, and nothing more
      return new KnownSegments(path, new Map(Object.entries(stored)))
    } catch {
      return new KnownSegments(path, new Map())
    }
  }

  /** Whether the indexes of a segment are those that were checked with all the rest. */
  has(name: string, fileBytes: number, checksum: string, indexes: readonly Uint8Array[]): boolean {
    const known = this.#segments.get(name)
    return (
      known?.checksum === checksum && known.fileBytes === fileBytes && known.indexHash === xxh3Hex(...indexes)
    )
  }

  /** Takes note of a segment whose whole footer was checked. */
  add(name: string, fileBytes: number, checksum: string, indexes: readonly Uint8Array[]): void {
    this.#segments.set(name, { checksum, fileBytes, indexHash: xxh3Hex(...indexes) })
    this.#isChanged = true
  }

  /** Stores what was noted since the last time. A disk that fails here fails where it matters, too. */
  async save(): Promise<void> {
    const path = this.#path
    if (!this.#isChanged || path === undefined) return
    this.#isChanged = false
    try {
      await writeFile(`${path}.tmp`, JSON.stringify(Object.fromEntries(this.#segments)))
      await rename(`${path}.tmp`, path)
    } catch {
      this.#isChanged = true
    }
  }
}
