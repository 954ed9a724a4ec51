/** What commands say on stderr, a line each. It may hold words of others, such as an error of a server. */
import { cut, printable } from './operator/text-table.ts'

type Output = Pick<NodeJS.WriteStream, 'write' | 'writableNeedDrain'>

const charsMax = 500
/** Lines since the last one that was said. */
let leftOut = 0

/** Says a line. What others wrote in it is no command for the terminal, and a long line is cut. */
export function sayError(text: string, output: Output = process.stderr): void {
  const lines = leftOut > 0 ? [`${leftOut} lines were left out, which nobody read in time`, text] : [text]
  leftOut = 0
  output.write(lines.map((line) => `${printable(cut(line, charsMax))}\n`).join(''))
}

/** As `sayError`, for what a server can say at any time. Lines are counted and left out while nobody reads the others. */
export function sayNotice(text: string, output: Output = process.stderr): void {
  if (output.writableNeedDrain) leftOut++
  else sayError(text, output)
}
