/**
 * All that has become visible, held against what the relay sent: of each account every row, once and in its order, and
 * no number twice, whatever stopped in between.
 */
import { createHash } from 'node:crypto'
import { decode } from '@atcute/cbor'
import { rowKind, type Row } from '@tributary/segment'
import type { SignedCommit } from '@tributary/testkit'
import type { RecoveredRows } from '../../src/archive/archive.ts'
import type { Archive } from '../../src/archive/archive.ts'
import type { Entry } from './upstream.ts'

/** A row as readers see it. */
export interface Shown {
  seq: number
  row: Row
  atMs: number
}

const actions = { create: 1, update: 2, delete: 3 } as const

export class Ledger {
  readonly broken: string[] = []
  /** What happened, in order. */
  readonly trace: string[] = []
  readonly rows: Shown[] = []
  /** Since when, and until when, accounts are or were hidden the last time. */
  readonly hidden = new Map<string, { fromMs: number; untilMs: number }>()
  readonly #expected = new Map<string, string[]>()
  /** How many of them have come. */
  readonly #come = new Map<string, number>()
  readonly #nowMs: () => number
  #witnessedAt = 0

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  get lastSeq(): number {
    return this.rows.at(-1)?.seq ?? 0
  }

  onBroken(what: string): void {
    this.broken.push(what)
    this.note(`broken: ${what}`)
  }

  note(what: string): void {
    this.trace.push(`${this.#nowMs()} ${what}`)
  }

  /** Operations on collections that are watched have to give rows. */
  expectCommit({ did, rev, ops, blocks }: SignedCommit, isWatched: (collection: string) => boolean): void {
    for (const { action, path, cid } of ops) {
      if (!isWatched(path.slice(0, path.indexOf('/')))) continue
      const record = cid && blocks.find((block) => Buffer.from(block.cid).equals(cid))?.bytes
      this.#expect(did, `${rev} ${actions[action]} ${path} ${hashOf(record ?? new Uint8Array(0))}`)
    }
  }

  expectMarker({ did, kind, time, body }: Entry): void {
    this.#expect(did, kind === 'sync' ? `sync ${String(body['rev'])}` : `${kind} ${time}`)
  }

  /** A row that everybody can read from now on. */
  show(row: Row): void {
    const { seq, did, witnessedAt } = row
    if (seq <= this.lastSeq) this.onBroken(`seq ${seq} comes after ${this.lastSeq}`)
    if (witnessedAt < this.#witnessedAt) this.onBroken(`the time of ${seq} goes back`)
    this.#witnessedAt = Math.max(this.#witnessedAt, witnessedAt)
    const at = this.#come.get(did) ?? 0
    const wanted = this.#expected.get(did)?.[at]
    const name = nameOf(row)
    if (name !== wanted) this.onBroken(`row ${seq} of ${did} is ${name}, and not ${wanted}`)
    this.#come.set(did, at + 1)
    if (row.kind === rowKind.account) this.#hide(row)
    this.rows.push({ seq, row: { ...row, payload: Uint8Array.from(row.payload) }, atMs: this.#nowMs() })
  }

  /** What a start finds, against what was there before. */
  async started(archive: Archive, { pending }: RecoveredRows): Promise<void> {
    const found = new Map<number, Row>()
    const add = (row: Row): void => {
      if (found.has(row.seq)) this.onBroken(`row ${row.seq} is there twice after the start`)
      found.set(row.seq, row)
    }
    const { blockSeq } = archive
    for (const row of await storedRows(archive)) if (row.seq <= blockSeq) add(row)
    for (const { row } of pending) add(row)
    for (const { seq, row } of this.rows) {
      const kept = found.get(seq)
      if (!kept) this.onBroken(`row ${seq} was shown, and is gone after the start`)
      else if (nameOf(kept) !== nameOf(row)) this.onBroken(`row ${seq} is another one after the start`)
    }
    // What was durable and was not shown before the end is shown from now on.
    const { lastSeq } = this
    for (const row of found.values()) if (row.seq > lastSeq) this.show(row)
  }

  /** What did not come yet. */
  missing(): string[] {
    return [...this.#expected].flatMap(([did, names]) => {
      const come = this.#come.get(did) ?? 0
      return come < names.length ? [`of ${did} ${names[come]} did not come`] : []
    })
  }

  #hide({ did, payload }: Row): void {
    const { active } = decode(payload) as { active: boolean } // a marker's payload is the event
    const nowMs = this.#nowMs()
    const before = this.hidden.get(did)
    const wasHidden = before?.untilMs === Infinity
    if (!active && !wasHidden) this.hidden.set(did, { fromMs: nowMs, untilMs: Infinity })
    else if (active && wasHidden) before.untilMs = nowMs
  }

  #expect(did: string, name: string): void {
    const names = this.#expected.get(did) ?? []
    this.#expected.set(did, names)
    names.push(name)
  }
}

/** What tells a row apart from the others of its account. */
function nameOf({ kind, rev, collection, rkey, payload }: Row): string {
  if (kind <= 3) return `${rev} ${kind} ${collection}/${rkey} ${hashOf(payload)}`
  const { time } = decode(payload) as { time: string } // a marker's payload is the event
  return kind === 6 ? `sync ${rev}` : `${kind === 4 ? 'identity' : 'account'} ${time}`
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64').slice(0, 12)
}

async function storedRows({ segments }: Archive): Promise<Row[]> {
  const rows: Row[] = []
  for (let seq = 0; ;) {
    const place = segments.firstBlockAfter(seq)
    if (!place) return rows
    rows.push(...(await segments.readBlock(place)).rows())
    seq = place.entry.maxSeq
  }
}
