import type { HandleRequestsTable, IndexWriter } from '@tributary/index-store'
import type { Did, Handle } from '@tributary/protocol'

/** `seq` is the identity event that asked, 0 for an account met for the first time. */
export type HandleRequest = Pick<HandleRequestsTable, 'did' | 'seq' | 'attempts'>

/** The durable queue of handles to look up. The fold puts requests in; times are microseconds since 1970. */
export class HandleRequests {
  readonly #writer: IndexWriter

  constructor(writer: IndexWriter) {
    this.#writer = writer
  }

  due(now: bigint, limit: number): Promise<HandleRequest[]> {
    return this.#writer.write((batch) => batch.queues.dueHandles(now, limit))
  }

  /** When the next request may be worked on; undefined without requests. */
  nextDueAt(): Promise<bigint | undefined> {
    return this.#writer.write((batch) => batch.queues.nextHandleDueAt())
  }

  /** The handle that is shown now. */
  async handleOf(did: Did): Promise<Handle | undefined> {
    const [row] = await this.#writer.write((batch) => batch.load('handles', [did]))
    return row?.handle as Handle | undefined // as `finish` has stored it
  }

  /**
   * Stores what was found. Without effect when the request was withdrawn or renewed meanwhile: the account is gone, or the
   * answer may be older than what made it be asked again. If no handle was found, the one that is shown is taken away all the
   * same, because an account could else keep it by asking again and again.
   */
  async finish({ did, seq }: HandleRequest, handle: Handle | undefined): Promise<void> {
    await this.#writer.write(async (batch) => {
      if (handle === undefined) await batch.remove('handles', [did])
      const [present] = await batch.load('handleRequests', [did])
      if (present?.seq !== seq) return
      await batch.remove('handleRequests', [did])
      if (handle !== undefined) await batch.put('handles', [{ did, handle }])
    })
  }

  /** Takes away the handle that is shown, unless it is this one. */
  async keepOnly(did: Did, handle: Handle): Promise<void> {
    await this.#writer.write(async (batch) => {
      const [shown] = await batch.load('handles', [did])
      if (shown?.handle !== handle) await batch.remove('handles', [did])
    })
  }

  /** Puts a request off, unless it was withdrawn or renewed meanwhile. @param attempts made so far */
  async postpone({ did, seq }: HandleRequest, dueAt: bigint, attempts: bigint): Promise<void> {
    await this.#writer.write(async (batch) => {
      const [present] = await batch.load('handleRequests', [did])
      if (present?.seq !== seq) return
      await batch.put('handleRequests', [{ ...present, attempts, dueAt }])
    })
  }
}
