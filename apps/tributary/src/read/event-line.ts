/** An event as one line for a person: when, what, where, whose, and the beginning of the record. */
import { styleText } from 'node:util'
import { type ClientEvent, StreamError } from '@tributary/client/node'
import { cut, printable } from '../operator/text-table.ts'

export interface LineOptions {
  /** Columns of the terminal. */
  width: number
  hasColors: boolean
}

type Style = Parameters<typeof styleText>[0]

const styles: Readonly<Record<string, Style>> = {
  create: 'green',
  update: 'yellow',
  delete: 'red',
  identity: 'cyan',
  account: 'magenta',
  sync: 'blue',
}
const timeAt = 11
const timeChars = 12
const wordChars = 8
/** On narrower terminals names are shortened, so that something of the record is seen. */
const widthOfWholeNames = 110

/** Without a line end. What others wrote has no command for the terminal in it. */
export function eventLine(event: ClientEvent, { width, hasColors }: LineOptions): string {
  const time = printable(event.time.slice(timeAt, timeAt + timeChars))
  const word = cut(printable(event.kind === 'commit' ? event.operation : event.kind), wordChars)
  const head = `${time}  ${word.padEnd(wordChars)}`
  const isNarrow = width < widthOfWholeNames
  const did = isNarrow && event.kind === 'commit' ? shortDid(event.did) : event.did
  const rest = printable(`  ${did}  ${detailOf(event, isNarrow)}`.trimEnd())
  const tail = cut(rest, Math.max(wordChars, width - head.length))
  if (!hasColors) return head + tail
  const paint = (style: Style, text: string): string => styleText(style, text, { validateStream: false })
  return `${paint('dim', time)}  ${paint(styles[word] ?? 'white', word.padEnd(wordChars))}${tail}`
}

function detailOf(event: ClientEvent, isNarrow: boolean): string {
  switch (event.kind) {
    case 'commit':
      return `${isNarrow ? lastWord(event.collection) : event.collection}/${event.rkey}  ${recordText(event)}`
    case 'identity':
      return event.identity.handle ?? ''
    case 'account':
      return event.account.active ? 'active' : (event.account.status ?? 'not active')
    case 'sync':
      return event.sync.rev
  }
}

/** `did:plc:ab…yz23`: the beginning says the method, and the end differs most. */
function shortDid(did: string): string {
  return did.length <= 15 ? did : `${did.slice(0, 10)}…${did.slice(-4)}`
}

/** `…activity`: most collections of a stream begin alike. */
function lastWord(collection: string): string {
  return `…${collection.slice(collection.lastIndexOf('.') + 1)}`
}

/** The record as JSON, without what the line says already. */
function recordText(event: ClientEvent & { kind: 'commit' }): string {
  try {
    const { $type: _type, ...fields } = event.record ?? {}
    return event.record === undefined ? '' : JSON.stringify(fields)
  } catch (error) {
    // A record may be too large, or too deep, to make JSON of.
    if (!(error instanceof StreamError || error instanceof RangeError)) throw error
    return '(malformed)'
  }
}
