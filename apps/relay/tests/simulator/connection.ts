/** A connection to a host, from where its messages come as a `SourceConnection` hands them on. */
import { readMessage } from '@tributary/repo-verify'
import { encodeEvent } from '@tributary/testkit'
import type { Clock } from '../../src/clock.ts'
import type { Pipeline } from '../../src/pipeline/pipeline.ts'
import type { PauseReason } from '../../src/sources/read-gate.ts'
import { SourceReader } from '../../src/sources/source-reader.ts'
import { livePosition, type Source } from '../../src/sources/source.ts'
import type { RelayConditions } from './conditions.ts'
import type { Entry, SimulatedHost } from './hosts.ts'

const outdated = readMessage(Buffer.from(encodeEvent('#info', { name: 'OutdatedCursor' })))
/** Messages that one packet of a host may hold. */
const packetMax = 6

export interface ConnectionParts {
  source: Source
  host: SimulatedHost
  pipeline: Pipeline
  clock: Clock
  conditions: RelayConditions
  /** Told of each message just before it is handed on. */
  onDeliver: (entry: Entry) => void
  /** Told of messages that are not read any more, if they were not before. */
  onLost: (entries: readonly Entry[]) => void
  /** What was thrown while a message was taken in. */
  onThrown: (error: unknown) => void
}

export class SimulatedConnection {
  readonly #parts: ConnectionParts
  readonly #pauses = new Set<PauseReason>()
  #reader: SourceReader | undefined
  /** The messages of the journal that were handed on. */
  #position = 0
  #isScheduled = false
  #isClosed = false

  constructor(parts: ConnectionParts) {
    this.#parts = parts
    parts.source.reading.expect()
    parts.host.onEmit = () => this.#schedule()
    this.#schedule()
  }

  /** The first reason for which nothing is read. */
  get pauseReason(): PauseReason | undefined {
    return this.#pauses.values().next().value
  }

  setPaused(reason: PauseReason, isPaused: boolean): void {
    if (isPaused) this.#pauses.add(reason)
    else this.#pauses.delete(reason)
    this.#parts.source.reading.setPause(this.pauseReason)
    this.#schedule()
  }

  /** The connection breaks. It is dialled again from where the source is then. */
  end(): void {
    if (!this.#reader) return
    this.#reader = undefined
    this.#parts.source.reading.close()
    this.#schedule()
  }

  /** The relay stops: nothing more is read. */
  close(): void {
    this.#isClosed = true
    this.end()
  }

  get #manner(): string {
    return this.#parts.conditions.of(`link ${this.#parts.host.index}`, 'link')
  }

  #schedule(): void {
    const { clock, conditions } = this.#parts
    if (this.#isScheduled || this.#isClosed || (this.#reader && this.#isAtEnd)) return
    this.#isScheduled = true
    const manner = this.#manner
    const slowMs = manner === 'slow' ? conditions.some(100, 2000) : conditions.some(0, 10)
    clock.after(this.#reader ? slowMs : slowMs + conditions.some(10, 1000), () => {
      this.#isScheduled = false
      this.#next()
    })
  }

  get #isAtEnd(): boolean {
    return this.#position >= this.#parts.host.journal.length || this.#pauses.size > 0
  }

  #next(): void {
    if (this.#isClosed) return
    const { conditions } = this.#parts
    const manner = this.#manner
    if (manner === 'down' || !this.#parts.source.isWanted || (manner === 'jumpy' && conditions.chance(0.2)))
      this.end()
    else if (this.#reader) this.#deliver(this.#reader)
    else this.#dial()
    this.#schedule()
  }

  #dial(): void {
    const { source, host, pipeline, onLost } = this.#parts
    const { receivedSeq } = source
    const { journal, keptFrom } = host
    this.#reader = new SourceReader(source, pipeline)
    const next = receivedSeq === livePosition ? -1 : journal.findIndex(({ seq }) => seq > receivedSeq)
    const wanted = next < 0 ? journal.length : next
    this.#position = Math.max(wanted, keptFrom)
    source.lastConnectedAtMs = source.nowMs()
    source.reading.open()
    const isOutdated = this.#position > wanted
    if (isOutdated && outdated.ok && outdated.kind === 'info') this.#reader.takeNotice(outdated)
    if (isOutdated || receivedSeq === livePosition) onLost(journal.slice(0, this.#position))
  }

  #deliver(reader: SourceReader): void {
    const { host, conditions, onDeliver, onThrown } = this.#parts
    const count = Math.ceil(conditions.some(0, packetMax))
    for (let n = 0; n < count && this.#reader === reader; n++) {
      const entry = this.#isAtEnd ? undefined : host.journal[this.#position]
      if (!entry) return
      this.#position++
      onDeliver(entry)
      const bytes = Buffer.from(entry.frame)
      try {
        const message = readMessage(bytes)
        if (message.ok && (message.kind === 'info' || message.kind === 'error'))
          throw new Error('hosts of the simulator send events only')
        reader.take(message, bytes.length)
      } catch (error) {
        onThrown(error)
      }
      // The socket uses its memory again.
      bytes.fill(0xff)
    }
  }
}
