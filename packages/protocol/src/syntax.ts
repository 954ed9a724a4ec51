/**
 * Syntax of the AT Protocol's identifiers, checked before anything from the network is stored or compared.
 * Every check is linear in the length of its input and looks at the length first.
 */

declare const brand: unique symbol
type Branded<Name extends string> = string & { readonly [brand]: Name }

export type Did = Branded<'Did'>
export type Handle = Branded<'Handle'>
export type Nsid = Branded<'Nsid'>
export type RecordKey = Branded<'RecordKey'>
export type Tid = Branded<'Tid'>
export type AtUri = Branded<'AtUri'>
export type CidString = Branded<'CidString'>

const didPattern = /^did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]$/
const handlePattern =
  /^([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$/
const nsidPattern =
  /^[a-zA-Z]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)+\.[a-zA-Z][a-zA-Z0-9]{0,62}$/
const recordKeyPattern = /^[a-zA-Z0-9_~.:-]{1,512}$/
const tidPattern = /^[234567abcdefghij][234567abcdefghijklmnopqrstuvwxyz]{12}$/
const cidPattern = /^[a-zA-Z0-9+=]{8,256}$/
const datetimePattern = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d{1,20})?(Z|[+-]\d\d:\d\d)$/

/** DID syntax of the AT Protocol, at most 2,048 characters, any method. */
export function isDid(value: unknown): value is Did {
  return typeof value === 'string' && value.length <= 2048 && didPattern.test(value)
}

/** True for the two DID methods of the network that can be resolved: `did:plc` and `did:web`. */
export function isPlcOrWeb(did: string): boolean {
  return did.startsWith('did:plc:') || did.startsWith('did:web:')
}

/** Handle syntax, at most 253 characters. Says nothing about who owns the name. */
export function isHandle(value: unknown): value is Handle {
  return typeof value === 'string' && value.length <= 253 && handlePattern.test(value)
}

/** NSID syntax, at most 317 characters. */
export function isNsid(value: unknown): value is Nsid {
  return typeof value === 'string' && value.length <= 317 && nsidPattern.test(value)
}

/** Record key syntax, 1 to 512 characters, `.` and `..` excluded. */
export function isRecordKey(value: unknown): value is RecordKey {
  return typeof value === 'string' && recordKeyPattern.test(value) && value !== '.' && value !== '..'
}

/** TID syntax: 13 characters of base32-sortable with the high bit clear. */
export function isTid(value: unknown): value is Tid {
  return typeof value === 'string' && tidPattern.test(value)
}

/** A plausible CID text, as in record syntax: it is not decoded. */
export function isCid(value: unknown): value is CidString {
  return typeof value === 'string' && cidPattern.test(value)
}

/** The AT Protocol's datetime: RFC 3339 with seconds and a zone, naming a moment that exists. */
export function isDatetime(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > 64) return false
  if (!datetimePattern.test(value) || value.endsWith('-00:00')) return false
  const [year, month, day] = [numberAt(value, 0, 4), numberAt(value, 5), numberAt(value, 8)]
  if (month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return false
  if (numberAt(value, 11) > 23 || numberAt(value, 14) > 59 || numberAt(value, 17) > 59) return false
  if (value.endsWith('Z')) return true
  const zone = value.length - 6
  if (numberAt(value, zone + 1) > 23 || numberAt(value, zone + 4) > 59) return false
  if (year > 0 && year < 9999) return true
  // East of Greenwich the first hours of the year 0 lie before it, and west of it the last ones of 9999 after it.
  const moment = Date.parse(value.replace(/\.\d+/, ''))
  return moment >= -62_167_219_200_000 && moment < 253_402_300_800_000
}

/** Digits of a text as a number. Whoever calls knows that they are digits. */
function numberAt(text: string, at: number, count = 2): number {
  let number = 0
  for (let i = at; i < at + count; i++) number = number * 10 + text.charCodeAt(i) - 48
  return number
}

function daysIn(year: number, month: number): number {
  if (month !== 2) return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28
}

const tidAlphabet = '234567abcdefghijklmnopqrstuvwxyz'

/** The moment that a TID names, in microseconds since 1970. The TID must be valid. */
export function tidToMicroseconds(tid: string): number {
  let micros = 0
  for (let i = 0; i < 11; i++) micros = micros * 32 + tidAlphabet.indexOf(tid.charAt(i))
  return micros
}

/** The TID of a moment in microseconds since 1970, with a clock id from 0 to 1023. */
export function microsecondsToTid(micros: number, clockId: number): Tid {
  let text = tidAlphabet.charAt(clockId >> 5) + tidAlphabet.charAt(clockId & 31)
  let rest = micros
  for (let i = 0; i < 11; i++) {
    text = tidAlphabet.charAt(rest % 32) + text
    rest = Math.floor(rest / 32)
  }
  return text as Tid // built from the alphabet, 13 characters
}

/**
 * The parts of the address of one record, `at://<did>/<collection>/<rkey>`.
 * Undefined for anything else, among it addresses that name a handle, a whole repository or a fragment.
 */
export function parseRecordUri(uri: unknown): { did: Did; collection: Nsid; rkey: RecordKey } | undefined {
  if (typeof uri !== 'string' || uri.length > 8192 || !uri.startsWith('at://')) return undefined
  const [did, collection, rkey, ...more] = uri.slice(5).split('/')
  if (more.length > 0 || !isDid(did) || !isNsid(collection) || !isRecordKey(rkey)) return undefined
  return { did, collection, rkey }
}

/** AT-URI syntax: an authority (DID or handle), then at most a collection and a record key. */
export function isAtUri(value: unknown): value is AtUri {
  if (typeof value !== 'string' || value.length > 8192 || !value.startsWith('at://')) return false
  const [authority, collection, rkey, ...more] = value.slice(5).split('/')
  if (more.length > 0 || !(isDid(authority) || isHandle(authority))) return false
  if (collection === undefined) return true
  return isNsid(collection) && (rkey === undefined || isRecordKey(rkey))
}

/** The address of a record. The parts are taken as they are. */
export function recordUri(did: string, collection: string, rkey: string): AtUri {
  return `at://${did}/${collection}/${rkey}` as AtUri // the caller has checked the parts
}
