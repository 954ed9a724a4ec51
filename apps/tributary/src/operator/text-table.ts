/** Rows as a table of text with a head, columns as wide as they need to be; values that are not there are empty. */
export function textTable(rows: readonly Record<string, unknown>[], columns: readonly string[]): string {
  const cells = [
    columns.map((name) => name.toUpperCase()),
    ...rows.map((row) => columns.map((name) => textOf(row[name]))),
  ]
  const widths = columns.map((_, at) => Math.max(...cells.map((line) => line[at]?.length ?? 0)))
  return cells
    .map(
      (line) =>
        `${line
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}

/** Names and values, one a line. */
export function textLines(values: Record<string, unknown>): string {
  const width = Math.max(0, ...Object.keys(values).map((name) => name.length))
  return Object.entries(values)
    .map(([name, value]) => `${name.padEnd(width)}  ${textOf(value)}\n`)
    .join('')
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return printable(text)
}

/** What others wrote, such as a consumer's User-Agent, must not reach the terminal as commands. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, ' ')
}
