/**
 * Reads strict DAG-CBOR in place: definite and shortest lengths, text keys, links as the only tag, no trailing bytes.
 * Values are taken where they stand, so reading allocates little more than the strings that are asked for.
 */
import { isUtf8 } from 'node:buffer'
import { limits } from '@tributary/protocol'
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
const nullByte = 0xf6
const textHead = major.text << 5
const doubleByte = 0xfb

/** Field names of frames and commits, by their length. */
const namesByLength: readonly (readonly string[] | undefined)[] = [
  [],
  ['t'],
  ['op'],
  ['seq', 'rev', 'did', 'cid', 'ops', 'sig'],
  ['repo', 'time', 'path', 'prev', 'data'],
  ['since', 'blobs'],
  ['commit', 'blocks', 'action', 'tooBig', 'rebase', 'active', 'handle', 'status'],
  ['version'],
  ['prevData'],
]

export class CborReader {
  readonly bytes: Buffer
  /** Position of the next byte. */
  at: number
  readonly end: number
  /** Argument of the last head: a number, a length, or a count. Not exact above 2^53. */
  argument = 0
  /** Why a value of the wrong type is refused, if for another reason than bytes that are no DAG-CBOR. */
  mistyped: RefusalReason
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
    const start = this.#span()
    if (this.#isAscii(start)) return this.bytes.toString('latin1', start, this.at)
    this.#checkUtf8(start)
    return this.bytes.toString('utf8', start, this.at)
  }

  /** Reads a text that is probably the name of a field of the protocol: these are not made anew each time. */
  name(): string {
    const { at } = this
    const length = ((this.bytes[at] ?? 0) - textHead) & 0xff
    if (at + length < this.end) {
      for (const name of namesByLength[length] ?? []) {
        if (!startsWith(this.bytes, at + 1, name)) continue
        this.at = at + 1 + length
        return name
      }
    }
    return this.text()
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
   * Floats of 64 bits belong to DAG-CBOR but not to the data of the AT Protocol, so they pass only if `floats` says so.
   */
  skip(floats: boolean, depth = 1): void {
    if (depth > limits.cborDepth) this.#malformed('the value is nested too deeply')
    if (floats && this.at < this.end && this.bytes[this.at] === doubleByte) return this.#skipDouble()
    const type = this.head()
    if (type === major.text) this.#checkUtf8(this.#span())
    else if (type === major.bytes) this.#span()
    else if (type === major.map) this.#skipPairs(this.#count(2), floats, depth)
    else if (type === major.array)
      for (let left = this.#count(1); left > 0; left--) this.skip(floats, depth + 1)
    else if (type === major.tag) this.#skipLinkBytes()
    else if (type === major.simple && (this.argument < simple.false || this.argument > simple.null)) {
      this.#malformed('a value that DAG-CBOR does not have')
    }
  }

  #skipPairs(count: number, floats: boolean, depth: number): void {
    let previous = 0
    let previousEnd = 0
    for (let left = count; left > 0; left--) {
      this.expect(major.text)
      const start = this.#span()
      this.#checkUtf8(start)
      if (left < count && !isAfter(this.bytes, start, this.at, previous, previousEnd))
        this.#malformed('map keys are out of order')
      previous = start
      previousEnd = this.at
      this.skip(floats, depth + 1)
    }
  }

  /** Steps over a link to anything: in records and lists of blobs it may name other kinds of block. */
  skipLink(): void {
    this.expect(major.tag)
    this.#skipLinkBytes()
  }

  #skipLinkBytes(): void {
    if (this.argument !== linkTag) this.#malformed('a tag other than a link')
    const start = this.byteString()
    if (this.at - start < 5 || this.bytes[start] !== 0) this.#malformed('a link is not a CID')
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

function startsWith(bytes: Buffer, at: number, ascii: string): boolean {
  for (let i = 0; i < ascii.length; i++) if (bytes[at + i] !== ascii.charCodeAt(i)) return false
  return true
}

/** Whether a key comes after another one in canonical order: by length, then by bytes. */
function isAfter(bytes: Buffer, start: number, end: number, previous: number, previousEnd: number): boolean {
  const longer = end - start - (previousEnd - previous)
  return longer !== 0 ? longer > 0 : bytes.compare(bytes, previous, previousEnd, start, end) > 0
}
