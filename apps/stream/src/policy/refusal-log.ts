import { LogTable, type LogQuery } from '@tributary/operations/logs'
import { systemClock, type Clock } from '@tributary/lanes'
import { KeyedRate } from '@tributary/rates'
import type { RepoStates } from '../ingest/repo-states.ts'
import type { StateDatabase } from '../state-database.ts'

/** An event of the relay, or an operation of one, that gave no row. */
export interface Refusal {
  reason: string
  detail: string
  did?: string | undefined
  /** `commit` and its like, where it could be read. */
  kind?: string | undefined
  upstreamSeq?: number | undefined
}

export interface RefusalRow {
  atMs: number
  reason: string
  kind: string | null
  did: string | null
  upstreamSeq: number | null
  detail: string
}

/** These come with every restart of ours or of the relay, and nothing is lost by them. */
const harmless: ReadonlySet<string> = new Set(['stale-rev', 'repeat'])
const ageMsMax = 7 * 24 * 3_600_000
/** Rows of one reason between two saves, which are a second apart. More are only counted. */
const rowsPerSaveMax = 200
/** What is kept of one account, which may have itself refused as often as it likes. */
const perAccount = { max: 30, windowMs: 3_600_000, keysMax: 10_000 }
const detailCharsMax = 256

/**
 * What was refused lately, for operators to read: whose event, and why, never what it held. Kept in the state, with its
 * saves. Each reason has a share of it, so that a flood for one does not push out what is known of others.
 */
export class RefusalLog {
  readonly #table: LogTable<RefusalRow>
  readonly #states: Pick<RepoStates, 'alongside'>
  readonly #clock: Clock
  readonly #ofAccounts = new KeyedRate<string>(perAccount)
  #pending: RefusalRow[] = []
  readonly #pendingOf = new Map<string, number>()

  constructor(database: StateDatabase, states: Pick<RepoStates, 'alongside'>, clock: Clock = systemClock) {
    this.#states = states
    this.#clock = clock
    this.#table = new LogTable<RefusalRow>(database, {
      table: 'refusals',
      columns: {
        atMs: 'at_ms',
        reason: 'reason',
        kind: 'kind',
        did: 'did',
        upstreamSeq: 'upstream_seq',
        detail: 'detail',
      },
      share: 'reason',
      rowsPerShareMax: 5000,
      ageMsMax,
    })
  }

  note({ reason, detail, did, kind, upstreamSeq }: Refusal): void {
    if (harmless.has(reason)) return
    const atMs = this.#clock.nowMs()
    const pending = this.#pendingOf.get(reason) ?? 0
    if (pending >= rowsPerSaveMax) return
    if (did !== undefined && this.#ofAccounts.take(did, atMs) > 0) return
    if (this.#pending.length === 0) this.#states.alongside(() => this.#store())
    this.#pendingOf.set(reason, pending + 1)
    const said = detail.slice(0, detailCharsMax)
    this.#pending.push({
      atMs,
      reason,
      kind: kind ?? null,
      did: did ?? null,
      upstreamSeq: upstreamSeq ?? null,
      detail: said,
    })
  }

  /** Newest first, of the last seven days. What was refused since the last save is not there yet. */
  list(query: LogQuery<RefusalRow>): (RefusalRow & { id: number })[] {
    return this.#table.list(query, this.#clock.nowMs() - ageMsMax)
  }

  #store(): void {
    this.#table.add(this.#pending, this.#clock.nowMs())
    this.#pending = []
    this.#pendingOf.clear()
  }
}
