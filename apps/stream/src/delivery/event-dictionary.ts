import { createDictionaryEncoder, type DictionaryEncoder, eventDictionary } from '@tributary/zstd-dictionary'
import { compressedRendition, type Rendition } from './rendition.ts'

/** A dictionary that subscribers may have their messages compressed with. The encoder is loaded for the first of them. */
export class EventDictionary {
  readonly id: number
  readonly bytes: Uint8Array
  #encoder: Promise<DictionaryEncoder> | undefined
  readonly #compressed = new Map<Rendition, Rendition>()

  /** Default: the dictionary of the live stream. */
  constructor({ id, bytes }: { id: number; bytes: Uint8Array } = eventDictionary()) {
    this.id = id
    this.bytes = bytes
  }

  /**
   * A rendition with its messages compressed: the same one each time, so that all who want it share each message.
   * @throws what kept the encoder from being loaded.
   */
  async compressed(plain: Rendition): Promise<Rendition> {
    const encoder = await (this.#encoder ??= this.#load())
    let compressed = this.#compressed.get(plain)
    if (!compressed) this.#compressed.set(plain, (compressed = compressedRendition(plain, encoder)))
    return compressed
  }

  /** A load that fails costs those who waited for it. The next subscriber that asks begins another one. */
  async #load(): Promise<DictionaryEncoder> {
    try {
      return await createDictionaryEncoder(this.bytes)
    } catch (error) {
      this.#encoder = undefined
      throw error
    }
  }
}
