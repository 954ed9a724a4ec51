import assert from 'node:assert/strict'
import { decodeFrame } from '@tributary/protocol'
import { eventIndexOf, type LoadInfo } from '@tributary/testkit'
import { WebSocket } from 'ws'

/** A consumer that knows every event of the load: by account in order, each once. */
export class OrderCheck {
  readonly #socket: WebSocket
  readonly #info: LoadInfo
  readonly #lastOf = new Map<string, number>()
  #lastSeq = 0
  #count = 0
  #fault: Error | undefined
  #check: () => void = () => {}

  constructor(relayUrl: string, info: LoadInfo) {
    this.#info = info
    this.#socket = new WebSocket(
      `${relayUrl.replace('http', 'ws')}/xrpc/com.atproto.sync.subscribeRepos?cursor=0`,
    )
    this.#socket.on('message', (data: Buffer) => {
      try {
        this.#take(data)
      } catch (error) {
        this.#fault ??= error instanceof Error ? error : new Error(String(error))
      }
      this.#check()
    })
    this.#socket.on('close', () => {
      this.#fault ??= new Error('the relay ended the connection')
      this.#check()
    })
  }

  /** Resolves when `count` commits have been seen. @throws what went wrong, or that it took too long. */
  async until(count: number, timeoutMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(() => {
      this.#fault ??= new Error(`${count - this.#count} of ${count} commits were not seen`)
      resolve()
    }, timeoutMs)
    this.#check = () => {
      if (this.#count >= count || this.#fault) resolve()
    }
    this.#check()
    await promise
    clearTimeout(timer)
    if (this.#fault) throw this.#fault
  }

  close(): void {
    this.#socket.removeAllListeners('close')
    this.#socket.terminate()
  }

  /** Each commit once and the ones of an account in order: so the count tells whether any is missing. */
  #take(data: Buffer): void {
    const { t, body } = decodeFrame(data)
    const seq = Number(body['seq'])
    assert.ok(seq > this.#lastSeq, `seq ${seq} came after ${this.#lastSeq}`)
    this.#lastSeq = seq
    if (t !== '#commit') return
    const did = String(body['repo'])
    const event = eventIndexOf(this.#info, String(body['rev']))
    const before = this.#lastOf.get(did) ?? -1
    assert.ok(event > before, `event ${event} of ${did} came after its event ${before}`)
    this.#lastOf.set(did, event)
    this.#count++
  }
}
