/**
 * Reads strict DAG-CBOR in place: definite and shortest lengths, text keys in canonical order without repeats, links as
 * the only tag, no trailing bytes. Reading allocates little more than the strings that are asked for.
 */
import { isUtf8 } from 'node:buffer'
import { isTid, limits, type Tid } from '@tributary/protocol'
import { refuse, type RefusalReason } from './refusal.ts'

/** Major types of CBOR. */
export const major = {
  unsigned: 0,
  negative: 1,
  bytes: 2,
  text: 3,
  array: 4,
  map: 5,
  tag: 6,
  simple: 7,
} as const

const simple = { false: 20, true: 21, null: 22 } as const
const linkTag = 42
const byteOrderMark = 0xefbbbf
/** A zero and a CIDv1 by SHA-256. */
const linkBytes = 37
const tidBytes = 13
/** The largest argument of an integer that is exact as a number. That of a negative one is one less, as -1 is 0. */
const integerMax = Number.MAX_SAFE_INTEGER
const nullByte = 0xf6
const textHead = major.text << 5
const doubleByte = 0xfb

/** Keys that decoders in use take for something else, or cannot write again as they were. */
const reservedKeys = new Set(['$link', '$bytes', 'constructor', '__proto__'])

/** Field names of messages and commits, and names of operations, by their length. */
const wordsByLength: readonly (readonly string[] | undefined)[] = [
  [],
  ['t'],
  ['op'],
  ['seq', 'rev', 'did', 'cid', 'ops', 'sig'],
  ['repo', 'time', 'path', 'prev', 'data'],
  ['since', 'blobs'],
  [
    'commit',
    'blocks',
    'action',
    'tooBig',
    'rebase',
    'active',
    'handle',
    'status',
    'create',
    'update',
    'delete',
  ],
  ['version'],
  ['prevData'],
]

/**
 * Bytes that are a whole value: small integers, `false`, `true`, `null`, and empty texts, byte strings, lists and maps.
 * A record of a megabyte can be a list of them.
 */
const isOneByte: Uint8Array = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte < 0x40) return Number((byte & 31) < 24)
  return Number(byte < 0xc0 ? (byte & 31) === 0 : byte >= 0xf4 && byte <= 0xf6)
})

export class CborReader {
  readonly bytes: Buffer
  /** Position of the next byte. */
  at: number
  readonly end: number
  /** Argument of the last head: a number, a length, or a count. Not exact above 2^53. */
  argument = 0
  /** Why a value of the wrong type is refused, if for another reason than bytes that are no DAG-CBOR. */
  mistyped: RefusalReason
  /** Values that `skip` still steps over: this bounds the time that one message takes. */
  skipsLeft: number = Infinity
  /** Bytes of text that may still come: looking at each of them takes time too. */
  textBytesLeft: number = Infinity
  readonly #reason: RefusalReason

  /** Reads `bytes` from `at` up to `end`. What is not as it must be is refused for `reason`. */
  constructor(bytes: Buffer, at: number, end: number, reason: RefusalReason) {
    this.bytes = bytes
    this.at = at
    this.end = end
    this.mistyped = reason
    this.#reason = reason
  }

  /** Refuses the value for what it is. */
  fail(detail: string): never {
    refuse(this.mistyped, `${detail}, before byte ${this.at}`)
  }

  #malformed(detail: string): never {
    refuse(this.#reason, `${detail}, at byte ${this.at}`)
  }

  /** Refuses bytes after the end of the value. */
  finish(): void {
    if (this.at !== this.end) this.#malformed('bytes follow the end of the value')
  }

  /** Reads the head of one item: returns its major type and leaves its argument in `argument`. */
  head(): number {
    const at = this.at
    if (at >= this.end) this.#malformed('the value ends too early')
    const byte = this.bytes[at] as number // at is below the end
    const info = byte & 31
    if (info < 24) {
      this.argument = info
      this.at = at + 1
    } else {
      this.#longArgument(byte, info)
    }
    return byte >> 5
  }

  #longArgument(byte: number, info: number): void {
    const size = 1 << (info - 24)
    if (info > 27 || byte >= 0xf8) this.#malformed('an indefinite length, a float or an unassigned value')
    if (this.at + 1 + size > this.end) this.#malformed('the value ends too early')
    const { bytes, at } = this
    this.argument =
      size === 8
        ? bytes.readUInt32BE(at + 1) * 2 ** 32 + bytes.readUInt32BE(at + 5)
        : bytes.readUIntBE(at + 1, size)
    const shortest = size === 1 ? 24 : 2 ** (size * 4)
    if (this.argument < shortest) this.#malformed('a number or length is not in its shortest form')
    this.at += 1 + size
  }

  /** Reads the head of an item of this major type and returns its argument. */
  expect(type: number): number {
    if (this.head() !== type) this.fail('a value has the wrong type')
    return this.argument
  }

  /** Reads the head of a map and returns its number of pairs, which the remaining bytes can hold. */
  map(): number {
    this.expect(major.map)
    return this.#count(2)
  }

  /**
   * Reads a map whose keys must be in canonical order, which leaves no room for repeats. Hands each key to `readValue`,
   * which must step over its value, with the position where the key begins.
   */
  fields(fieldsMax: number, readValue: (key: string, keyStart: number) => void): void {
    const count = this.map()
    if (count > fieldsMax) this.fail(`a map has ${count} fields`)
    let previous = 0
    let previousEnd = 0
    for (let left = count; left > 0; left--) {
      const keyStart = this.at
      const key = this.name()
      const start = keyStart + headBytes(this.at - keyStart)
      if (left < count && !isAfter(this.bytes, start, this.at, previous, previousEnd))
        this.#malformed('map keys are out of order, or one comes twice')
      previous = start
      previousEnd = this.at
      readValue(key, keyStart)
    }
  }

  /** Reads the head of an array and returns its number of items, which the remaining bytes can hold. */
  array(): number {
    this.expect(major.array)
    return this.#count(1)
  }

  /** Reads a byte string and returns its start; its end is the position after it. */
  byteString(): number {
    this.expect(major.bytes)
    return this.#span()
  }

  /** Reads a text. */
  text(): string {
    this.expect(major.text)
    const start = this.#textStart()
    if (this.#isAscii(start)) return this.bytes.toString('latin1', start, this.at)
    this.#checkUtf8(start)
    this.#refuseMark(start)
    return this.bytes.toString('utf8', start, this.at)
  }

  /** Reads a text and returns where its characters start; its end is the position after it. */
  textSpan(): number {
    this.expect(major.text)
    return this.#checkedText(false)
  }

  /** Reads a revision and returns where its 13 characters start. */
  tid(): number {
    const start = this.textSpan()
    return isTidAt(this.bytes, start, this.at) ? start : this.fail('a revision is not a TID')
  }

  /** Reads a text that is probably a word of the protocol: these are not made anew each time. */
  word(): string {
    return this.#knownWord() ?? this.text()
  }

  /** Reads the name of a field, which is probably a word of the protocol. */
  name(): string {
    const word = this.#knownWord()
    if (word !== undefined) return word
    const text = this.text()
    return reservedKeys.has(text) ? this.fail('a key that decoders do not keep') : text
  }

  #knownWord(): string | undefined {
    const { at } = this
    const length = ((this.bytes[at] ?? 0) - textHead) & 0xff
    if (at + length >= this.end) return undefined
    for (const word of wordsByLength[length] ?? []) {
      if (!startsWith(this.bytes, at + 1, word)) continue
      this.at = at + 1 + length
      return word
    }
    return undefined
  }

  /** Reads an integer from 0 to 2^53 - 1. */
  unsigned(): number {
    const value = this.expect(major.unsigned)
    if (!Number.isSafeInteger(value)) this.fail('an integer is too large')
    return value
  }

  /** Reads an integer, negative ones too, within 2^53. */
  integer(): number {
    const type = this.head()
    if (type !== major.unsigned && type !== major.negative) this.fail('a value has the wrong type')
    if (!Number.isSafeInteger(this.argument)) this.fail('an integer is too large')
    return type === major.unsigned ? this.argument : -1 - this.argument
  }

  boolean(): boolean {
    const value = this.expect(major.simple)
    if (value !== simple.true && value !== simple.false) this.fail('a value is not a boolean')
    return value === simple.true
  }

  /** Steps over a null, if one is next. */
  tryNull(): boolean {
    if (this.at >= this.end || this.bytes[this.at] !== nullByte) return false
    this.at++
    return true
  }

  /** Reads a link to a DAG-CBOR block by SHA-256 and returns where its 32 bytes of digest start. */
  link(): number {
    const { bytes, at } = this
    if (at + 41 > this.end) this.#malformed('a link ends too early')
    const isLink =
      bytes.readUInt32BE(at) === 0xd82a5825 &&
      bytes.readUInt32BE(at + 4) === 0x00017112 &&
      bytes[at + 8] === 0x20
    if (!isLink) this.fail('a value is not a link to a DAG-CBOR block by SHA-256')
    this.at = at + 41
    return at + 9
  }

  /**
   * Steps over one value of any type, checking it: nesting, UTF-8, links, and maps in canonical order without repeats.
   * @param isRecord records may hold floats of 64 bits, large integers, and links to anything: what they say is not
   *   looked at. Elsewhere a value passes only if every decoder in use reads it, and writes the same bytes again.
   */
  skip(isRecord: boolean, depth = 1): void {
    if (depth > limits.cborDepth) this.#malformed('the value is nested too deeply')
    if (--this.skipsLeft < 0) this.fail('the message has too many values')
    if (isRecord && this.at < this.end && this.bytes[this.at] === doubleByte) return this.#skipDouble()
    const type = this.head()
    if (type === major.text) this.#checkedText(isRecord)
    else if (type === major.bytes) this.#span()
    else if (type === major.map) this.#skipPairs(this.#count(2), isRecord, depth)
    else if (type === major.array) this.#skipItems(this.#count(1), isRecord, depth)
    else if (type === major.tag) this.#skipLinkBytes(isRecord)
    else if (type === major.simple) {
      if (this.argument < simple.false || this.argument > simple.null)
        this.#malformed('a value that DAG-CBOR does not have')
    } else if (!isRecord && this.argument > integerMax - type) this.fail('an integer is too large')
  }

  #skipItems(count: number, isRecord: boolean, depth: number): void {
    const isQuick = isRecord && depth < limits.cborDepth
    let quick = 0
    for (let left = count; left > 0; left--) {
      // at is below the end
      if (isQuick && this.at < this.end && isOneByte[this.bytes[this.at] as number] === 1) {
        this.at++
        quick++
      } else this.skip(isRecord, depth + 1)
    }
    this.skipsLeft -= quick
  }

  /** Steps over the text whose head was just read, and returns where its characters start. */
  #checkedText(isRecord: boolean): number {
    const start = this.#textStart()
    this.#checkUtf8(start)
    if (!isRecord) this.#refuseMark(start)
    return start
  }

  /** Steps over the text whose head was just read, without a look at it, and returns where its characters start. */
  #textStart(): number {
    const start = this.#span()
    this.textBytesLeft -= this.at - start
    if (this.textBytesLeft < 0) this.fail('the message has too much text')
    return start
  }

  /** Decoders of the web drop a byte order mark. */
  #refuseMark(start: number): void {
    const { bytes, at } = this
    const hasMark = at - start >= 3 && bytes.readUIntBE(start, 3) === byteOrderMark
    if (hasMark) this.fail('a text begins with a byte order mark')
  }

  #skipPairs(count: number, isRecord: boolean, depth: number): void {
    let previous = 0
    let previousEnd = 0
    for (let left = count; left > 0; left--) {
      const keyStart = this.at
      if (isRecord) this.#skipKey()
      else this.name()
      const start = keyStart + headBytes(this.at - keyStart)
      if (left < count && !isAfter(this.bytes, start, this.at, previous, previousEnd))
        this.#malformed('map keys are out of order, or one comes twice')
      previous = start
      previousEnd = this.at
      this.skip(isRecord, depth + 1)
    }
  }

  #skipKey(): void {
    this.expect(major.text)
    this.#checkUtf8(this.#span())
  }

  /** Steps over a link to a block of DAG-CBOR or to a blob, by SHA-256. */
  skipLink(): void {
    this.expect(major.tag)
    this.#skipLinkBytes(false)
  }

  #skipLinkBytes(isRecord: boolean): void {
    if (this.argument !== linkTag) this.#malformed('a tag other than a link')
    const start = this.byteString()
    const length = this.at - start
    if (length < 5 || this.bytes[start] !== 0) this.#malformed('a link is not a CID')
    if (isRecord) return
    const codec = this.bytes[start + 2]
    const isWhole =
      length === linkBytes &&
      this.bytes[start + 1] === 1 &&
      (codec === 0x71 || codec === 0x55) &&
      this.bytes[start + 3] === 0x12 &&
      this.bytes[start + 4] === 0x20
    if (!isWhole) this.fail('a link is not a CID of the protocol')
  }

  #skipDouble(): void {
    if (this.at + 9 > this.end) this.#malformed('the value ends too early')
    if (!Number.isFinite(this.bytes.readDoubleBE(this.at + 1)))
      this.#malformed('a float is not a finite number')
    this.at += 9
  }

  /** The count just read, checked against what the remaining bytes can hold. */
  #count(bytesPerItem: number): number {
    if (this.argument * bytesPerItem > this.end - this.at) this.#malformed('the value ends too early')
    return this.argument
  }

  /** Steps over as many bytes as the head just read says, and returns where they start. */
  #span(): number {
    const start = this.at
    if (this.argument > this.end - start) this.#malformed('the value ends too early')
    this.at = start + this.argument
    return start
  }

  #isAscii(start: number): boolean {
    let all = 0
    for (let i = start; i < this.at; i++) all |= this.bytes[i] as number // i is below the end
    return all < 0x80
  }

  #checkUtf8(start: number): void {
    if (!this.#isAscii(start) && !isUtf8(this.bytes.subarray(start, this.at)))
      this.#malformed('a text is not UTF-8')
  }
}

/** The bytes that a TID may begin with, and those that may follow, as `isTid` has it. */
const isTidStart = Uint8Array.from({ length: 128 }, (_, code) =>
  Number(isTid(String.fromCharCode(code).padEnd(tidBytes, '2'))),
)
const isTidByte = Uint8Array.from({ length: 128 }, (_, code) =>
  Number(isTid(String.fromCharCode(code).padStart(tidBytes, '2'))),
)

function isTidAt(bytes: Buffer, start: number, end: number): boolean {
  if (end - start !== tidBytes || isTidStart[bytes[start] ?? 0] !== 1) return false
  for (let i = start + 1; i < end; i++) if (isTidByte[bytes[i] ?? 0] !== 1) return false
  return true
}

/** The text of a revision that `tid` has read. */
export function tidAt(bytes: Buffer, start: number): Tid {
  return bytes.toString('latin1', start, start + tidBytes) as Tid // checked when it was read
}

function startsWith(bytes: Buffer, at: number, ascii: string): boolean {
  for (let i = 0; i < ascii.length; i++) if (bytes[at + i] !== ascii.charCodeAt(i)) return false
  return true
}

/** How long the head of a text is that takes so many bytes together with its head. */
function headBytes(size: number): number {
  return size <= 24 ? 1 : size <= 0x101 ? 2 : size <= 0x10002 ? 3 : 5
}

/** Whether a key comes after another one in canonical order: by length, then by bytes. */
function isAfter(bytes: Buffer, start: number, end: number, previous: number, previousEnd: number): boolean {
  const length = end - start
  const longer = length - (previousEnd - previous)
  if (longer !== 0) return longer > 0
  for (let i = 0; i < length; i++) {
    const difference = (bytes[start + i] as number) - (bytes[previous + i] as number) // both lie within the bytes
    if (difference !== 0) return difference > 0
  }
  return false
}
