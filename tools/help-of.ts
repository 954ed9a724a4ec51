import { readFileSync } from 'node:fs'

/** What a command says of itself and its options at the top of its file. */
export function helpOf(file: string): string {
  const comment = /^\/\*\*\n([^]*?)\n \*\//.exec(readFileSync(file, 'utf8'))?.[1] ?? ''
  return comment.replaceAll(/^ \* ?/gm, '')
}
