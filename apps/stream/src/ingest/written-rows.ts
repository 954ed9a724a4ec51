/**
 * What a stop left in the write-ahead log of events that the saved states do not account for. The relay sends these
 * events again, perhaps only much later and under other numbers, so this is kept with the state of each repository
 * until they come.
 */
import { createHash, hash } from 'node:crypto'
import { decode } from '@atcute/cbor'
import { type Row, rowKind } from '@tributary/segment'
import { isHidden, leavesArchive } from '../delivery/hidden-accounts.ts'
import { broughtLive } from './archived-records.ts'
import { markerPath } from './repo-refill.ts'
import { type RepoStates, unknownRepo } from './repo-states.ts'

/** What names an event of an account, whatever number the relay gives it. */
export type EventName =
  | { kind: 'commit' | 'sync'; rev: string }
  | { kind: 'identity'; time: string; handle?: string | undefined }
  | { kind: 'account'; time: string; active: boolean; status?: string | undefined }

/** The longest handle there is, and more than a status has. */
const textCharsMax = 253

/** The name as text of some hundred characters at most, which only the event itself has among those of its account. */
export function eventName(event: EventName): string {
  switch (event.kind) {
    case 'commit':
    case 'sync':
      return `${event.kind} ${event.rev}`
    case 'identity':
      return `identity ${event.time} ${shortened(event.handle)}`
    case 'account':
      return `account ${event.time} ${event.active} ${shortened(event.status)}`
  }
}

/** Names are kept with the states. What a host says may have megabytes: its hash stands for it then. */
function shortened(text = ''): string {
  return text.length <= textCharsMax ? text : createHash('sha256').update(text).digest('hex')
}

/** What rows say that the saved states do not account for, beside what is noted with the states. */
export interface Unapplied {
  /** The seq of the newest row of each account that hides it. */
  hiddenAt: ReadonlyMap<string, number>
  /** Accounts that were taken down. */
  takenDown: ReadonlySet<string>
}

/** Adds rows that the saved states do not account for to the states. */
export function noteWritten(states: RepoStates, unapplied: readonly Row[]): Unapplied {
  const hiddenAt = new Map<string, number>()
  const takenDown = new Set<string>()
  for (const [did, rows] of Map.groupBy(unapplied, ({ did }) => did)) {
    const state = states.get(did) ?? unknownRepo
    const noted = new Map(state.written.map((each) => [each.event, each]))
    let { isHidden: wasHidden, isTakenDown, needsRefetch } = state
    let isKnown = state.rev !== '' || state.backfillRev !== ''
    for (const row of rows) {
      if (row.kind === rowKind.account) {
        const account = accountOf(row)
        const hidden = isHidden(account)
        // As `EventFold` does: what an account that is back wrote meanwhile has to be read.
        needsRefetch ||= wasHidden && !hidden && isKnown
        wasHidden = hidden
        isTakenDown = hidden && (isTakenDown || leavesArchive(account))
        if (hidden) hiddenAt.set(did, row.seq)
        if (hidden && account.status === 'takendown') takenDown.add(did)
      }
      isKnown ||= row.rev !== ''
      const name = nameOfRow(row)
      const event = eventName(name)
      const isCommit = name.kind === 'commit'
      const { rows, paths } = noted.get(event) ?? { rows: 0, ...(isCommit && { paths: [] }) }
      const path = `${row.collection}/${row.rkey}`
      noted.set(event, { event, rows: rows + 1, ...(paths && { paths: [...paths, path] }) })
      // A backfill that goes on before the event comes again, or whose revision has the event refused as old, needs it too.
      if (isCommit) states.archived.note(did, path, broughtLive)
    }
    const written = [...noted.values()]
    // Hide or show the account now, because the event may come again only after another start.
    states.set(did, { ...state, isHidden: wasHidden, isTakenDown, needsRefetch, written })
    if (hiddenAt.has(did)) states.archived.forget(did)
  }
  return { hiddenAt, takenDown }
}

/**
 * Adds rows of backfills that the saved states do not account for: those backfills go on after them. A marker takes back
 * what was archived before it, and the saved state may not know why it was written.
 * @param hiddenAt as `noteWritten` returns it. What is before that row may have left the files, and is written again.
 */
export function noteBackfilled(
  states: RepoStates,
  unapplied: readonly Row[],
  { hiddenAt }: Pick<Unapplied, 'hiddenAt'> = { hiddenAt: new Map() },
): void {
  for (const { kind, did, collection, rkey, rev, payload, seq } of unapplied) {
    states.set(did, { ...(states.get(did) ?? unknownRepo), backfillRev: rev })
    if (seq < (hiddenAt.get(did) ?? 0)) {
      states.mark(did)
    } else if (kind === rowKind.sync) {
      states.archived.forget(did)
      states.archived.note(did, markerPath, rev)
      states.mark(did)
    } else {
      states.archived.note(did, `${collection}/${rkey}`, hash('sha256', payload, 'binary'))
    }
  }
}

function accountOf({ payload }: Row): { active: boolean; status?: string } {
  return decode(payload) as { active: boolean; status?: string } // checked before it became a row
}

function nameOfRow({ kind, rev, payload }: Row): EventName {
  if (kind === rowKind.identity || kind === rowKind.account) {
    const body = decode(payload) as { time: string; handle?: string; active: boolean; status?: string } // checked before it became a row
    return kind === rowKind.identity ? { ...body, kind: 'identity' } : { ...body, kind: 'account' }
  }
  return { kind: kind === rowKind.sync ? 'sync' : 'commit', rev }
}
