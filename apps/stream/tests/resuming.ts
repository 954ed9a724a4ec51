import assert from 'node:assert/strict'
import { EventReader, type StreamMessage } from './event-reader.ts'

/** A consumer that goes on after every cut from the last seq it has, and remembers what it saw under each. */
export class Resuming {
  readonly events = new Map<number, StreamMessage>()
  #cursor = 0

  /** Reads until `isDone`, or until the stream is gone. */
  async read(url: string, isDone: () => boolean): Promise<void> {
    using reader = await EventReader.open(url, { cursor: this.#cursor })
    const take = (): boolean => {
      for (const message of reader.messages.splice(0)) this.#take(message)
      return isDone()
    }
    await reader.until(() => take() || reader.isClosed)
  }

  #take(message: StreamMessage): void {
    if (message.seq === undefined) return
    const known = this.events.get(message.seq)
    if (known) assert.deepEqual(message, known, `seq ${message.seq} was given out twice`)
    else assert.ok(message.seq > this.#cursor, `seq ${message.seq} came after ${this.#cursor}`)
    this.events.set(message.seq, message)
    this.#cursor = Math.max(this.#cursor, message.seq)
  }

  commitsOf(did: string): StreamMessage[] {
    return [...this.events.values()].filter(
      (event) => event['did'] === did && event.$type.endsWith('#commit'),
    )
  }
}
