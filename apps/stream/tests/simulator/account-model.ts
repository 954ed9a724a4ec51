/**
 * What the rows of one account have to be: those of its events, each once and in order, and now and then all of its
 * records again, which take the place of events up to their revision. Folded, they say what its repository holds.
 * Operations on a collection that is added or removed meanwhile may give rows, in their place, and need not.
 */
import { createHash } from 'node:crypto'
import { decode, encode } from '@atcute/cbor'
import { rowKind, type Row } from '@tributary/segment'
import type { EventBody, SignedCommit } from '@tributary/testkit'
import { collectionOf } from './collections.ts'
import type { Entry } from './upstream.ts'

interface Expected {
  name: string
  /** Of a commit or a sync. */
  rev?: string
  isCommit?: boolean
  hasCome?: boolean
  /** It was written while the account was hidden, and need not come. */
  isHidden?: boolean
  /** Of an event that is no commit. */
  body?: EventBody
  /** Of an operation. */
  collection?: string
  /** Its collection was not watched all the time since, or its account has another key since, and it need not come. */
  isOptional?: boolean
  /** Its collection was not watched at any time since, and it must not come. */
  isUnwanted?: boolean
}

/** Hashes of records by their paths. */
type Records = ReadonlyMap<string, string>

const actions = { create: 1, update: 2, delete: 3 } as const

export class AccountModel {
  readonly #expected: Expected[] = []
  /** How many of them have come, or were replaced. */
  #come = 0
  /** Of the newest commit that has come. */
  #newestRev = ''
  /** The records at each revision, and at the newest one. */
  readonly #records = new Map<string, Records>()
  #newest: Records = new Map()
  /** What the rows say. */
  readonly #table = new Map<string, string>()
  /** Of which revision the newest row of each record is, since all of them came again. */
  readonly #rowRevs = new Map<string, string>()
  /** The repository that was written last, and which of its records were. */
  #refill: { rev: string; paths: Set<string> } = { rev: '', paths: new Set() }
  /** The revision of a repository that was begun, while nothing is a reason to begin it anew. */
  #half = ''
  /** Revision of a repository that was written, whose rows may still be on their way to be shown. */
  #whole = ''
  /** Events up to here may have been replaced. */
  #replacedRev = ''
  /** Its repository may be written as a whole: something of it may be missing. */
  mayRefill = false

  /** What the relay does not pass on gives no rows. What it says while the account is hidden gives none as a rule. */
  expectCommit(
    { rev, ops, blocks }: SignedCommit,
    watched: ReadonlySet<string>,
    { isPassedOn, isHidden }: { isPassedOn: boolean; isHidden: boolean },
  ): void {
    const records = new Map(this.#newest)
    for (const { action, path, cid } of ops) {
      const collection = collectionOf(path)
      const isUnwanted = !watched.has(collection)
      const record = cid && blocks.find((block) => Buffer.from(block.cid).equals(cid))?.bytes
      const hash = hashOf(record ?? new Uint8Array(0))
      if (action === 'delete') records.delete(path)
      else records.set(path, hash)
      if (isPassedOn)
        this.#expected.push({
          name: `${rev} ${actions[action]} ${path} ${hash}`,
          rev,
          isCommit: true,
          isHidden,
          collection,
          isOptional: isUnwanted,
          isUnwanted,
        })
    }
    this.#newest = records
    this.#records.set(rev, records)
    this.mayRefill ||= !isPassedOn
  }

  expectMarker({ kind, time, body }: Entry): void {
    const sent = { ...body, time }
    if (kind !== 'sync') this.#expected.push({ name: `${kind} ${time}`, body: sent })
    else this.#expected.push({ name: `sync ${String(body['rev'])}`, rev: String(body['rev']), body: sent })
  }

  /** Commits and syncs that did not come yet are signed with a key that its document does not name any more. */
  mayBeRefused(): void {
    this.mayBeginAnew()
    for (const each of this.#expected) if (each.rev !== undefined && !each.hasCome) each.isOptional = true
    // What was refused is missing when the next commit comes.
    this.mayRefill = true
  }

  /** A commit or sync is left out, because a takedown that comes after it does not wait for long. */
  leaveOut(rev: string): void {
    if (!this.#expected.some(({ hasCome, body }) => hasCome !== true && body?.['status'] === 'takendown'))
      return
    for (const each of this.#expected) if (each.rev === rev && !each.hasCome) each.isOptional = true
    this.mayRefill = true
  }

  /** A collection is watched from now on, or not any more. */
  changeWatched(collection: string, isWatched: boolean): void {
    for (const each of this.#expected) {
      if (each.collection !== collection || each.hasCome) continue
      each.isOptional = true
      if (isWatched) each.isUnwanted = false
    }
    this.mayBeginAnew()
    // What could not be told from what is missing is read again.
    this.mayRefill = true
  }

  /** What was written of its repository may have to be written again. */
  mayBeginAnew(): void {
    this.#half = ''
  }

  /** Its repository of a revision was written, also if there was nothing to be written. */
  whole(rev: string): void {
    this.#half = ''
    this.#whole = rev
    this.#replace(rev)
  }

  #replace(rev: string): void {
    if (rev > this.#replacedRev) this.#replacedRev = rev
  }

  /** A row that comes next. @returns what is wrong with it. */
  take(row: Row): string | undefined {
    const path = `${row.collection}/${row.rkey}`
    const before = { isThere: this.#table.has(path), rev: this.#rowRevs.get(path) ?? '' }
    this.#fold(row)
    if (isOurSync(row)) return this.#beginRefill(row.rev)
    const name = nameOf(row)
    if (row.kind === rowKind.createResync) return this.#takeRecord(row)
    const at = this.#expected.findIndex((each, i) => i >= this.#come && each.name === name)
    if (at >= 0 && this.#expected.slice(this.#come, at).every((each) => this.#isReplaced(each))) {
      this.#come = at + 1
      const come = this.#expected[at]
      if (come?.isUnwanted) return `is ${name}, of a collection that is not watched`
      if (come?.body && !isAsSent(row, come.body)) return `is ${name}, and not as it was sent`
      if (come) Object.assign(come, { hasCome: true, isHidden: false, isOptional: false })
      if (row.kind <= rowKind.delete) this.#newestRev = row.rev
      if (row.kind <= rowKind.delete) this.mayBeginAnew()
      const isOld = row.kind <= rowKind.delete && row.rev < this.#refill.rev
      return isOld ? `is of ${row.rev}, and comes after the repository of ${this.#refill.rev}` : undefined
    }
    // After a kill it may come again when the account is known to be back, or its collection is watched.
    const late = this.#expected.findIndex(
      (each, i) => i < this.#come && mayBeLate(each) && each.name === name,
    )
    if (late >= 0 && row.rev >= this.#newestRev && row.rev >= this.#refill.rev) {
      this.#newestRev = row.rev
      this.#expected.splice(late, 1)
      this.#come--
      return undefined
    }
    if (row.kind === rowKind.create && this.#records.has(row.rev)) {
      if (this.#refill.rev !== row.rev) {
        this.#refill = { rev: row.rev, paths: new Set() }
        this.#half = row.rev
      }
      this.#replace(row.rev)
      if (before.isThere) return `is ${path}, which is there already and was not taken back`
      if (row.rev < before.rev) return `is ${path} of ${row.rev}, and comes after its row of ${before.rev}`
      return this.#takeRecord(row)
    }
    return `is ${name}, and not ${this.#expected[this.#come]?.name}`
  }

  /** What did not come yet. */
  missing(): string | undefined {
    return this.#expected.slice(this.#come).find((each) => !this.#isReplaced(each))?.name
  }

  /** In what rows of some collections differ from the repository, by default those that were shown. */
  difference(collections: ReadonlySet<string>, table: Records = this.#table): string | undefined {
    const [has, holds] = [table, this.#newest].map((records) =>
      [...records]
        .filter(([path]) => collections.has(collectionOf(path)))
        .map((entry) => entry.join(' '))
        .toSorted(),
    )
    return has?.join() === holds?.join() ? undefined : `rows say ${has?.join()}, its host ${holds?.join()}`
  }

  #beginRefill(rev: string): string | undefined {
    if (!this.mayRefill) return `begins its repository of ${rev} again, though nothing is missing`
    if (rev < this.#refill.rev) return `begins its repository of ${rev} after that of ${this.#refill.rev}`
    if (rev === this.#half && rev !== this.#whole)
      return `begins its repository of ${rev} again, which is half written`
    this.#refill = { rev, paths: new Set() }
    this.#half = rev
    this.#replace(rev)
    return undefined
  }

  #takeRecord(row: Row): string | undefined {
    const { rev, paths } = this.#refill
    const path = `${row.collection}/${row.rkey}`
    if (row.rev !== rev) return `is a record of ${row.rev} within the repository of ${rev}`
    if (this.#records.get(rev)?.get(path) !== hashOf(row.payload))
      return `is ${path}, as it was not at ${rev}`
    if (paths.has(path)) return `is ${path} of ${rev} once more`
    paths.add(path)
    return undefined
  }

  #isReplaced({ rev, isCommit, isHidden = false, isOptional = false }: Expected): boolean {
    if (isHidden || isOptional) return true
    if (rev === undefined) return false
    return isCommit ? rev <= this.#replacedRev : rev < this.#replacedRev
  }

  #fold(row: Row): void {
    foldInto(this.#table, row)
    if (isOurSync(row)) this.#rowRevs.clear()
    else this.#rowRevs.set(`${row.collection}/${row.rkey}`, row.rev)
  }
}

/** A1 and A5: whether the payload of a marker is the event, in its one canonical form. Its number may have changed. */
function isAsSent({ payload }: Row, body: EventBody): boolean {
  const { seq } = decode(payload) as { seq: number } // a marker's payload is the event
  return Buffer.from(encode({ ...body, seq })).equals(payload)
}

/** Whether an operation whose turn is past may give its row yet. */
function mayBeLate({ hasCome = false, isHidden, isOptional, isUnwanted = false }: Expected): boolean {
  return !hasCome && !isUnwanted && (isHidden === true || isOptional === true)
}

/** Does to the records of an account what a row says. */
export function foldInto(table: Map<string, string>, row: Row): void {
  const path = `${row.collection}/${row.rkey}`
  if (isOurSync(row)) table.clear()
  else if (row.kind === rowKind.delete) table.delete(path)
  else if (row.kind < rowKind.delete || row.kind === rowKind.createResync)
    table.set(path, hashOf(row.payload))
}

/** Whether all records of an account come again after a row. */
export function isOurSync({ kind, payload }: Row): boolean {
  return kind === rowKind.sync && (decode(payload) as { seq: number }).seq === 0 // a marker's payload is the event
}

/** What tells a row apart from the others of its account. */
export function nameOf({ kind, rev, collection, rkey, payload }: Row): string {
  if (kind < rowKind.identity || kind === rowKind.createResync)
    return `${rev} ${kind} ${collection}/${rkey} ${hashOf(payload)}`
  const { time } = decode(payload) as { time: string } // a marker's payload is the event
  return kind === rowKind.sync
    ? `sync ${rev}`
    : `${kind === rowKind.identity ? 'identity' : 'account'} ${time}`
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64').slice(0, 12)
}
