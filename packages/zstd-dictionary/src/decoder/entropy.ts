/** The two codes of zstd (RFC 8878, 4.1 and 4.2), as tables that are looked up by a state. */
import { type BackwardBits, backwardBits, DictionaryFrameError } from './bits.ts'

/** States of a finite state entropy code: the symbol of each, and how the next state is found. */
export interface FseTable {
  readonly log: number
  readonly symbols: Uint8Array
  readonly bits: Uint8Array
  readonly bases: Uint16Array
}

/** Prefix codes of literals, by the next `bitsMax` bits. */
export interface HuffmanTable {
  readonly bitsMax: number
  readonly symbols: Uint8Array
  readonly bits: Uint8Array
}

const weightLogMax = 6
const huffmanBitsMax = 11
/** A description with its length in the first byte is compressed; above it, it lists weights of four bits. */
const compressedWeights = 128

/** A table for one symbol. */
export function oneSymbolTable(symbol: number): FseTable {
  return { log: 0, symbols: Uint8Array.of(symbol), bits: new Uint8Array(1), bases: new Uint16Array(1) }
}

/**
 * Reads a table's description.
 * @param symbolMax the highest symbol that the code may have.
 */
export function readFseTable(
  source: Uint8Array,
  start: number,
  { symbolMax, logMax }: { symbolMax: number; logMax: number },
): { table: FseTable; end: number } {
  let bit = start * 8
  const endBit = source.length * 8
  const read = (count: number): number => {
    let value = 0
    for (let i = 0; i < count; i++, bit++) value |= (((source[bit >> 3] ?? 0) >> (bit & 7)) & 1) << i
    if (bit > endBit) throw new DictionaryFrameError('a table is cut short')
    return value
  }
  const log = read(4) + 5
  if (log > logMax) throw new DictionaryFrameError('a table is too large')
  const probabilities: number[] = []
  let rest = 1 << log
  while (rest > 0) {
    const count = highBit(rest + 1) + 1
    const lowMask = (1 << (count - 1)) - 1
    const threshold = (1 << count) - 1 - (rest + 1)
    let value = read(count)
    if ((value & lowMask) < threshold) {
      bit--
      value &= lowMask
    } else if (value > lowMask) {
      value -= threshold
    }
    const probability = value - 1
    rest -= Math.abs(probability)
    probabilities.push(probability)
    if (probability === 0) {
      for (let repeats = 3; repeats === 3;) {
        repeats = read(2)
        for (let i = 0; i < repeats; i++) probabilities.push(0)
      }
    }
    if (rest < 0 || probabilities.length > symbolMax + 1)
      throw new DictionaryFrameError('a table has too many symbols')
  }
  return { table: fseTable(probabilities, log), end: (bit + 7) >> 3 }
}

/** The table of a distribution, as it is spread over the states (RFC 8878, 4.1.1). -1 stands for less than one. */
export function fseTable(probabilities: readonly number[], log: number): FseTable {
  const size = 1 << log
  const symbols = new Uint8Array(size)
  const next = new Uint16Array(probabilities.length)
  let high = size
  for (const [symbol, probability] of probabilities.entries()) {
    if (probability !== -1) continue
    symbols[--high] = symbol
    next[symbol] = 1
  }
  const step = (size >> 1) + (size >> 3) + 3
  let position = 0
  for (const [symbol, probability] of probabilities.entries()) {
    if (probability <= 0) continue
    next[symbol] = probability
    for (let i = 0; i < probability; i++) {
      symbols[position] = symbol
      do position = (position + step) & (size - 1)
      while (position >= high)
    }
  }
  const bits = new Uint8Array(size)
  const bases = new Uint16Array(size)
  for (let state = 0; state < size; state++) {
    const symbol = symbols[state] ?? 0
    const value = next[symbol] ?? 0
    next[symbol] = value + 1
    const count = log - highBit(value)
    bits[state] = count
    bases[state] = (value << count) - size
  }
  return { log, symbols, bits, bases }
}

/** Reads the description of a code for literals. */
export function readHuffmanTable(source: Uint8Array, start: number): { table: HuffmanTable; end: number } {
  const head = source[start] ?? 0
  const at = start + 1
  if (head >= compressedWeights) {
    const count = head - compressedWeights + 1
    const end = at + ((count + 1) >> 1)
    if (end > source.length) throw new DictionaryFrameError('a code is cut short')
    const weights = Array.from({ length: count }, (_, i) => {
      const pair = source[at + (i >> 1)] ?? 0
      return i % 2 === 0 ? pair >> 4 : pair & 15
    })
    return { table: huffmanTable(weights), end }
  }
  const end = at + head
  if (end > source.length) throw new DictionaryFrameError('a code is cut short')
  const part = source.subarray(0, end)
  const { table, end: bitsAt } = readFseTable(part, at, { symbolMax: 255, logMax: weightLogMax })
  return { table: huffmanTable(readWeights(backwardBits(part, bitsAt, end), table)), end }
}

/** Two states take turns, and end when the bits do. */
function readWeights(bits: BackwardBits, table: FseTable): number[] {
  const weights: number[] = []
  const states = [bits.read(table.log), bits.read(table.log)]
  for (let turn = 0; weights.length <= 255; turn ^= 1) {
    const state = states[turn] ?? 0
    weights.push(table.symbols[state] ?? 0)
    states[turn] = (table.bases[state] ?? 0) + bits.read(table.bits[state] ?? 0)
    if (bits.left < 0) {
      weights.push(table.symbols[states[turn ^ 1] ?? 0] ?? 0)
      return weights
    }
  }
  throw new DictionaryFrameError('a code has too many symbols')
}

/** The weight of the last symbol is not told: it completes the code. */
function huffmanTable(weights: number[]): HuffmanTable {
  const sum = weights.reduce((total, weight) => total + (weight > 0 ? 2 ** (weight - 1) : 0), 0)
  const bitsMax = sum === 0 ? 0 : highBit(sum) + 1
  const rest = 2 ** bitsMax - sum
  if (sum === 0 || bitsMax > huffmanBitsMax || (rest & (rest - 1)) !== 0 || weights.length > 255)
    throw new DictionaryFrameError('a code is not complete')
  const lengths = [...weights, highBit(rest) + 1].map((weight) => (weight > 0 ? bitsMax + 1 - weight : 0))
  const symbols = new Uint8Array(1 << bitsMax)
  const bits = new Uint8Array(1 << bitsMax)
  let at = 0
  // The longest codes come first.
  for (let length = bitsMax; length > 0; length--) {
    for (const [symbol, each] of lengths.entries()) {
      if (each !== length) continue
      const end = at + (1 << (bitsMax - length))
      symbols.fill(symbol, at, end)
      bits.fill(length, at, end)
      at = end
    }
  }
  return { bitsMax, symbols, bits }
}

function highBit(value: number): number {
  return 31 - Math.clz32(value)
}
