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

/** Without a line end. What others wrote has no command for the terminal in it. */
export function eventLine(event: ClientEvent, { width, hasColors }: LineOptions): string {
  const time = event.time.slice(timeAt, timeAt + timeChars)
  const word = event.kind === 'commit' ? event.operation : event.kind
  const head = `${time}  ${word.padEnd(wordChars)}`
  const rest = printable(`  ${event.did}  ${detailOf(event)}`.trimEnd())
  const tail = cut(rest, Math.max(wordChars, width - head.length))
  if (!hasColors) return head + tail
  const paint = (style: Style, text: string): string => styleText(style, text, { validateStream: false })
  return `${paint('dim', time)}  ${paint(styles[word] ?? 'white', word.padEnd(wordChars))}${tail}`
}

function detailOf(event: ClientEvent): string {
  switch (event.kind) {
    case 'commit':
      return `${event.collection}/${event.rkey}  ${recordText(event)}`
    case 'identity':
      return event.identity.handle ?? ''
    case 'account':
      return event.account.active ? 'active' : (event.account.status ?? 'not active')
    case 'sync':
      return event.sync.rev
  }
}

/** The record as JSON, without what the line says already. */
function recordText(event: ClientEvent & { kind: 'commit' }): string {
  try {
    const { $type: _type, ...fields } = event.record ?? {}
    return event.record === undefined ? '' : JSON.stringify(fields)
  } catch (error) {
    if (!(error instanceof StreamError)) throw error
    return '(malformed)'
  }
}
