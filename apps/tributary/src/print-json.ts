import { signs } from './operator/text-table.ts'

/** What `--json` prints of a command that ends: one value, for people too. */
export function printJson(value: unknown): void {
  process.stdout.write(`${jsonText(JSON.stringify(value, undefined, 2))}\n`)
}

/**
 * JSON as it is written on stdout. On a terminal, what is in its texts is no command: it is escaped, and the value stays
 * the same.
 */
export function jsonText(json: string): string {
  return process.stdout.isTTY ? escapeSigns(json) : json
}

/** A line end is between values, as JSON escapes it within a text. */
export function escapeSigns(json: string): string {
  return json.replace(signs, (sign) =>
    sign === '\n'
      ? sign
      : Array.from({ length: sign.length }, (_, i) => unitEscape(sign.charCodeAt(i))).join(''),
  )
}

function unitEscape(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, '0')}`
}

/** The option, and what it says. */
export const jsonOption = ['--json', 'print JSON', false] as const
