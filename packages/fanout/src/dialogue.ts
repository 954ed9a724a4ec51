import type { Connection, Subscriber } from './subscriber.ts'

/** Reads one text in pieces of a millisecond or two, one for each call of `next`. What it throws ends the consumer. */
export type TextReader = (text: Buffer) => Iterator<void, void>

/** What a dialogue needs of the fan-out. */
export interface DialogueHost {
  /** Does a piece of reading a long text when its turn has come. */
  takeTextTurn(connection: Connection, piece: () => boolean): Promise<boolean>
  /** Takes nothing more of a consumer, and counts a text of so many bytes as kept, until `releaseText`. */
  holdText(connection: Connection, bytes: number): void
  releaseText(connection: Connection, bytes: number): void
  closeSubscriber(subscriber: Subscriber, reason: unknown): void
}

/**
 * The texts that one consumer sends, read one after the other. What the first piece of a text does not finish waits for
 * turns that all consumers share, so that a text of megabytes delays nobody.
 */
export class Dialogue {
  readonly #host: DialogueHost
  readonly #subscriber: Subscriber
  readonly #read: TextReader
  /** The text that is being read. */
  #pieces: Iterator<void, void> | undefined
  /** Texts that came in the same slice of bytes as the one that is being read. */
  #waiting: Buffer[] = []

  constructor(host: DialogueHost, subscriber: Subscriber, read: TextReader) {
    this.#host = host
    this.#subscriber = subscriber
    this.#read = read
  }

  hear(text: Buffer): void {
    if (this.#pieces) {
      this.#waiting.push(text)
      return
    }
    this.#pieces = this.#read(text)
    if (!this.#step()) void this.#readOn(text.length)
  }

  /** Lets go of what is not read yet. */
  end(): void {
    this.#pieces = undefined
    this.#waiting = []
  }

  /** Reads a piece. True when there is none after it. */
  readonly #step = (): boolean => {
    // What a consumer has sent does not count any more when it was ended.
    if (this.#subscriber.state === 'closed') this.end()
    try {
      if (this.#pieces?.next().done === false) return false
    } catch (error) {
      this.#host.closeSubscriber(this.#subscriber, error)
    }
    this.#pieces = undefined
    return true
  }

  async #readOn(bytes: number): Promise<void> {
    const { connection } = this.#subscriber
    this.#host.holdText(connection, bytes)
    while (!(await this.#host.takeTextTurn(connection, this.#step)));
    // Before anything else is taken, because texts are read in their order.
    for (const text of this.#waiting.splice(0)) this.hear(text)
    this.#host.releaseText(connection, bytes)
  }
}
