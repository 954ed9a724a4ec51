import { readFileSync } from 'node:fs'
import { dictionaryId } from './dictionary-id.ts'

const file = new URL('../dictionary/subscribe-events-826429012.zdict', import.meta.url)

/** The dictionary of the live stream, which was trained on messages of the watched collections. Reads its file. */
export function eventDictionary(): { id: number; bytes: Buffer } {
  const bytes = readFileSync(file)
  return { id: dictionaryId(bytes), bytes }
}
