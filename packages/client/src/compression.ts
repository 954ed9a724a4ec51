import {
  createDictionaryDecoder,
  type DictionaryDecoder,
  DictionaryFrameError,
} from '@tributary/zstd-dictionary/decoder'
import { StreamError } from './errors.ts'
import { callXrpc, readBody, type Server } from './http.ts'
import { messageBytesMax } from './socket.ts'
import type { StreamStatus } from './status.ts'

/** Dictionaries have some hundred kilobytes at most. */
const dictionaryBytesMax = 1024 * 1024

type OnStatus = (status: StreamStatus) => void

/**
 * Decides for each connection whether its messages are asked for compressed. The dictionary is fetched once for a
 * client, and again when the server does not know it any more. Messages that are not compressed always work, so every
 * fault ends with those.
 */
export class Compression {
  readonly #server: Server
  readonly #text = new TextDecoder()
  #decoder: DictionaryDecoder | undefined
  #isOff: boolean

  constructor(server: Server, isWanted: boolean) {
    this.#server = server
    this.#isOff = !isWanted
  }

  /** The id of the dictionary to ask with; undefined asks for plain messages. */
  async dictionaryId(signal: AbortSignal, onStatus: OnStatus): Promise<number | undefined> {
    if (this.#isOff) return undefined
    try {
      this.#decoder ??= await fetchDictionary(this.#server, signal)
      return this.#decoder.dictionaryId
    } catch (error) {
      if (!(error instanceof StreamError)) throw error
      if (signal.aborted) return undefined
      // A server that is down may have one when it is back.
      if (error.retryable) onStatus({ type: 'uncompressed', detail: error.message })
      else this.giveUp(error.message, onStatus)
      return undefined
    }
  }

  /** The text of a compressed message. @throws DictionaryFrameError */
  readonly read = (message: Uint8Array): string => {
    if (this.#decoder === undefined) throw new DictionaryFrameError('no dictionary was asked for')
    return this.#text.decode(this.#decoder.decode(message, messageBytesMax))
  }

  /** The server does not know the dictionary that it was asked for: it may have another one now. */
  async refused(id: number, signal: AbortSignal, onStatus: OnStatus): Promise<void> {
    this.#decoder = undefined
    const current = await this.dictionaryId(signal, onStatus)
    if (current === id) this.giveUp('the server does not know the dictionary that it gives', onStatus)
  }

  /** Messages come plain from the next connection on. */
  giveUp(detail: string, onStatus: OnStatus): void {
    if (!this.#isOff) onStatus({ type: 'uncompressed', detail })
    this.#isOff = true
  }
}

async function fetchDictionary(server: Server, signal: AbortSignal): Promise<DictionaryDecoder> {
  const response = await callXrpc(server, { method: 'getZstdDictionary', signal })
  const bytes = await readBody(response, dictionaryBytesMax)
  let decoder: DictionaryDecoder
  try {
    decoder = createDictionaryDecoder(bytes)
  } catch (cause) {
    throw new StreamError('ProtocolError', 'the server sent something else than a dictionary', { cause })
  }
  // Not every server has the header, and a page of another origin may not see it.
  const said = response.headers.get('x-zstd-dictionary-id')
  if (said !== null && said !== String(decoder.dictionaryId))
    throw new StreamError('ProtocolError', `dictionary ${decoder.dictionaryId} came under the id ${said}`)
  return decoder
}
