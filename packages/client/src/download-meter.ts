import type { ArchiveSizes } from './archive-sizes.ts'
import type { Plan } from './plan.ts'

/** How much of a planned download is done, in bytes: what was read before does not count, nor do seqs without rows. */
export class DownloadMeter {
  readonly #sizes: ArchiveSizes
  /** Bytes of the entries that are done. */
  #doneBytes = 0
  #totalBytes = 0
  /** By the name of the segment, what is left of the plan. */
  #entryBytes = new Map<string, number>()
  #current = { segment: '', bytes: 0 }

  constructor(sizes: ArchiveSizes) {
    this.#sizes = sizes
  }

  /** Begins a page of a plan that is to go through `throughSeq`. What no page names yet is taken to be as dense. */
  plan({ entries, plannedThroughSeq }: Plan, afterSeq: number, throughSeq: number): void {
    this.#finishCurrent()
    const sizes = entries.map((entry) => [entry.name, this.#sizes.bytesOf(entry)] as const)
    this.#entryBytes = new Map(sizes)
    const pageBytes = sizes.reduce((sum, [, bytes]) => sum + bytes, 0)
    const pageSeqs = plannedThroughSeq - afterSeq
    const laterSeqs = Math.max(0, throughSeq - plannedThroughSeq)
    const laterBytes = pageSeqs > 0 ? (pageBytes * laterSeqs) / pageSeqs : 0
    this.#totalBytes = Math.round(this.#doneBytes + pageBytes + laterBytes)
  }

  /** Counts a block that was read. */
  read(segment: string, bytes: number): void {
    if (segment !== this.#current.segment) {
      this.#finishCurrent()
      this.#current = { segment, bytes: 0 }
    }
    this.#current.bytes += bytes
  }

  get progress(): { doneBytes: number; totalBytes: number } {
    const expected = this.#entryBytes.get(this.#current.segment) ?? 0
    const doneBytes = this.#doneBytes + Math.min(this.#current.bytes, expected)
    return { doneBytes, totalBytes: Math.max(this.#totalBytes, doneBytes) }
  }

  /** A segment is done when another one begins: its index and filters were not fetched. */
  #finishCurrent(): void {
    this.#doneBytes += this.#entryBytes.get(this.#current.segment) ?? 0
    this.#current = { segment: '', bytes: 0 }
  }
}
