/**
 * Moments as the index keeps them: microseconds since 1970 in UTC, as a bigint. Records, events, labels and feed cursors are
 * read in one way, so that all agree on what is valid and how it is rounded.
 */
const shape = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))$/

/** Longest text that is read. */
const datetimeCharsMax = 128

const earliest = -62_167_219_200_000_000n
const latest = 253_402_300_799_999_999n

/**
 * Reads `YYYY-MM-DDThh:mm:ss`, an optional fraction and `Z` or an offset (feed.md section 7). Undefined for anything else,
 * for moments that do not exist, and for those outside the years 0000 to 9999 in UTC. More than six fractional digits
 * are rounded to the nearest microsecond, half up.
 */
export function parseDatetime(value: unknown): bigint | undefined {
  if (typeof value !== 'string' || value.length > datetimeCharsMax) return undefined
  const match = shape.exec(value)
  if (!match) return undefined
  const [
    ,
    year,
    month,
    day,
    hour,
    minute,
    second,
    fraction = '',
    sign,
    offsetHour = '0',
    offsetMinute = '0',
  ] = match
  if (Number(offsetHour) > 23 || Number(offsetMinute) > 59) return undefined

  // Date.UTC would take the years 0 to 99 for 1900 to 1999; setUTCFullYear does not.
  const date = new Date(0)
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  date.setUTCHours(Number(hour), Number(minute), Number(second))
  const isReal =
    date.getUTCMonth() + 1 === Number(month) &&
    date.getUTCDate() === Number(day) &&
    date.getUTCHours() === Number(hour) &&
    date.getUTCMinutes() === Number(minute) &&
    date.getUTCSeconds() === Number(second)
  if (!isReal) return undefined

  const offsetMinutes = (Number(offsetHour) * 60 + Number(offsetMinute)) * (sign === '-' ? -1 : 1)
  const micros = BigInt(fraction.slice(0, 6).padEnd(6, '0')) + (Number(fraction[6] ?? 0) >= 5 ? 1n : 0n)
  const moment = BigInt(date.getTime() - offsetMinutes * 60_000) * 1000n + micros
  return moment >= earliest && moment <= latest ? moment : undefined
}

/** `YYYY-MM-DDThh:mm:ss.ffffffZ`, always six digits: the form of feed cursors. `parseDatetime` gives the moment back. */
export function formatDatetime(moment: bigint): string {
  const micros = ((moment % 1000n) + 1000n) % 1000n
  const milliseconds = new Date(Number((moment - micros) / 1000n)).toISOString()
  return `${milliseconds.slice(0, -1)}${String(micros).padStart(3, '0')}Z`
}
