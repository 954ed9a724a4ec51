/**
 * What operators decided, in a database of its own: which sources there are and what is allowed to them, bans,
 * takedowns, limits, positions. It is small and changes seldom, so it is read and written at once, and durable when a
 * call returns.
 *
 * Always holds: the id of a source is never given to another host, since it stands in the event log; a source that was
 * removed keeps its row. Accounts, and how far sources are read, are in the state beside the log, which can be folded
 * again; this cannot.
 */
import { randomUUID } from 'node:crypto'
import Database from 'better-sqlite3'
import type { Did } from '@tributary/protocol'
import type { RelayLimits } from './relay-limits.ts'
import { preparePolicy } from './policy-schema.ts'
import type { PolicySource, SourcePolicy } from './source-policy.ts'

export interface DomainBan {
  domain: string
  reason: string
  createdAtMs: number
}

/** Where an operator wants a source read from. */
export interface ChosenPosition {
  epoch: number
  cursor: number
}

export interface Takedown {
  did: Did
  status: 'takendown' | 'suspended'
  reason: string
  createdAtMs: number
}

const dayMs = 24 * 3_600_000

export class PolicyStore {
  readonly db: Database.Database
  #limits: RelayLimits
  #bannedDomains: Set<string>

  /** @param seed the limits of a relay that has none stored yet. */
  constructor(path: string, seed: RelayLimits) {
    this.db = new Database(path)
    preparePolicy(this.db)
    this.db.prepare('INSERT OR IGNORE INTO limits VALUES (1, 1, ?)').run(JSON.stringify(seed))
    this.#limits = seed
    this.#bannedDomains = new Set()
    this.reload()
  }

  /** Takes what is stored for what holds, which is to be done after a change of limits or bans is committed. */
  reload(): void {
    const stored = this.db.prepare<[], { value: string }>('SELECT value FROM limits').get()
    this.#limits = { ...this.#limits, ...(JSON.parse(stored?.value ?? '{}') as Partial<RelayLimits>) } // written here
    const bans = this.db.prepare<[], { domain: string }>('SELECT domain FROM domain_ban').all()
    this.#bannedDomains = new Set(bans.map(({ domain }) => domain))
  }

  close(): void {
    this.db.close()
  }

  get limits(): Readonly<RelayLimits> {
    return this.#limits
  }

  storeLimits(limits: RelayLimits): void {
    this.db.prepare('UPDATE limits SET value = ?, revision = revision + 1').run(JSON.stringify(limits))
  }

  sources(): PolicySource[] {
    return this.db
      .prepare<[], SourceRow>('SELECT id, host, url, policy, revision, added_at_ms FROM source ORDER BY id')
      .all()
      .map(({ id, host, url, policy, revision, added_at_ms }) => ({
        id,
        host,
        url,
        policy: JSON.parse(policy) as SourcePolicy, // written here
        revision,
        addedAtMs: added_at_ms,
      }))
  }

  /** @param options.id only for a source that has one from before. */
  insertSource(
    { host, url }: { host: string; url: string },
    policy: SourcePolicy,
    { countsForDay, id, nowMs = Date.now() }: { countsForDay: boolean; id?: number; nowMs?: number },
  ): PolicySource {
    const { lastInsertRowid } = this.db
      .prepare('INSERT INTO source VALUES (?, ?, ?, ?, 1, ?, ?)')
      .run(id ?? null, host, url, JSON.stringify(policy), nowMs, countsForDay ? 1 : 0)
    return { id: Number(lastInsertRowid), host, url, policy, revision: 1, addedAtMs: nowMs }
  }

  /** Returns the source's new revision. */
  updateSource(id: number, policy: SourcePolicy): number {
    const row = this.db
      .prepare<[string, number], { revision: number }>(
        'UPDATE source SET policy = ?, revision = revision + 1 WHERE id = ? RETURNING revision',
      )
      .get(JSON.stringify(policy), id)
    return row?.revision ?? 0
  }

  /** Keeps where a source is to be read from, until the state, which is written later, has it too. */
  storePosition(sourceId: number, { epoch, cursor }: ChosenPosition): void {
    this.db.prepare('INSERT OR REPLACE INTO source_position VALUES (?, ?, ?)').run(sourceId, epoch, cursor)
  }

  positionOf(sourceId: number): ChosenPosition | undefined {
    return this.db
      .prepare<[number], ChosenPosition>('SELECT epoch, cursor FROM source_position WHERE source_id = ?')
      .get(sourceId)
  }

  /** Before every source is read from its oldest event again. */
  forgetPositions(): void {
    this.db.exec('DELETE FROM source_position')
  }

  /**
   * New sources that may still be added now. Those that were added at a date more than a day ahead do not count: the date
   * was wrong then.
   * @returns in `retryAfterMs`, when there is none left, the time until there is one.
   */
  newSourcesLeft(nowMs: number = Date.now()): { left: number; retryAfterMs: number } {
    const max = this.#limits.newSourcesPerDay
    const since = nowMs - dayMs
    const added = this.db
      .prepare<[number, number], { added_at_ms: number }>(
        `SELECT added_at_ms FROM source WHERE counts_for_day AND added_at_ms > ? AND added_at_ms < ?
         ORDER BY added_at_ms DESC`,
      )
      .all(since, nowMs + dayMs)
    const left = Math.max(0, max - added.length)
    // The one that has to be a day old before the next may come.
    const blocking = added[max - 1]?.added_at_ms
    return { left, retryAfterMs: left > 0 ? 0 : (blocking ?? nowMs) - since }
  }

  /** The banned domain that covers a host: itself or one above it. */
  bannedDomainOf(host: string): string | undefined {
    const labels = host.replace(/:\d+$/, '').split('.')
    return labels.map((_, at) => labels.slice(at).join('.')).find((name) => this.#bannedDomains.has(name))
  }

  listDomainBans(after: string, limit: number): DomainBan[] {
    return this.db
      .prepare<[string, number], DomainBan>(`${selectDomainBans} WHERE domain > ? ORDER BY domain LIMIT ?`)
      .all(after, limit)
  }

  domainBanOf(domain: string): DomainBan | undefined {
    return this.db.prepare<[string], DomainBan>(`${selectDomainBans} WHERE domain = ?`).get(domain)
  }

  putDomainBan(domain: string, reason: string, nowMs: number = Date.now()): void {
    this.db
      .prepare(
        'INSERT INTO domain_ban VALUES (?, ?, ?) ON CONFLICT (domain) DO UPDATE SET reason = excluded.reason',
      )
      .run(domain, reason, nowMs)
  }

  /** False when it was not banned. */
  deleteDomainBan(domain: string): boolean {
    return this.db.prepare('DELETE FROM domain_ban WHERE domain = ?').run(domain).changes > 0
  }

  takedownOf(did: Did): Takedown | undefined {
    return this.db.prepare<[string], Takedown>(`${selectTakedowns} AND did = ?`).get(did)
  }

  listTakedowns(after: string, limit: number): Takedown[] {
    return this.db
      .prepare<[string, number], Takedown>(`${selectTakedowns} AND did > ? ORDER BY did LIMIT ?`)
      .all(after, limit)
  }

  setTakedown(did: Did, { status, reason }: Pick<Takedown, 'status' | 'reason'>): void {
    this.db
      .prepare('INSERT OR REPLACE INTO takedown VALUES (?, ?, ?, ?)')
      .run(did, status, reason, Date.now())
  }

  /**
   * Notes that a takedown is over. The note is kept until `forgetLifted`, since lifting it is done after this.
   * @returns the name of the note.
   */
  liftTakedown(did: Did): string {
    const note = randomUUID()
    this.db.prepare('INSERT OR REPLACE INTO takedown VALUES (?, ?, ?, ?)').run(did, lifted, note, Date.now())
    return note
  }

  /** Accounts whose takedown is over, which may not be done yet. */
  liftedTakedowns(): { did: Did; note: string }[] {
    return this.db
      .prepare<[string], { did: Did; note: string }>(
        'SELECT did, reason AS note FROM takedown WHERE status = ?',
      )
      .all(lifted)
  }

  /** The end of a takedown is done. One that was decided meanwhile has another note, which stays. */
  forgetLifted(did: Did, note: string): void {
    this.db.prepare('DELETE FROM takedown WHERE did = ? AND status = ? AND reason = ?').run(did, lifted, note)
  }
}

const lifted = 'active'
const selectDomainBans = 'SELECT domain, reason, created_at_ms AS createdAtMs FROM domain_ban'
const selectTakedowns = `SELECT did, status, reason, created_at_ms AS createdAtMs FROM takedown WHERE status <> '${lifted}'`

interface SourceRow {
  id: number
  host: string
  url: string
  policy: string
  revision: number
  added_at_ms: number
}
