/** Looks at the log of a process, whatever it is used for: what it counts, and that its times and numbers only rise. */

interface Slice {
  readonly count: number
  seqAt: (row: number) => number
  timeMsAt: (row: number) => number
}

/** A log, as far as it is looked at. */
interface WatchedLog<M> {
  readonly nextSeq: number
  readonly oldestSeq: number
  readonly visibleSeq: number
  readonly durableSeq: number
  readonly pendingBytes: number
  append: (meta: M, ...parts: Uint8Array[]) => number
  flush: () => Promise<void>
  onVisible: (listener: (slices: readonly Slice[]) => void) => void
  onDurable: (listener: (seq: number) => void) => void
}

/** What outlives the processes that have the log open. */
export interface LogPast {
  seq: number
  timeMs: number
}

/** @param past what was seen before, of earlier processes too. It is kept up to date. */
export function watchLog<M>(log: WatchedLog<M>, past: LogPast, onBroken: (what: string) => void): void {
  const append = log.append.bind(log)
  const flush = log.flush.bind(log)
  let appendedSeq = 0
  // A log without records knows of no time.
  if (log.oldestSeq === log.nextSeq) past.timeMs = 0
  log.append = (meta, ...parts) => {
    const before = log.pendingBytes
    const seq = append(meta, ...parts)
    const bytes = parts.reduce((sum, { length }) => sum + length, 0)
    if (log.pendingBytes < before + bytes)
      onBroken(`A3: ${bytes} bytes wait for the disk, and count for ${log.pendingBytes - before}`)
    appendedSeq = seq
    return seq
  }
  log.flush = async () => {
    const seq = appendedSeq
    await flush()
    if (log.durableSeq < seq) onBroken(`a flush returns before ${seq} is durable`)
  }
  log.onVisible((slices) => {
    for (const slice of slices)
      for (let row = 0; row < slice.count; row++) {
        const [seq, timeMs] = [slice.seqAt(row), slice.timeMsAt(row)]
        if (seq <= past.seq) onBroken(`the log shows ${seq} after ${past.seq}`)
        if (timeMs < past.timeMs) onBroken(`the time of ${seq} in the log goes back`)
        past.seq = seq
        past.timeMs = timeMs
      }
  })
  log.onDurable((seq) => {
    if (seq > log.visibleSeq) onBroken(`${seq} is durable, and is not visible`)
    if (seq === log.nextSeq - 1 && log.pendingBytes > 0)
      onBroken(`A3: all is durable, and ${log.pendingBytes} bytes still wait`)
  })
}
