/** A frame, or a dictionary, is not what RFC 8878 says. */
export class DictionaryFrameError extends Error {
  override readonly name = 'DictionaryFrameError'
}

/** Bits that are read from their end to their start. */
export class BackwardBits {
  readonly #source: Uint8Array
  readonly #startBit: number
  #bit: number

  constructor(source: Uint8Array, startBit: number, bit: number) {
    this.#source = source
    this.#startBit = startBit
    this.#bit = bit
  }

  /** Bits that were not read. Below zero, more was read than there was: what is missing reads as zeros. */
  get left(): number {
    return this.#bit - this.#startBit
  }

  /** @param count up to 24. */
  read(count: number): number {
    const bit = (this.#bit -= count)
    const missing = this.#startBit - bit
    if (missing >= count) return 0
    if (missing > 0) return this.#bits(this.#startBit, count - missing) << missing
    return this.#bits(bit, count)
  }

  #bits(bit: number, count: number): number {
    const source = this.#source
    const at = bit >> 3
    const word =
      (source[at] ?? 0) |
      ((source[at + 1] ?? 0) << 8) |
      ((source[at + 2] ?? 0) << 16) |
      ((source[at + 3] ?? 0) << 24)
    return (word >>> (bit & 7)) & ((1 << count) - 1)
  }
}

/** The bits from `start` up to `end`, exclusive. The highest one of the last byte only marks where they end. */
export function backwardBits(source: Uint8Array, start: number, end: number): BackwardBits {
  const last = source[end - 1] ?? 0
  if (end <= start || last === 0) throw new DictionaryFrameError('bits have no end')
  return new BackwardBits(source, start * 8, end * 8 - 8 + 31 - Math.clz32(last))
}
