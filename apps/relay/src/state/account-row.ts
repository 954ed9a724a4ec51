/**
 * The columns of an account, declared once: where each lies in a packed row, and what the database calls it. The table
 * in memory, the writes to the state thread and the rows of the database are all made from this.
 *
 * A row has a fixed length. What has none, and what nearly no account has, is in a map beside the rows.
 */
import { hash } from 'node:crypto'
import type { Did, Tid } from '@tributary/protocol'
import type { Digest } from '@tributary/repo-verify'
import type { Account, Breaks, LocalStatus } from './account.ts'

/** Where each value lies in a row. From `askedAtMs` on nothing is stored. */
const at = {
  /** The end of a did:plc. */
  did: 0,
  rev: 24,
  commit: 37,
  data: 69,
  sourceId: 101,
  throttledAtMs: 105,
  /** In `statuses`, or `otherStatus`. */
  upstreamStatus: 113,
  /** In `localStatuses`. */
  localStatus: 114,
  wholeness: 115,
  /** Bits of `digestBit`. */
  digests: 116,
  isUsed: 117,
  underWay: 118,
  askedAtMs: 122,
  logId: 130,
} as const

/** Bytes of a row. */
export const rowBytes = 138

/** The first of them is that of an empty row. */
const statuses = ['active', 'inactive', 'deactivated', 'deleted', 'suspended', 'takendown', 'throttled']
const otherStatus = 255
const localStatuses: readonly (LocalStatus | undefined)[] = [undefined, 'takendown', 'suspended']
const digestBit = { commit: 1, data: 2 }
/** An account that is incomplete is desynchronized, too. */
const wholeness = { whole: 0, desynchronized: 1, incomplete: 2 }
const digestBytes = 32
const revLength = 13
const sourceDigits = 10
const plcPrefix = 'did:plc:'

/** What has no fixed length, and what nearly no account has. */
export interface RareValues {
  /** Where it is not a did:plc of the common length. */
  did?: Did | undefined
  /** Where it is not one of the common ones. */
  upstreamStatus?: string | undefined
  activeNote?: string | undefined
  breaks?: Breaks | undefined
  namedBy?: number | undefined
  hasDeparted?: true | undefined
}

/** Rows one after the other, on their way to the state thread. */
export interface PackedAccounts {
  bytes: Uint8Array
  /** By the place among the rows. */
  rare: ReadonlyMap<number, RareValues>
}

/** One account in packed rows. It holds no value of its own, so any number of them may name the same row. */
export class AccountRow implements Account {
  readonly row: number
  #bytes: Buffer
  #start: number
  #rare: Map<number, RareValues>
  #did: Did | undefined

  /** @param start of the row in the bytes. @param row names it among the rare values. */
  constructor(bytes: Buffer, start: number, rare: Map<number, RareValues>, row: number, did?: Did) {
    this.#bytes = bytes
    this.#start = start
    this.#rare = rare
    this.row = row
    this.#did = did
  }

  /** Whether a row is of an account that is inactive, left out by our operator, or incomplete. */
  static isExceptional(bytes: Buffer, start: number): boolean {
    return (
      bytes[start + at.upstreamStatus] !== 0 ||
      bytes[start + at.localStatus] !== 0 ||
      bytes[start + at.throttledAtMs + 7] !== 0 ||
      bytes[start + at.wholeness] === wholeness.incomplete
    )
  }

  /** Whether a row is of an account of a source that is active and whole. */
  static isWholeOf(sourceId: number, bytes: Buffer, start: number): boolean {
    return bytes.readUInt32LE(start + at.sourceId) === sourceId && !AccountRow.isExceptional(bytes, start)
  }

  /** Takes the values of a common row. */
  setCommon(rows: Buffer, from: number): void {
    const digit = (place: number): number => (rows[from + place] ?? 0) - 48
    rows.copy(this.#bytes, this.#start, from, from + at.sourceId)
    let sourceId = 0
    for (let place = 0; place < sourceDigits; place++) sourceId = sourceId * 10 + digit(at.sourceId + place)
    this.sourceId = sourceId
    this.#setByte(at.upstreamStatus, digit(at.sourceId + sourceDigits))
    this.#setByte(at.wholeness, digit(at.sourceId + sourceDigits + 1))
    this.#setByte(at.digests, digestBit.commit | digestBit.data)
  }

  /** Whether it is the account of a DID. Takes less than reading its own. */
  is(did: string): boolean {
    if (this.#byte(at.did) === 0) return this.#rare.get(this.row)?.did === did
    if (!isCommonDid(did)) return false
    for (let i = 0; i < at.rev; i++)
      if (this.#byte(at.did + i) !== did.charCodeAt(plcPrefix.length + i)) return false
    return true
  }

  get did(): Did {
    this.#did ??= this.#rare.get(this.row)?.did ?? ((plcPrefix + this.#text(at.did, at.rev)) as Did) // as it was set
    return this.#did
  }

  set did(did: Did) {
    this.#did = did
    if (isCommonDid(did)) this.#setText(at.did, did.slice(plcPrefix.length))
    else this.#setRare('did', did)
  }

  get logId(): bigint {
    const place = this.#start + at.logId
    const known = this.#bytes.readBigUInt64LE(place)
    if (known !== 0n) return known
    hash('sha256', this.did, 'buffer').copy(this.#bytes, place, 0, 8)
    return this.#bytes.readBigUInt64LE(place)
  }

  get sourceId(): number {
    return this.#bytes.readUInt32LE(this.#start + at.sourceId)
  }

  set sourceId(sourceId: number) {
    this.#bytes.writeUInt32LE(sourceId, this.#start + at.sourceId)
  }

  get upstreamStatus(): string {
    return statuses[this.#byte(at.upstreamStatus)] ?? this.#rare.get(this.row)?.upstreamStatus ?? 'inactive'
  }

  set upstreamStatus(status: string) {
    const code = statuses.indexOf(status)
    this.#setByte(at.upstreamStatus, code < 0 ? otherStatus : code)
    this.#setRare('upstreamStatus', code < 0 ? status : undefined)
  }

  get localStatus(): LocalStatus | undefined {
    return localStatuses[this.#byte(at.localStatus)]
  }

  set localStatus(status: LocalStatus | undefined) {
    this.#setByte(at.localStatus, localStatuses.indexOf(status))
  }

  get throttledAtMs(): number {
    return this.#bytes.readDoubleLE(this.#start + at.throttledAtMs)
  }

  set throttledAtMs(timeMs: number) {
    this.#bytes.writeDoubleLE(timeMs, this.#start + at.throttledAtMs)
  }

  get rev(): Tid | undefined {
    return this.#byte(at.rev) === 0 ? undefined : (this.#text(at.rev, at.commit) as Tid) // as it was set
  }

  set rev(rev: Tid | undefined) {
    if (rev?.length === revLength) this.#setText(at.rev, rev)
    else this.#setByte(at.rev, 0)
  }

  get commit(): Digest | undefined {
    return this.#digest(at.commit, digestBit.commit)
  }

  set commit(digest: Digest | undefined) {
    this.#setDigest(at.commit, digestBit.commit, digest)
  }

  get data(): Digest | undefined {
    return this.#digest(at.data, digestBit.data)
  }

  set data(digest: Digest | undefined) {
    this.#setDigest(at.data, digestBit.data, digest)
  }

  get isDesynchronized(): boolean {
    return this.#byte(at.wholeness) !== wholeness.whole
  }

  set isDesynchronized(is: boolean) {
    if (is !== this.isDesynchronized)
      this.#setByte(at.wholeness, is ? wholeness.desynchronized : wholeness.whole)
  }

  get isIncomplete(): boolean {
    return this.#byte(at.wholeness) === wholeness.incomplete
  }

  set isIncomplete(is: boolean) {
    if (is !== this.isIncomplete)
      this.#setByte(at.wholeness, is ? wholeness.incomplete : wholeness.desynchronized)
  }

  get activeNote(): string | undefined {
    return this.#rare.get(this.row)?.activeNote
  }

  set activeNote(activeNote: string | undefined) {
    this.#setRare('activeNote', activeNote)
  }

  get breaks(): Breaks | undefined {
    return this.#rare.get(this.row)?.breaks
  }

  set breaks(breaks: Breaks | undefined) {
    this.#setRare('breaks', breaks)
  }

  get namedBy(): number | undefined {
    return this.#rare.get(this.row)?.namedBy
  }

  set namedBy(sourceId: number | undefined) {
    this.#setRare('namedBy', sourceId)
  }

  get hasDeparted(): boolean {
    return this.#rare.get(this.row)?.hasDeparted === true
  }

  set hasDeparted(has: boolean) {
    this.#setRare('hasDeparted', has ? true : undefined)
  }

  get askedAtMs(): number {
    return this.#bytes.readDoubleLE(this.#start + at.askedAtMs)
  }

  set askedAtMs(timeMs: number) {
    this.#bytes.writeDoubleLE(timeMs, this.#start + at.askedAtMs)
  }

  get underWay(): number {
    return this.#bytes.readUInt32LE(this.#start + at.underWay)
  }

  set underWay(count: number) {
    this.#bytes.writeUInt32LE(count, this.#start + at.underWay)
  }

  get isUsed(): boolean {
    return this.#byte(at.isUsed) === 1
  }

  set isUsed(is: boolean) {
    this.#setByte(at.isUsed, is ? 1 : 0)
  }

  /** Values in the order of `columns`. */
  get values(): SqlValue[] {
    return columns.map(({ get }) => get(this))
  }

  set values(values: readonly SqlValue[]) {
    for (const [index, { set }] of columns.entries()) set(this, values[index] ?? null)
  }

  /** Copies the row to a place in other rows. */
  copyTo(bytes: Buffer, start: number, rare: Map<number, RareValues>, row: number): void {
    this.#bytes.copy(bytes, start, this.#start, this.#start + rowBytes)
    const values = this.#rare.get(this.row)
    // Breaks are counted on in place.
    if (values) rare.set(row, structuredClone(values))
  }

  /** Empties the row. Whoever still holds this reads and writes a copy that is nobody's from now on. */
  detach(): void {
    const copy = Buffer.alloc(rowBytes)
    const rare = new Map<number, RareValues>()
    const { did } = this
    this.copyTo(copy, 0, rare, this.row)
    this.#bytes.fill(0, this.#start, this.#start + rowBytes)
    this.#rare.delete(this.row)
    this.#bytes = copy
    this.#start = 0
    this.#rare = rare
    this.#did = did
  }

  #byte(place: number): number {
    return this.#bytes[this.#start + place] ?? 0
  }

  #setByte(place: number, value: number): void {
    this.#bytes[this.#start + place] = value
  }

  #text(from: number, to: number): string {
    return this.#bytes.toString('latin1', this.#start + from, this.#start + to)
  }

  #setText(place: number, text: string): void {
    this.#bytes.write(text, this.#start + place, 'latin1')
  }

  #digest(place: number, bit: number): Digest | undefined {
    if ((this.#byte(at.digests) & bit) === 0) return undefined
    return this.#text(place, place + digestBytes) as Digest // as it was set
  }

  #setDigest(place: number, bit: number, digest: Digest | undefined): void {
    const others = this.#byte(at.digests) & ~bit
    const isWhole = digest?.length === digestBytes
    this.#setByte(at.digests, isWhole ? others | bit : others)
    if (isWhole) this.#setText(place, digest)
  }

  #setRare<K extends keyof RareValues>(name: K, value: RareValues[K]): void {
    const known = this.#rare.get(this.row)
    if (!known && value === undefined) return
    const values = { ...known, [name]: value }
    if (Object.values(values).some((each) => each !== undefined)) this.#rare.set(this.row, values)
    else this.#rare.delete(this.row)
  }
}

function isCommonDid(did: string): boolean {
  return did.length === plcPrefix.length + at.rev && did.startsWith(plcPrefix)
}

export type SqlValue = string | number | Buffer | null

interface Column {
  name: string
  get: (row: AccountRow) => SqlValue
  set: (row: AccountRow, value: SqlValue) => void
}

/** Rows of the database that hold nothing rare, as nearly all do. */
export const isCommonSql = `length(did) = ${plcPrefix.length + at.rev} AND substr(did, 1, ${plcPrefix.length}) = '${plcPrefix}'
  AND length(rev) = ${revLength} AND length(commit_digest) = ${digestBytes} AND length(data_digest) = ${digestBytes}
  AND local_status IS NULL AND throttled_at_ms = 0 AND rare IS NULL AND source_id > 0
  AND upstream_status IN (${statuses.map((status) => `'${status}'`).join()})`

/** A common row in one text: a packed row up to its source id, and digits. */
export const commonRowSql = `substr(did, ${plcPrefix.length + 1}) || rev || commit_digest || data_digest
  || substr('000000000' || source_id, -${sourceDigits})
  || CASE upstream_status ${statuses.map((status, code) => `WHEN '${status}' THEN ${code}`).join(' ')} END
  || is_desynchronized`

/** Bytes of a common row. */
export const commonRowBytes: number = at.sourceId + sourceDigits + 2

/** The columns of an account in the database, in their order there. */
export const columns: readonly Column[] = [
  { name: 'did', get: ({ did }) => did, set: (row, did) => (row.did = did as Did) }, // checked before it was stored
  {
    name: 'source_id',
    get: ({ sourceId }) => sourceId,
    set: (row, sourceId) => (row.sourceId = Number(sourceId)),
  },
  {
    name: 'upstream_status',
    get: ({ upstreamStatus }) => upstreamStatus,
    set: (row, status) => (row.upstreamStatus = String(status)),
  },
  { name: 'rev', get: ({ rev }) => rev ?? null, set: (row, rev) => (row.rev = (rev ?? undefined) as Tid) }, // as it was stored
  {
    name: 'commit_digest',
    get: ({ commit }) => bytesOf(commit),
    set: (row, digest) => (row.commit = digestOf(digest)),
  },
  {
    name: 'data_digest',
    get: ({ data }) => bytesOf(data),
    set: (row, digest) => (row.data = digestOf(digest)),
  },
  {
    // 1: events of the account did not continue what was stored. 2: some were left out here.
    name: 'is_desynchronized',
    get: ({ isDesynchronized, isIncomplete }) => (isIncomplete ? 2 : isDesynchronized ? 1 : 0),
    set: (row, code) => {
      row.isDesynchronized = code !== 0
      row.isIncomplete = code === 2
    },
  },
  {
    name: 'local_status',
    get: ({ localStatus }) => localStatus ?? null,
    set: (row, status) => (row.localStatus = (status ?? undefined) as LocalStatus | undefined), // as it was stored
  },
  {
    name: 'throttled_at_ms',
    get: ({ throttledAtMs }) => throttledAtMs,
    set: (row, timeMs) => (row.throttledAtMs = Number(timeMs)),
  },
  {
    // JSON of what nearly no account has.
    name: 'rare',
    get: ({ activeNote, breaks, namedBy, hasDeparted: has }) => {
      const values: RareValues = { activeNote, breaks, namedBy, hasDeparted: has ? true : undefined }
      return Object.values(values).every((value) => value === undefined) ? null : JSON.stringify(values)
    },
    set: (row, text) => {
      const values = (text === null ? {} : JSON.parse(String(text))) as RareValues // as it was stored
      row.activeNote = values.activeNote
      row.breaks = values.breaks
      row.namedBy = values.namedBy
      row.hasDeparted = values.hasDeparted === true
    },
  },
]

function bytesOf(digest: Digest | undefined): Buffer | null {
  return digest === undefined ? null : Buffer.from(digest, 'latin1')
}

function digestOf(bytes: SqlValue): Digest | undefined {
  return Buffer.isBuffer(bytes) ? (bytes.toString('latin1') as Digest) : undefined // 32 bytes, one character each
}
