import type { DownloadProgress } from '@tributary/client/node'
import { counted } from '../counted.ts'
import { sayError, sayNotice } from '../say.ts'

const barChars = 24
const terminalEveryMs = 100
const plainEveryMs = 5000

/** The progress of a backfill on stderr: one line that renews itself on a terminal, a line now and then elsewhere. */
export class ProgressBar {
  readonly #startedAt = performance.now()
  readonly #isTerminal: boolean = process.stderr.isTTY
  #shownAt = -Infinity
  #isOpen = false

  /** How far the download of the archive is. */
  show(progress: DownloadProgress, events: number): void {
    this.#showNowAndThen((seconds) => progressText(progress, { events, seconds }))
  }

  /** How far the events are that no file of the archive has. */
  showSeqs(progress: SeqProgress, events: number): void {
    this.#showNowAndThen((seconds) => seqText(progress, { events, seconds }))
  }

  #showNowAndThen(textAfter: (seconds: number) => string): void {
    const now = performance.now()
    if (now - this.#shownAt < (this.#isTerminal ? terminalEveryMs : plainEveryMs)) return
    this.#shownAt = now
    const text = textAfter((now - this.#startedAt) / 1000)
    process.stderr.write(this.#isTerminal ? `\r\x1b[2K${text}` : `${text}\n`)
    this.#isOpen = this.#isTerminal
  }

  /** A line of its own, above whatever follows. */
  print(text: string): void {
    this.#clear()
    sayError(`tributary backfill: ${text}`)
  }

  /** As `print`, for what a server can say at any time. */
  printNotice(text: string): void {
    this.#clear()
    sayNotice(`tributary backfill: ${text}`)
  }

  #clear(): void {
    if (this.#isOpen) process.stderr.write('\r\x1b[2K')
    this.#isOpen = false
  }
}

/** Progress by bytes of this run, with the rate and the time left. `seconds` is the time since it began. */
export function progressText(
  { bytes, doneBytes, totalBytes, cursor, throughSeq }: DownloadProgress,
  { events, seconds }: { events: number; seconds: number },
): string {
  const rate = bytes / Math.max(seconds, 0.001)
  const tail = `${counted(events, 'event')}  ${megabytes(rate)} MB/s`
  if (totalBytes === undefined || totalBytes === 0) {
    return `${megabytes(doneBytes)} MB  seq ${cursor} of ${throughSeq}  ${tail}`
  }
  const part = doneBytes / totalBytes
  const left = rate > 0 ? `  ${duration((totalBytes - doneBytes) / rate)} left` : ''
  return `${barOf(part)}  ${megabytes(doneBytes)} of ${megabytes(totalBytes)} MB  ${tail}${left}`
}

/** Where a run is that began after one seq and goes through another. */
export interface SeqProgress {
  afterSeq: number
  cursor: number
  throughSeq: number
}

/** The same by seqs, for events that come without a download. Seqs that the filter leaves out count. */
export function seqText(
  { afterSeq, cursor, throughSeq }: SeqProgress,
  { events, seconds }: { events: number; seconds: number },
): string {
  const part = (cursor - afterSeq) / Math.max(1, throughSeq - afterSeq)
  const left = part > 0 ? `  ${duration((seconds * (1 - part)) / part)} left` : ''
  const rate = Math.round(events / Math.max(seconds, 0.001))
  return `${barOf(part)}  seq ${cursor} of ${throughSeq}  ${counted(events, 'event')}  ${rate} events/s${left}`
}

function barOf(part: number): string {
  return `[${'#'.repeat(Math.round(part * barChars)).padEnd(barChars, '.')}] ${Math.floor(part * 100)} %`
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}

/** `42 s`, `3 min 5 s`, `2 h 10 min`. */
function duration(seconds: number): string {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}
