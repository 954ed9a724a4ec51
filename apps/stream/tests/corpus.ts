import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'

const directory = join(import.meta.dirname, '..', 'vectors', 'corpus')

/** 150 consecutive frames of the public relay, captured in July 2026. */
export function corpusFrames(): Buffer[] {
  const bytes = zstdDecompressSync(readFileSync(join(directory, 'frames.bin.zst')))
  const frames: Buffer[] = []
  for (let at = 0; at < bytes.length;) {
    const length = bytes.readUInt32LE(at)
    frames.push(bytes.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  return frames
}

/** When they were captured, in milliseconds since 1970. */
export const corpusCapturedMs: number = Date.parse('2026-07-04T14:39:14Z')

/** What a production Jetstream of version 1 sent for them, event by event. */
export function corpusExpectedV1(): Record<string, unknown>[] {
  const lines = readFileSync(join(directory, 'expected_v1.jsonl'), 'utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>) // written as objects
}

/** The DID documents of their accounts at that time. */
export function corpusDidDocuments(): Map<string, unknown> {
  const json = zstdDecompressSync(readFileSync(join(directory, 'did_docs.json.zst'))).toString()
  return new Map(Object.entries(JSON.parse(json) as Record<string, unknown>)) // written as one
}
