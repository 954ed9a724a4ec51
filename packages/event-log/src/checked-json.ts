import type { Crc } from './block.ts'

/** The text of a small file whose damage is noticed: JSON with the checksum of the rest in a field of its own. */
export function checkedJson(value: object, crc: Crc): string {
  return JSON.stringify({ ...value, crc: crcOf(value, crc) })
}

/** The value of such a text; undefined when it is torn or damaged. `crc` of the value tells whether it had a checksum. */
export function parseCheckedJson(text: string, crc: Crc): { value: object; hasCrc: boolean } | undefined {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof parsed !== 'object' || parsed === null) return undefined
  const { crc: stored, ...value } = parsed as { crc?: unknown }
  if (stored !== undefined && stored !== crcOf(value, crc)) return undefined
  return { value, hasCrc: stored !== undefined }
}

function crcOf(value: object, crc: Crc): number {
  return crc(Buffer.from(JSON.stringify(value)))
}
