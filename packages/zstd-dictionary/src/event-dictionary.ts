import { readFileSync } from 'node:fs'
import { dictionaryId } from './dictionary-id.ts'

const ownFile = new URL('../dictionary/subscribe-events-826429012.zdict', import.meta.url)
const jetstreamV1File = new URL('../dictionary/jetstream-v1-1612007021.zdict', import.meta.url)

/** The dictionary of the live stream, which was trained on messages of the watched collections. Reads its file. */
export function eventDictionary(): { id: number; bytes: Buffer } {
  return readDictionary(ownFile)
}

/** The dictionary that every client of Jetstream v1 has. Reads its file. */
export function jetstreamV1Dictionary(): { id: number; bytes: Buffer } {
  return readDictionary(jetstreamV1File)
}

function readDictionary(file: URL): { id: number; bytes: Buffer } {
  const bytes = readFileSync(file)
  return { id: dictionaryId(bytes), bytes }
}
