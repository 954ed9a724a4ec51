import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { decodeFrame, type Frame } from '@tributary/protocol'
import { WebSocket } from 'ws'

/** Frames of which it is remembered what they were: about the last hour of a campaign. */
const rememberedMax = 200_000

/**
 * A consumer that never gives up: it resumes with the last seq it has, and holds everything against what was emitted.
 * The first frame that comes twice, out of order or under a used seq is its `fault`.
 */
export class ExactlyOnce {
  readonly #url: string
  /** Digests of what came under each seq. */
  readonly #seen = new Map<number, string>()
  /** By account, what was emitted and has not been seen, oldest first. */
  readonly #expected = new Map<string, string[]>()
  #lastSeq = 0
  #outstanding = 0
  #socket: WebSocket | undefined
  #retry: NodeJS.Timeout | undefined
  #isClosed = false
  #wake: (() => void) | undefined
  fault: Error | undefined
  eventsSeen = 0

  /** @param url of the relay, `http://…`. It need not answer yet. */
  constructor(url: string) {
    this.#url = `${url.replace('http', 'ws')}/xrpc/com.atproto.sync.subscribeRepos`
    this.#connect()
  }

  /** Emitted and not yet seen. */
  get outstanding(): number {
    return this.#outstanding
  }

  get lastSeq(): number {
    return this.#lastSeq
  }

  /** Says what must come of an account, after what was said before. */
  expect(did: string, what: string): void {
    const queue = this.#expected.get(did)
    if (queue) queue.push(what)
    else this.#expected.set(did, [what])
    this.#outstanding++
  }

  /** Resolves when at most `most` of what was emitted has not been seen. @throws what went wrong. */
  async untilOutstanding(most: number, signal?: AbortSignal): Promise<void> {
    const isOver = (): boolean =>
      this.#outstanding <= most || this.fault !== undefined || signal?.aborted === true
    while (!isOver()) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      signal?.addEventListener('abort', () => resolve(), { once: true })
      await promise
    }
    if (this.fault) throw this.fault
  }

  /**
   * Reads all that the relay holds again and holds it against what was seen: the same frames under the same numbers,
   * and none missing. Only while nothing is outstanding.
   * @returns the number of frames.
   */
  async compareReplay(): Promise<number> {
    const socket = new WebSocket(`${this.#url}?cursor=0`)
    const seqs: number[] = []
    await new Promise<void>((resolve, reject) => {
      socket.on('error', reject)
      socket.on('close', () => reject(new Error('the replay was cut')))
      socket.on('message', (data: Buffer) => {
        const seq = seqOf(decodeFrame(data))
        if (this.#seen.get(seq) !== digestOf(data))
          reject(new Error(`seq ${seq} is not what was seen under it`))
        seqs.push(seq)
        if (seq >= this.#lastSeq) resolve()
      })
    }).finally(() => socket.terminate())
    const seen = [...this.#seen.keys()].filter((seq) => seq >= (seqs[0] ?? 0))
    assert.deepEqual(seqs, seen, 'everything seen is still there, once, in order')
    return seqs.length
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#retry)
    this.#socket?.terminate()
  }

  #connect(): void {
    const socket = new WebSocket(`${this.#url}?cursor=${this.#lastSeq}`)
    this.#socket = socket
    socket.on('message', (data: Buffer) => this.#take(data))
    // A relay that is just being started refuses: 'close' follows.
    socket.on('error', () => undefined)
    socket.on('close', () => {
      if (!this.#isClosed) this.#retry = setTimeout(() => this.#connect(), 20)
    })
  }

  #take(data: Buffer): void {
    try {
      const frame = decodeFrame(data)
      // A relay that ends in order says so.
      if (frame.op === -1) return
      const seq = seqOf(frame)
      assert.ok(seq > this.#lastSeq, `seq ${seq} came after ${this.#lastSeq}`)
      this.#lastSeq = seq
      this.#seen.set(seq, digestOf(data))
      if (this.#seen.size > rememberedMax) this.#seen.delete(this.#seen.keys().next().value ?? 0)
      const did = String(frame.body['repo'] ?? frame.body['did'])
      const expected = this.#expected.get(did)?.shift()
      assert.equal(describe(frame), expected, `event of ${did} under seq ${seq}`)
      this.#outstanding--
      this.eventsSeen++
    } catch (error) {
      this.fault ??= error instanceof Error ? error : new Error(String(error))
      this.close()
    }
    this.#wake?.()
  }
}

/** What tells an event from all others of its account. */
function describe({ t, body }: Frame): string {
  if (t === '#commit') return `commit ${String(body['rev'])}`
  return `${t} ${String(t === '#sync' ? body['rev'] : body['time'])}`
}

function seqOf({ t, body }: Frame): number {
  const seq = body['seq']
  assert.ok(typeof seq === 'number', `a frame of type ${t} without a seq: ${JSON.stringify(body)}`)
  return seq
}

function digestOf(bytes: Uint8Array): string {
  return createHash('sha1').update(bytes).digest('base64')
}
