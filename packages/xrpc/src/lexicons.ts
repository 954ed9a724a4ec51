import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Lexicons, type LexUserType, type LexiconDoc } from '@atproto/lexicon'

const lexiconsDirectory = join(import.meta.dirname, '..', '..', '..', 'lexicons')

/** Reads the wire contract: every lexicon of the repository's lexicons/ folder. Throws when one cannot be read. */
export function loadLexicons(): Lexicons {
  const files = readdirSync(lexiconsDirectory, { recursive: true, encoding: 'utf8' })
  const lexicons = new Lexicons()
  for (const file of files.filter((name) => name.endsWith('.json')).toSorted()) {
    // The folder is part of this repository; a test loads it, so its shape needs no check at run time.
    lexicons.add(JSON.parse(readFileSync(join(lexiconsDirectory, file), 'utf8')) as LexiconDoc)
  }
  return lexicons
}

/** The main definition of a method, which must be of the given type. Throws when it is not: a fault of the caller. */
export function methodDefinition<T extends 'query' | 'procedure' | 'subscription'>(
  lexicons: Lexicons,
  nsid: string,
  type: T,
): Extract<LexUserType, { type: T }> {
  return lexicons.getDefOrThrow<T>(nsid, [type])
}
