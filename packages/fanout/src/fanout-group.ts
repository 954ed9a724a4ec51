import type { CloseReason } from './close-reason.ts'
import type { BatchBuffer } from './batch-buffer.ts'
import { Dialogue, type DialogueHost, type TextReader } from './dialogue.ts'
import type { Connection, Subscriber } from './subscriber.ts'

/** What a source gives a reader that is behind. */
export interface CatchUp {
  /** Whole WebSocket messages, in order; none when nothing matched. */
  frames: readonly Uint8Array[]
  /** The reader's new position: everything up to here has been sent or passed over. */
  lastSeq: number
  /** Called when the frames are not used any more. It is not called when the consumer goes before it has taken them. */
  free?: () => void
}

/** Where the members of a group read from when they are not live. */
export interface CatchUpSource {
  /** The newest seq that has been published. */
  headSeq(): number
  /**
   * What stands after a position, about `maxBytes` of it. It moves the position on, unless that is the head. Its work on
   * the event loop should take no more than a millisecond or two: between two calls others have their turn.
   * @throws CloseReason when the reader cannot be served from there any more.
   */
  read(afterSeq: number, maxBytes: number): CatchUp | Promise<CatchUp>
  /** The framed message that tells a member an error by name. Default: that of the fan-out. */
  errorFrame?(error: string, message: string): Uint8Array
}

/** What a group needs of the fan-out it belongs to. */
export interface GroupHost extends DialogueHost {
  readBytesMax(): number
  /** Does a read for a reader that is behind when its turn has come. */
  takeTurn(connection: Connection, read: () => Promise<void>): Promise<void>
  scheduleFlush(group: FanoutGroup): void
  /** Has what became visible, and is not published yet, given to the groups that want it. */
  publishRest(): void
  addSubscriber(connection: Connection, group: FanoutGroup, afterSeq: number): Subscriber
  countLive(change: number): void
  /** A reader that is behind holds more or less of what was read for it, or was just written to it. */
  noteHeld(subscriber: Subscriber, frames?: readonly Uint8Array[]): void
  /** A live reader has not taken what was flushed. */
  noteFlushed(subscriber: Subscriber, frames: readonly Uint8Array[]): void
  /** Shared by all groups: what they write is with the kernel when the call returns, or left to the sockets. */
  readonly batch: BatchBuffer
}

/**
 * The subscribers with one filter. Live ones share one buffer and cost one write a flush; all others read from their
 * own position at their own pace and come back when they have reached the head.
 */
export class FanoutGroup {
  readonly source: CatchUpSource
  readonly #host: GroupHost
  readonly #live = new Set<Subscriber>()
  #pending: Uint8Array[] = []
  #pendingSeq = 0
  #members = 0

  constructor(host: GroupHost, source: CatchUpSource) {
    this.#host = host
    this.source = source
  }

  /** Subscribers, live or not. */
  get size(): number {
    return this.#members
  }

  get headSeq(): number {
    return this.source.headSeq()
  }

  /**
   * Takes messages that just became visible, already framed. `headSeq` of the source covers them at the latest when
   * this is called.
   * @param lastSeq the seq of the last of them.
   */
  publish(frames: readonly Uint8Array[], lastSeq: number): void {
    if (this.#live.size === 0) return
    const isScheduled = this.#pending.length > 0 // from when the first of it came until it is flushed
    for (const frame of frames) this.#pending.push(frame)
    this.#pendingSeq = lastSeq
    if (!isScheduled) this.#host.scheduleFlush(this)
  }

  /**
   * Takes messages that just became visible and that nobody has made yet, because making them all takes too long for one
   * turn. Live members read them from the source, each at its own pace, and come back to the head.
   * @param afterSeq everything up to here was published before. Without it live members read from the last message that
   *   they were sent, which may be long ago where the group wants few.
   */
  publishUnmade(afterSeq = 0): void {
    this.flush()
    // A copy, because those that read the rest at once are live again.
    const live = Array.from(this.#live)
    for (const subscriber of live) {
      this.#leaveLive(subscriber)
      subscriber.position = Math.max(subscriber.position, afterSeq)
      this.#run(subscriber)
    }
  }

  /** Writes what is pending to every live member: one shared buffer, one write each. */
  flush(): void {
    this.#host.publishRest()
    if (this.#pending.length === 0) return
    const { batch } = this.#host
    const frames = [batch.join(this.#pending)]
    this.#pending = []
    for (const subscriber of this.#live) {
      if (!subscriber.write(frames, this.#pendingSeq)) {
        this.#leaveLive(subscriber)
        subscriber.state = 'draining'
        this.#run(subscriber)
      }
      if (!subscriber.isHolding) continue
      batch.leave()
      this.#host.noteFlushed(subscriber, frames)
    }
  }

  /**
   * Adds a consumer that has seen everything up to `afterSeq`.
   * @param greeting framed messages to send before anything else, such as an `#info`.
   * @param readText reads each text that the consumer sends in a dialogue.
   * @param onClose called once when the consumer is gone, for whatever reason.
   */
  subscribe(
    connection: Connection,
    options: {
      afterSeq: number
      greeting?: Uint8Array
      readText?: TextReader
      onClose?: () => void
    },
  ): Subscriber {
    const subscriber = this.#host.addSubscriber(connection, this, options.afterSeq)
    this.#members++
    const leave = (): void => {
      subscriber.state = 'closed'
      subscriber.group.#leaveLive(subscriber)
    }
    const { readText, onClose } = options
    const dialogue =
      readText && connection.style === 'dialogue' && new Dialogue(this.#host, subscriber, readText)
    // After a frame that is not to be had, the close frame has been sent: nothing may follow it.
    connection.webSocket.on('error', leave)
    connection.webSocket.on('close', () => {
      leave()
      if (dialogue) dialogue.end()
      subscriber.group.#members--
      onClose?.()
    })
    if (dialogue)
      connection.webSocket.on('message', (data: Buffer, isBinary) => {
        if (!isBinary) dialogue.hear(data)
      })
    if (subscriber.state === 'closed') return subscriber
    if (options.greeting) subscriber.write([options.greeting], options.afterSeq)
    this.#run(subscriber)
    return subscriber
  }

  /**
   * Gives a consumer to another group. It has then seen everything up to `afterSeq`; without that, everything that was
   * published before to this group, or up to its position when it is behind.
   */
  move(subscriber: Subscriber, to: FanoutGroup, afterSeq?: number): void {
    if (subscriber.state === 'closed' || subscriber.group !== this || to === this) return
    this.flush()
    this.#members--
    to.#members++
    subscriber.group = to
    const wasLive = this.#live.has(subscriber)
    if (wasLive) subscriber.position = this.headSeq
    if (afterSeq !== undefined) subscriber.position = afterSeq
    if (!wasLive) return
    this.#leaveLive(subscriber)
    to.#run(subscriber)
  }

  /** Whoever takes a consumer on reads for the group that it is in at the time. */
  #run(subscriber: Subscriber): void {
    this.#catchUp(subscriber).catch((error: unknown) => this.#host.closeSubscriber(subscriber, error))
  }

  async #catchUp(subscriber: Subscriber): Promise<void> {
    for (;;) {
      if (subscriber.connection.socket.writableNeedDrain) await subscriber.drained()
      if (subscriber.state === 'closed') return
      this.#host.noteHeld(subscriber)
      if (isClosed(subscriber)) return
      const { group } = subscriber
      if (subscriber.position >= group.headSeq) {
        group.#joinLive(subscriber)
        return
      }
      subscriber.state = 'behind'
      await this.#host.takeTurn(subscriber.connection, () => subscriber.group.#readOn(subscriber))
    }
  }

  async #readOn(subscriber: Subscriber): Promise<void> {
    if (subscriber.state === 'closed') return
    const found = this.source.read(subscriber.position, this.#host.readBytesMax())
    const { frames, lastSeq, free } = found instanceof Promise ? await found : found
    // State and group may have changed while the read was waited for.
    if (isClosed(subscriber)) return
    if (subscriber.group !== this) {
      free?.()
      return
    }
    const { batch } = this.#host
    // What has to be freed is in buffers that are used again already.
    const written = free || frames.length < 2 ? frames : [batch.join(frames)]
    if (!subscriber.write(written, lastSeq, free)) subscriber.state = 'draining'
    if (written !== frames && subscriber.isHolding) batch.leave()
    this.#host.noteHeld(subscriber, written)
  }

  /** Flushes first: a reader that has read up to the head has what is pending already. */
  #joinLive(subscriber: Subscriber): void {
    this.flush()
    if (isClosed(subscriber)) return
    subscriber.state = 'live'
    this.#live.add(subscriber)
    this.#host.noteHeld(subscriber)
    this.#host.countLive(1)
  }

  #leaveLive(subscriber: Subscriber): void {
    if (this.#live.delete(subscriber)) this.#host.countLive(-1)
  }

  /** For the fan-out: ends one consumer with a reason. */
  end(subscriber: Subscriber, reason: CloseReason, errorFrame: Uint8Array): void {
    this.#leaveLive(subscriber)
    subscriber.close(reason, errorFrame)
  }
}

/** Asks again, because what was done since the state was last looked at may have ended the consumer. */
function isClosed({ state }: Subscriber): boolean {
  return state === 'closed'
}
