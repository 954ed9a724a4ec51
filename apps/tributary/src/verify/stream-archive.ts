import { createStreamClient, type StreamClient } from '@tributary/client/node'
import type { Did } from '@tributary/protocol'
import { readTokenFile } from '../read-token-file.ts'
import type { ArchivedRepo } from './archived-repo.ts'
import { type Coverage, readCoverage } from './coverage.ts'

export interface StreamArchiveOptions {
  /** Address of the stream. */
  url: string
  apiKeyFile?: string | undefined
  signal: AbortSignal
}

/** Without progress for so long a stream is given up. */
const giveUpMs = 30_000

/** What a stream has, account by account: its archive, and what is not sealed yet. */
export class StreamArchive {
  readonly #client: StreamClient
  readonly #hasKey: boolean
  readonly #signal: AbortSignal
  /** Undefined when the stream does not tell. */
  readonly coverage: Coverage | undefined

  private constructor(
    client: StreamClient,
    hasKey: boolean,
    coverage: Coverage | undefined,
    signal: AbortSignal,
  ) {
    this.#client = client
    this.#hasKey = hasKey
    this.#signal = signal
    this.coverage = coverage
  }

  /** @throws TokenFileError, StreamError or NoAnswerError */
  static async open({ url, apiKeyFile, signal }: StreamArchiveOptions): Promise<StreamArchive> {
    const apiKey = apiKeyFile === undefined ? undefined : readTokenFile(apiKeyFile, 'archive key')
    const client = createStreamClient({
      url,
      retry: { giveUpMs },
      ...(apiKey !== undefined && { apiKey }),
    })
    return new StreamArchive(client, apiKey !== undefined, await readCoverage(url), signal)
  }

  /** Reads events of an account from where `archived` ends to the head of the stream. @throws StreamError */
  async readOn(did: Did, archived: ArchivedRepo): Promise<void> {
    const signal = this.#signal
    const throughSeq = await this.#client.head({ signal })
    const filter = { dids: [did], signal }
    const { cursor } = archived
    const batches =
      throughSeq === undefined
        ? // A server that does not tell its head is read as far as it has sealed.
          this.#client.snapshot({ ...filter, afterSeq: cursor })
        : this.#client.replay({ ...filter, cursor, throughSeq, archiveFirst: this.#hasKey && cursor === 0 })
    for await (const { events, gaps, cursor: readThrough } of batches) {
      archived.take(events)
      for (const { afterSeq, detail } of gaps) archived.noteUnreadable(`after seq ${afterSeq}`, detail)
      archived.cursor = readThrough
    }
    signal.throwIfAborted()
  }
}
