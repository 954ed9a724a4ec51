const alphabet = '234567abcdefghijklmnopqrstuvwxyz'
const clockBits = 10

/** The TID of a time in microseconds since 1970 and a clock id below 1024. 13 characters. */
export function tidAt(timeMicros: number, clockId = 0): string {
  let bits = (BigInt(timeMicros) << BigInt(clockBits)) | BigInt(clockId)
  let text = ''
  for (let index = 0; index < 13; index++) {
    text = alphabet.charAt(Number(bits & 31n)) + text
    bits >>= 5n
  }
  return text
}

/** The time of a TID in microseconds since 1970. */
export function microsOfTid(tid: string): number {
  let bits = 0n
  for (const character of tid) bits = (bits << 5n) | BigInt(alphabet.indexOf(character))
  return Number(bits >> BigInt(clockBits))
}

let lastMicros = 0

/** A TID of now, later than every one that this process made before. */
export function nextTid(): string {
  lastMicros = Math.max(lastMicros + 1, Date.now() * 1000)
  return tidAt(lastMicros)
}
