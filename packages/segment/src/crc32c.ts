/** For eight bytes at a time: table k says what a byte does that k further bytes follow. All in one list. */
const tableCount = 8
const tables = new Int32Array(256 * tableCount)
for (let byte = 0; byte < 256; byte++) {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1
  tables[byte] = value
}
for (let at = 256; at < tables.length; at++) {
  const before = tables[at - 256] ?? 0
  tables[at] = (tables[before & 0xff] ?? 0) ^ (before >>> 8)
}

/** What the byte `value & 0xff` does when `following` more bytes come. */
function step(following: number, value: number): number {
  return tables[256 * following + (value & 0xff)] ?? 0
}

/** CRC-32C (Castagnoli) of some of the bytes, as an unsigned number. Not the CRC-32 of zlib. */
export function crc32c(bytes: Uint8Array, start = 0, end: number = bytes.length): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let crc = -1
  let at = start
  for (; at + tableCount <= end; at += tableCount) {
    const low = crc ^ view.getInt32(at, true)
    const high = view.getInt32(at + 4, true)
    crc =
      step(7, low) ^
      step(6, low >>> 8) ^
      step(5, low >>> 16) ^
      step(4, low >>> 24) ^
      step(3, high) ^
      step(2, high >>> 8) ^
      step(1, high >>> 16) ^
      step(0, high >>> 24)
  }
  for (; at < end; at++) crc = step(0, crc ^ (bytes[at] ?? 0)) ^ (crc >>> 8)
  return ~crc >>> 0
}
