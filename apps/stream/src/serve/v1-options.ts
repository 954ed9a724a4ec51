/** What a reader of Jetstream v1 says in a text. */
import { CloseReason } from '@tributary/fanout'
import { XrpcError } from '@tributary/xrpc'
import { readJson, type JsonListener } from './json-pieces.ts'
import { token, type JsonTokens } from './json-tokens.ts'
import { checkV1Filter, RepeatedTexts, v1FilterMax, type V1Filter } from './v1-params.ts'

/** The longest name of a field, with each character as an escape. */
const nameBytesMax = 2 + 6 * 'maxMessageSizeBytes'.length

/**
 * What a text of a reader asks for, read in pieces. Undefined when it is no `options_update`.
 * @param text must be UTF-8.
 * @throws CloseReason 1007 when the text is no JSON object, 1008 when it asks for what cannot be.
 */
export function* readOptionsUpdate(text: Buffer): Generator<void, V1Filter | undefined> {
  const options = new Options()
  try {
    yield* readJson(text, options)
  } catch (error) {
    if (error instanceof SyntaxError) throw new CloseReason(1007, 'InvalidRequest', 'The message is not JSON')
    throw error
  }
  if (!options.isObject) throw new CloseReason(1007, 'InvalidRequest', 'The message is not a JSON object')
  if (options.type !== 'options_update') return undefined
  try {
    return checkV1Filter(options.payload())
  } catch (error) {
    if (error instanceof XrpcError) throw refusal(error.message)
    throw error
  }
}

/** A list of texts as it was sent. */
interface SentList {
  isList: boolean
  texts: RepeatedTexts
}

/** Keeps the few fields of a message that mean something. Of fields that are there twice the last one counts. */
class Options implements JsonListener {
  isObject = false
  type: string | undefined
  #field = ''
  #option = ''
  #payloadKind: number = token.null
  #lists = new Map<string, SentList>()
  #size: number | undefined

  key(depth: number, tokens: JsonTokens): void {
    if (depth === 1) this.#field = shortText(tokens)
    else if (depth === 2) this.#option = shortText(tokens)
  }

  value(depth: number, kind: number, tokens: JsonTokens): void {
    if (depth === 0) this.isObject = kind === token.objectStart
    else if (depth === 1) this.#takeField(kind, tokens)
    else if (this.#field !== 'payload' || this.#payloadKind !== token.objectStart) return
    else if (depth === 2) this.#takeOption(kind, tokens)
    else if (depth === 3) this.#takeText(kind, tokens)
  }

  /** @throws CloseReason 1008 when a field has the wrong type. */
  payload(): Parameters<typeof checkV1Filter>[0] {
    const { objectStart, null: none } = token
    if (this.#payloadKind !== objectStart && this.#payloadKind !== none)
      throw refusal('payload must be an object')
    for (const [name, { isList }] of this.#lists)
      if (!isList) throw refusal(`${name} must be a list of texts`)
    return {
      wantedCollections: this.#list('wantedCollections').texts,
      wantedDids: this.#list('wantedDids').texts,
      maxMessageSizeBytes: this.#size,
    }
  }

  #takeField(kind: number, tokens: JsonTokens): void {
    if (this.#field === 'type') this.type = kind === token.quote ? shortText(tokens) : undefined
    if (this.#field !== 'payload') return
    this.#payloadKind = kind
    this.#lists.clear()
    this.#size = undefined
  }

  #takeOption(kind: number, tokens: JsonTokens): void {
    if (this.#option === 'maxMessageSizeBytes')
      this.#size = kind === token.number ? tokens.number() : undefined
    if (!isListName(this.#option)) return
    this.#lists.delete(this.#option)
    if (kind !== token.null) this.#list(this.#option).isList = kind === token.listStart
  }

  #takeText(kind: number, tokens: JsonTokens): void {
    if (!isListName(this.#option)) return
    const list = this.#list(this.#option)
    if (kind === token.quote) list.texts.add(tokens.text())
    else list.isList = false
  }

  #list(name: ListName): SentList {
    const list = this.#lists.get(name) ?? { isList: true, texts: new RepeatedTexts(v1FilterMax[name]) }
    this.#lists.set(name, list)
    return list
  }
}

type ListName = keyof typeof v1FilterMax

function isListName(name: string): name is ListName {
  return name === 'wantedCollections' || name === 'wantedDids'
}

/** A text that is longer than the names that are known is none of them. */
function shortText(tokens: JsonTokens): string {
  return tokens.length <= nameBytesMax ? tokens.text() : ''
}

function refusal(message: string): CloseReason {
  return new CloseReason(1008, 'InvalidRequest', message)
}
