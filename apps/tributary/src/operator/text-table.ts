/** Columns of a terminal, where its width is not known. */
const usualWidth = 100
/** A cell of a table that has to fit is cut after this. */
const cellCharsMax = 36
const between = '  '

export interface TableOptions {
  /** Columns of the terminal; infinite for all columns and whole texts. */
  width: number
  /** Default: every value is a cell. */
  below?: Below | undefined
}

/** A line of its own below each row of a table that has to fit, in place of columns which are too wide for it. */
export interface Below {
  columns: readonly string[]
  /** Empty for a row without one. */
  textOf: (row: Record<string, unknown>) => string
}

/**
 * Rows as a table of text with a head of words, columns as wide as they need to be. In a table that has to fit, columns
 * without a value are left out, long texts are cut, and of the columns those that fit are shown, the first ones first.
 * `hidden` names those that do not fit.
 */
export function textTable(
  rows: readonly Record<string, unknown>[],
  columns: readonly string[],
  { width, below }: TableOptions,
): { text: string; hidden: string[] } {
  const isWide = width === Infinity
  const shown: string[][] = []
  const hidden: string[] = []
  let used = -between.length
  const isBelow = (name: string): boolean => !isWide && below?.columns.includes(name) === true
  for (const name of columns) {
    if (isBelow(name)) continue
    const values = rows.map((row) => textOf(row[name]))
    if (!isWide && rows.length > 0 && shown.length > 0 && values.every((value) => value === '')) continue
    const cells = [headingOf(name), ...values.map((value) => (isWide ? value : cut(value, cellCharsMax)))]
    const columnWidth = longest(cells)
    if (shown.length > 0 && used + between.length + columnWidth > width) {
      hidden.push(headingOf(name).toLowerCase())
      continue
    }
    used += between.length + columnWidth
    shown.push(cells.map((cell) => cell.padEnd(columnWidth)))
  }
  const lines = [undefined, ...rows].map((_, at) => shown.map((cells) => cells[at] ?? '').join(between))
  const texts = lines.map(
    (line, at) => `${line.trimEnd()}\n${isWide ? '' : lineBelow(rows[at - 1], below, width)}`,
  )
  return { text: texts.join(''), hidden }
}

function lineBelow(
  row: Record<string, unknown> | undefined,
  below: Below | undefined,
  width: number,
): string {
  const text = row === undefined ? '' : printable(below?.textOf(row) ?? '')
  return text === '' ? '' : `${between}${cut(text, width - between.length)}\n`
}

/** Prints a table that fits the terminal, or all of it. Columns that do not fit are named on stderr. */
export function writeTable(
  rows: readonly Record<string, unknown>[],
  columns: readonly string[],
  { isWide, below }: { isWide: boolean; below?: Below | undefined },
): void {
  const width = isWide ? Infinity : terminalWidth()
  const { text, hidden } = textTable(rows, columns, { width, below })
  process.stdout.write(text)
  if (hidden.length > 0) process.stderr.write(`not shown: ${hidden.join(', ')} (--wide shows all)\n`)
}

/** Columns of the terminal. One that does not know them says 0, and a file or pipe says nothing. */
export function terminalWidth(): number {
  return process.stdout.columns || usualWidth
}

/** The option that shows all of a table, and what it says. */
export const wideOption = ['--wide', 'show every column, and whole texts', false] as const

/** Names and values, one a line. */
export function textLines(values: Record<string, unknown>): string {
  // Names of an answer are of the service, too.
  const lines = Object.entries(values).map(([name, value]) => [printable(name), value] as const)
  const width = longest(lines.map(([name]) => name))
  return lines.map(([name, value]) => `${name.padEnd(width)}  ${textOf(value)}\n`).join('')
}

function longest(texts: readonly string[]): number {
  return texts.reduce((length, text) => Math.max(length, text.length), 0)
}

/** `lagSeconds` is `LAG SECONDS`. */
function headingOf(name: string): string {
  return name.replaceAll(/(?=[A-Z])/g, ' ').toUpperCase()
}

/** A text of at most `charsMax`, with a sign that something is left out. */
export function cut(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : `${text.slice(0, Math.max(0, charsMax - 1))}…`
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return printable(text)
}

/** What a terminal obeys: controls, line ends of every kind, and signs that turn the direction of a text. */
export const signs: RegExp = /[\p{Cc}\p{Cf}\u2028\u2029]/gu

/** What others wrote, such as a consumer's User-Agent, must not reach the terminal as commands. */
export function printable(text: string): string {
  return text.replace(signs, ' ')
}
