import { Worker } from 'node:worker_threads'
import type { Refusal, RepoRecord } from '@tributary/repo-verify'
import { endThread } from '@tributary/verify-pool'
import type { GivenRecords, RepoCheck, RepoReply, RepoRequest } from './repo-thread-messages.ts'

/** A repository that was verified, with its records of the wanted collections. */
export interface ReadRepo {
  ok: true
  rev: string
  data: RepoRecord['cid']
  records: RepoRecord[]
}

/** Milliseconds without work after which the thread is ended: it takes some 30 MB. */
const idleMsMax = 60_000
/** Bytes of a repository that are gathered before they go to the thread. */
const pieceBytes = 256 * 1024
/**
 * Bytes from sockets after which what they came in is given back, where Node lets programs do so (`--expose-gc`). Reading
 * makes few other objects, so that by itself some 60 MB would pile up first.
 */
const givenBackEvery = 8 * 1024 * 1024

/** Verifies whole repositories on a thread of its own, which runs while there are any, and holds what comes of them. */
export class RepoReader {
  readonly #open = new Set<IncomingRepo>()
  #thread: Worker | undefined
  #idleTimer: NodeJS.Timeout | undefined
  #lastId = 0

  /** Begins a repository, whose bytes are added to it. Its owner disposes of it. */
  open(): IncomingRepo {
    clearTimeout(this.#idleTimer)
    const thread = (this.#thread ??= this.#start())
    const repo = new IncomingRepo(++this.#lastId, thread, () => {
      this.#open.delete(repo)
      if (this.#open.size === 0) this.#idleTimer = setTimeout(() => void this.close(), idleMsMax).unref()
    })
    this.#open.add(repo)
    return repo
  }

  async close(): Promise<void> {
    clearTimeout(this.#idleTimer)
    const thread = this.#thread
    this.#thread = undefined
    this.#fail(new Error('the stream stops'))
    if (thread) await endThread(thread)
  }

  #start(): Worker {
    const thread = new Worker(new URL('repo-thread.ts', import.meta.url))
    thread.on('message', (reply: RepoReply) => {
      for (const repo of this.#open) if (repo.id === reply.id) repo.answer(reply)
    })
    thread.on('error', (error) => this.#fail(error instanceof Error ? error : new Error(String(error))))
    thread.on('exit', () => {
      if (this.#thread !== thread) return
      this.#thread = undefined
      this.#fail(new Error('the thread that reads repositories has ended'))
    })
    thread.unref()
    return thread
  }

  #fail(error: Error): void {
    for (const repo of this.#open) repo.fail(error)
  }
}

/** A repository on its way to the thread: this side holds little of it. */
export class IncomingRepo implements Disposable {
  readonly id: number
  readonly #thread: Worker
  readonly #onDisposed: () => void
  #piece: Uint8Array<ArrayBuffer> = new Uint8Array(pieceBytes)
  #length = 0
  #bytes = 0
  #giveBackAt = givenBackEvery
  #answer: PromiseWithResolvers<RepoReply> | undefined
  #failure: Error | undefined

  constructor(id: number, thread: Worker, onDisposed: () => void) {
    this.id = id
    this.#thread = thread
    this.#onDisposed = onDisposed
  }

  /** Bytes that were added. */
  get bytes(): number {
    return this.#bytes
  }

  /** Adds the next bytes. They are copied. */
  add(bytes: Uint8Array): void {
    this.#bytes += bytes.length
    if (this.#bytes >= this.#giveBackAt) {
      this.#giveBackAt += givenBackEvery
      globalThis.gc?.({ type: 'minor' })
    }
    for (let at = 0; at < bytes.length;) {
      const part = bytes.subarray(at, at + pieceBytes - this.#length)
      this.#piece.set(part, this.#length)
      this.#length += part.length
      at += part.length
      if (this.#length === pieceBytes) this.#flush()
    }
  }

  /**
   * Verifies what was added, again if it is asked again.
   * @throws Error when the thread fails, which is a defect of this program, or is ended.
   */
  async verify(check: RepoCheck): Promise<ReadRepo | Refusal> {
    this.#flush()
    const { id } = this
    const reply = await this.#ask({ to: 'verify', id, check })
    if (reply.is === 'refused') return { ok: false, reason: reply.reason, detail: reply.detail }
    if (reply.is !== 'verified') throw new Error('invariant broken: another answer than was asked for')
    const records: RepoRecord[] = []
    while (records.length < reply.records) {
      const answer = await this.#ask({ to: 'give', id, from: records.length })
      if (answer.is !== 'given') throw new Error('invariant broken: another answer than was asked for')
      records.push(...recordsOf(answer.given))
    }
    return { ok: true, rev: reply.rev, data: reply.data, records }
  }

  /** For the reader: what the thread says. */
  answer(reply: RepoReply): void {
    this.#answer?.resolve(reply)
  }

  /** For the reader: the thread says nothing more. */
  fail(error: Error): void {
    this.#failure = error
    this.#answer?.reject(error)
  }

  [Symbol.dispose](): void {
    if (!this.#failure) this.#send({ to: 'forget', id: this.id })
    this.#onDisposed()
  }

  async #ask(request: RepoRequest): Promise<RepoReply> {
    if (this.#failure) throw this.#failure
    this.#answer = Promise.withResolvers()
    this.#send(request)
    return await this.#answer.promise
  }

  #flush(): void {
    if (this.#length === 0) return
    const { buffer } = this.#length === pieceBytes ? this.#piece : this.#piece.slice(0, this.#length)
    this.#send({ to: 'add', id: this.id, bytes: buffer }, [buffer])
    this.#piece = new Uint8Array(pieceBytes)
    this.#length = 0
  }

  #send(request: RepoRequest, transferred: ArrayBuffer[] = []): void {
    this.#thread.postMessage(request, transferred)
  }
}

function recordsOf({ bytes, records }: GivenRecords): RepoRecord[] {
  let start = 0
  return records.map(({ end, ...record }) => {
    const own = new Uint8Array(bytes, start, end - start)
    start = end
    return { ...record, record: own }
  })
}
