/** Sequences: what a block copies from before, and how many literals come first (RFC 8878, 3.1.1.3.2). */
import { type BackwardBits, backwardBits, DictionaryFrameError } from './bits.ts'
import { type FseTable, fseTable, oneSymbolTable, readFseTable } from './entropy.ts'

/** Codes of literal lengths, offsets and match lengths, in the order in which a block names them. */
export interface SequenceTables {
  literalLengths: FseTable
  offsets: FseTable
  matchLengths: FseTable
}

/** Literals to take, then a match to copy: its distance, not yet resolved, and its length. */
export type OnSequence = (literals: number, offsetValue: number, matchLength: number) => void

const literalLengthBits = [
  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14,
  15, 16,
]
const matchLengthBits = [
  ...Array.from({ length: 32 }, () => 0),
  1,
  1,
  1,
  1,
  2,
  2,
  3,
  3,
  4,
  4,
  5,
  7,
  8,
  9,
  10,
  11,
  12,
  13,
  14,
  15,
  16,
]
const literalLengthBases = basesOf(literalLengthBits, 0)
const matchLengthBases = basesOf(matchLengthBits, 3)

function basesOf(bits: readonly number[], first: number): number[] {
  let base = first
  return bits.map((count) => {
    const own = base
    base += 2 ** count
    return own
  })
}

interface Code {
  symbolMax: number
  logMax: number
  usual: FseTable
}

export const codes: Record<keyof SequenceTables, Code> = {
  literalLengths: {
    symbolMax: 35,
    logMax: 9,
    usual: fseTable(
      [
        4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1,
        -1, -1, -1,
      ],
      6,
    ),
  },
  offsets: {
    symbolMax: 31,
    logMax: 8,
    usual: fseTable(
      [1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1],
      5,
    ),
  },
  matchLengths: {
    symbolMax: 52,
    logMax: 9,
    usual: fseTable(
      [
        1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
      ],
      6,
    ),
  },
}
const order = ['literalLengths', 'offsets', 'matchLengths'] as const

/**
 * Reads the sequences of a block.
 * @param tables those of the block before, or of the dictionary; the block changes them.
 */
export function readSequences(
  source: Uint8Array,
  start: number,
  end: number,
  tables: Partial<SequenceTables>,
  onSequence: OnSequence,
): void {
  const { count, at: modesAt } = readCount(source, start)
  if (modesAt > end) throw new DictionaryFrameError('sequences are cut short')
  if (count === 0) {
    if (modesAt !== end) throw new DictionaryFrameError('bytes follow the literals')
    return
  }
  const modes = source[modesAt] ?? 0
  if ((modes & 3) !== 0) throw new DictionaryFrameError('sequences use a reserved bit')
  let at = modesAt + 1
  for (const [i, name] of order.entries()) {
    const read = readTable(source.subarray(0, end), at, (modes >> (6 - 2 * i)) & 3, codes[name], tables[name])
    tables[name] = read.table
    at = read.end
  }
  const { literalLengths, offsets, matchLengths } = tables as SequenceTables // all three were just set
  readAll(backwardBits(source, at, end), count, { literalLengths, offsets, matchLengths }, onSequence)
}

function readAll(
  bits: BackwardBits,
  count: number,
  { literalLengths, offsets, matchLengths }: SequenceTables,
  onSequence: OnSequence,
): void {
  let literalState = bits.read(literalLengths.log)
  let offsetState = bits.read(offsets.log)
  let matchState = bits.read(matchLengths.log)
  for (let left = count; left > 0; left--) {
    const offsetCode = offsets.symbols[offsetState] ?? 0
    const matchCode = matchLengths.symbols[matchState] ?? 0
    const literalCode = literalLengths.symbols[literalState] ?? 0
    const offsetValue = 2 ** offsetCode + readLong(bits, offsetCode)
    const matchLength = (matchLengthBases[matchCode] ?? 0) + bits.read(matchLengthBits[matchCode] ?? 0)
    const literals = (literalLengthBases[literalCode] ?? 0) + bits.read(literalLengthBits[literalCode] ?? 0)
    if (left > 1) {
      literalState =
        (literalLengths.bases[literalState] ?? 0) + bits.read(literalLengths.bits[literalState] ?? 0)
      matchState = (matchLengths.bases[matchState] ?? 0) + bits.read(matchLengths.bits[matchState] ?? 0)
      offsetState = (offsets.bases[offsetState] ?? 0) + bits.read(offsets.bits[offsetState] ?? 0)
    }
    if (bits.left < 0) throw new DictionaryFrameError('sequences are cut short')
    onSequence(literals, offsetValue, matchLength)
  }
  if (bits.left !== 0) throw new DictionaryFrameError('bits follow the sequences')
}

function readLong(bits: BackwardBits, count: number): number {
  if (count <= 16) return bits.read(count)
  const high = bits.read(count - 16)
  return high * 2 ** 16 + bits.read(16)
}

function readCount(source: Uint8Array, start: number): { count: number; at: number } {
  const first = source[start] ?? 0
  const second = source[start + 1] ?? 0
  if (first < 128) return { count: first, at: start + 1 }
  if (first < 255) return { count: ((first - 128) << 8) + second, at: start + 2 }
  return { count: second + ((source[start + 2] ?? 0) << 8) + 0x7f00, at: start + 3 }
}

const modeNames = { usual: 0, one: 1, described: 2 } as const

function readTable(
  source: Uint8Array,
  at: number,
  mode: number,
  code: Code,
  before: FseTable | undefined,
): { table: FseTable; end: number } {
  if (mode === modeNames.usual) return { table: code.usual, end: at }
  if (mode === modeNames.described) return readFseTable(source, at, code)
  if (mode === modeNames.one) {
    const symbol = source[at]
    if (symbol === undefined || symbol > code.symbolMax) throw new DictionaryFrameError('a code is not known')
    return { table: oneSymbolTable(symbol), end: at + 1 }
  }
  if (before === undefined) throw new DictionaryFrameError('a table is repeated that was not there')
  return { table: before, end: at }
}
