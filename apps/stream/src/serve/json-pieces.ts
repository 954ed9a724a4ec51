/**
 * Reads JSON in pieces, for texts of megabytes from people whom we do not know: `JSON.parse` takes seconds for ten
 * megabytes of brackets, and hundreds of megabytes of memory. This keeps nothing but one entry for each open bracket.
 */
import { JsonTokens, notJson, token } from './json-tokens.ts'

/** What is told of a JSON text. The depth of a value is the number of brackets that are open around it. */
export interface JsonListener {
  /** The key of the value that comes next at that depth. */
  key(depth: number, tokens: JsonTokens): void
  /** @param kind the first character of the value, one of `token`. */
  value(depth: number, kind: number, tokens: JsonTokens): void
}

/** As deep as the original of Jetstream v1 reads. */
const depthMax = 10_000
const bytesPerPiece = 16_384

const expect = { value: 0, firstValue: 1, key: 2, firstKey: 3, colon: 4, more: 5, end: 6 } as const

/**
 * Tells of each key and value of a text, and of nothing after a fault. One piece is some 16 kB, and a longer token.
 * @param bytes must be UTF-8.
 * @throws SyntaxError when they are no JSON text.
 */
export function* readJson(bytes: Buffer, listener: JsonListener): Generator<void, void> {
  const tokens = new JsonTokens(bytes)
  /** For each open bracket, whether it is that of an object. */
  const open: boolean[] = []
  let expected: number = expect.value
  for (let pieceEnd = bytesPerPiece; ;) {
    if (tokens.at > pieceEnd) {
      yield
      pieceEnd = tokens.at + bytesPerPiece
    }
    const kind = tokens.next()
    const depth = open.length
    const isObject = open[depth - 1] === true
    switch (kind) {
      case token.end:
        if (expected === expect.end) return
        throw notJson()
      case token.colon:
        if (expected !== expect.colon) throw notJson()
        expected = expect.value
        break
      case token.comma:
        if (expected !== expect.more) throw notJson()
        expected = isObject ? expect.key : expect.value
        break
      case token.listEnd:
      case token.objectEnd: {
        const isEmpty = expected === (isObject ? expect.firstKey : expect.firstValue)
        if (isObject !== (kind === token.objectEnd) || (expected !== expect.more && !isEmpty)) throw notJson()
        open.pop()
        expected = depth > 1 ? expect.more : expect.end
        break
      }
      default:
        if (expected === expect.key || expected === expect.firstKey) {
          if (kind !== token.quote) throw notJson()
          listener.key(depth, tokens)
          expected = expect.colon
        } else if (expected === expect.value || expected === expect.firstValue) {
          listener.value(depth, kind, tokens)
          if (kind === token.listStart || kind === token.objectStart) {
            if (depth === depthMax) throw notJson()
            open.push(kind === token.objectStart)
            expected = kind === token.objectStart ? expect.firstKey : expect.firstValue
          } else expected = depth > 0 ? expect.more : expect.end
        } else throw notJson()
    }
  }
}
