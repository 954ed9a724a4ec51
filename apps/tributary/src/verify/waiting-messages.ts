/** What messages come from, and can be asked to hold them back. */
interface Source {
  pause: () => void
  resume: () => void
}

/** How many messages may wait, and how many bytes of them. */
const waitingMax = { messages: 500, bytes: 16 * 1024 * 1024 }

/** Messages that wait for their check. When there are many, their source is paused until half of them are checked. */
export class WaitingMessages {
  readonly #source: Source
  readonly #messages: Buffer[] = []
  #bytes = 0
  #isPaused = false

  constructor(source: Source) {
    this.#source = source
  }

  get count(): number {
    return this.#messages.length
  }

  add(message: Buffer): void {
    this.#messages.push(message)
    this.#bytes += message.length
    if (this.#isPaused || this.#share() < 1) return
    this.#isPaused = true
    this.#source.pause()
  }

  /** The oldest one, if there is any. */
  take(): Buffer | undefined {
    const message = this.#messages.shift()
    this.#bytes -= message?.length ?? 0
    if (this.#isPaused && this.#share() < 0.5) {
      this.#isPaused = false
      this.#source.resume()
    }
    return message
  }

  #share(): number {
    return Math.max(this.#messages.length / waitingMax.messages, this.#bytes / waitingMax.bytes)
  }
}
