/** The messages of a firehose as a consumer reads them. */
import { decode, decodeFirst } from '@atcute/cbor'
import { opcodeOf, opcodes, payloadOf } from '@tributary/testkit/simulation'

/** What a consumer is told that is no event. */
export interface Told {
  name: string
  message: string
}

/** The seq of an event in the v1 framing. Undefined for what is no event. */
export function seqOf(frame: Buffer): number | undefined {
  const { seq } = textOf(frame)
  return typeof seq === 'number' ? seq : undefined
}

/** What a message tells that is no event. Undefined for an event. */
export function toldIn(frame: Buffer): Told | undefined {
  if (opcodeOf(frame) === opcodes.text) return toldBy(textOf(frame))
  const [header, rest] = decodeFirst(payloadOf(frame)) as [{ op: number; t?: string }, Uint8Array] // as all frames begin
  if (header.op === 1 && header.t !== '#info') return undefined
  return toldBy({ $type: header.op === -1 ? 'error' : '#info', ...(decode(rest) as Record<string, unknown>) }) // a map, like all bodies
}

function textOf(frame: Buffer): Record<string, unknown> {
  const text = JSON.parse(payloadOf(frame).toString()) as Record<string, unknown> // a message of the v1 framing
  return text['$type'] === 'message' ? (text['payload'] as Record<string, unknown>) : text // likewise
}

function toldBy({ $type, error, name, message }: Record<string, unknown>): Told | undefined {
  if ($type === 'error') return { name: String(error), message: String(message) }
  return String($type).endsWith('#info') ? { name: String(name), message: String(message) } : undefined
}
