/** Random numbers that follow from a seed, the same on every machine. */
export interface Random {
  /** A number from 0 up to, but not, 1. */
  next(): number
  /** An integer from 0 up to, but not, `bound`. */
  below(bound: number): number
  /** One of `items`, which must not be empty. */
  pick<T>(items: readonly T[]): T
  bytes(length: number): Uint8Array
}

/** Mulberry32: small, fast and good enough for test data. */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (bound: number): number => Math.floor(next() * bound)
  return {
    next,
    below,
    pick: <T>(items: readonly T[]) => items[below(items.length)] as T, // reason: the index is below the length.
    bytes: (length) => Uint8Array.from({ length }, () => below(256)),
  }
}
