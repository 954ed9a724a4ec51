import type { DownloadProgress } from '@tributary/client/node'

const barChars = 30
const terminalEveryMs = 100
const plainEveryMs = 5000

/** The progress of a backfill on stderr: one line that renews itself on a terminal, a line now and then elsewhere. */
export class ProgressBar {
  readonly #startedAt = performance.now()
  readonly #isTerminal: boolean = process.stderr.isTTY
  #shownAt = performance.now()
  #isOpen = false

  show(progress: DownloadProgress, events: number): void {
    const now = performance.now()
    if (now - this.#shownAt < (this.#isTerminal ? terminalEveryMs : plainEveryMs)) return
    this.#shownAt = now
    const text = this.#text(progress, events)
    process.stderr.write(this.#isTerminal ? `\r\x1b[2K${text}` : `${text}\n`)
    this.#isOpen = this.#isTerminal
  }

  /** A line of its own, above whatever follows. */
  print(text: string): void {
    process.stderr.write(`${this.#isOpen ? '\r\x1b[2K' : ''}tributary backfill: ${text}\n`)
    this.#isOpen = false
  }

  #text({ bytes, fromSeq, cursor, throughSeq }: DownloadProgress, events: number): string {
    const part = throughSeq > fromSeq ? (cursor - fromSeq) / (throughSeq - fromSeq) : 1
    const bar = '#'.repeat(Math.round(part * barChars)).padEnd(barChars, '.')
    const seconds = (performance.now() - this.#startedAt) / 1000
    const rate = `${(bytes / 1e6 / seconds).toFixed(1)} MB/s`
    return `[${bar}] ${Math.floor(part * 100)} %  seq ${cursor} of ${throughSeq}  ${events} events  ${rate}`
  }
}
