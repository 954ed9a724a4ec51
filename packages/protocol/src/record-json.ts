/**
 * Records between their two forms: DAG-CBOR bytes as repositories hold them, and atproto JSON as the stream sends it.
 * The way to JSON is a direct transcription, without objects in between: it runs once for every record of the stream.
 */
import { toBytes } from '@atcute/cbor'
import { toString } from '@atcute/cid'
import {
  type CborReader,
  enterValue,
  isBefore,
  readArgument,
  readerOf,
  readLink,
  readSimple,
  readText,
  RecordError,
  take,
} from './cbor-reader.ts'

export { RecordError } from './cbor-reader.ts'

/**
 * The atproto JSON text of one DAG-CBOR value: links as `{"$link": …}`, byte strings as `{"$bytes": …}`.
 * Keys keep the order of the bytes.
 * @throws RecordError when the value is malformed, nested over 32 levels, of more than 20,000 values, or has an integer
 * beyond 2^53 - 1.
 */
export function recordCborToJson(bytes: Uint8Array): string {
  const reader = readerOf(bytes)
  const json = readValue(reader, 0)
  if (reader.at !== bytes.length) throw new RecordError('bytes after the end of the value')
  return json
}

function readValue(reader: CborReader, depth: number): string {
  enterValue(reader, depth)
  const initial = reader.bytes[reader.at++]
  if (initial === undefined) throw new RecordError('the value ends early')
  const info = initial & 31
  switch (initial >> 5) {
    case 0:
      return String(readArgument(reader, info))
    case 1:
      return String(-1 - readArgument(reader, info))
    case 2:
      return `{"$bytes":"${toBytes(take(reader, readArgument(reader, info))).$bytes}"}`
    case 3:
      return JSON.stringify(readText(reader, readArgument(reader, info)))
    case 4: {
      const items: string[] = []
      for (let left = readArgument(reader, info); left > 0; left--) items.push(readValue(reader, depth + 1))
      return `[${items.join(',')}]`
    }
    case 5:
      return readMap(reader, readArgument(reader, info), depth)
    case 6:
      return `{"$link":"${toString(readLink(reader, readArgument(reader, info)))}"}`
    default:
      return String(readSimple(reader, info))
  }
}

function readMap(reader: CborReader, count: number, depth: number): string {
  let json = '{'
  let previousAt = 0
  let previousLength = -1
  for (let i = 0; i < count; i++) {
    const initial = reader.bytes[reader.at++] ?? 0
    if (initial >> 5 !== 3) throw new RecordError('a map key is not text')
    const length = readArgument(reader, initial & 31)
    const at = reader.at
    const key = readText(reader, length)
    if (!isBefore(reader.bytes, previousAt, previousLength, at, length)) {
      throw new RecordError('map keys are not in DAG-CBOR order')
    }
    previousAt = at
    previousLength = length
    json += `${i > 0 ? ',' : ''}${JSON.stringify(key)}:${readValue(reader, depth + 1)}`
  }
  return `${json}}`
}
