import { Worker } from 'node:worker_threads'
import type { Refusal, RepoRecord } from '@tributary/repo-verify'
import type { RepoReply, RepoRequest } from './repo-thread-messages.ts'

/** A repository that was verified, with its records of the wanted collections. */
export interface ReadRepo {
  ok: true
  rev: string
  data: RepoRecord['cid']
  records: RepoRecord[]
}

/** Milliseconds without work after which the thread is ended: it takes some 30 MB. */
const idleMsMax = 60_000

/** Verifies whole repositories on a thread of its own, which runs while there are any. */
export class RepoReader {
  readonly #waiting = new Map<number, PromiseWithResolvers<RepoReply>>()
  #thread: Worker | undefined
  #idleTimer: NodeJS.Timeout | undefined
  #lastId = 0

  /** @throws Error when the thread fails, which is a defect of this program. */
  async read(car: Buffer, request: Omit<RepoRequest, 'id' | 'car'>): Promise<ReadRepo | Refusal> {
    clearTimeout(this.#idleTimer)
    const thread = (this.#thread ??= this.#start())
    const id = ++this.#lastId
    const answer = Promise.withResolvers<RepoReply>()
    this.#waiting.set(id, answer)
    const copy = new Uint8Array(car).buffer
    thread.postMessage({ ...request, id, car: copy } satisfies RepoRequest, [copy])
    try {
      const reply = await answer.promise
      if (!reply.ok) return reply
      const records = reply.records.map(({ start, length, ...record }) => ({
        ...record,
        record: new Uint8Array(reply.car, start, length),
      }))
      return { ok: true, rev: reply.rev, data: reply.data, records }
    } finally {
      this.#waiting.delete(id)
      if (this.#waiting.size === 0) this.#idleTimer = setTimeout(() => void this.close(), idleMsMax).unref()
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#idleTimer)
    const thread = this.#thread
    this.#thread = undefined
    this.#fail(new Error('the stream stops'))
    await thread?.terminate()
  }

  #start(): Worker {
    const thread = new Worker(new URL('repo-thread.ts', import.meta.url))
    thread.on('message', (reply: RepoReply) => this.#waiting.get(reply.id)?.resolve(reply))
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
    for (const { reject } of this.#waiting.values()) reject(error)
  }
}
