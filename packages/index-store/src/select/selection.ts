/** What a page asks for, and what it gets. */
import type { Did, EntryKind, QualityLabel } from '@tributary/protocol'
import type { AccountReport } from './account.ts'

/** A place in the order of a feed: feed time in microseconds since 1970, then address. The record need not exist. */
export interface Position {
  readonly feedTime: bigint
  readonly uri: string
}

/** Which organizations a page may show: those with one of these labels and, if asked for, those without any. */
export interface QualityRule {
  readonly allowed: readonly string[]
  readonly includeUnrated: boolean
}

export interface LabelView {
  /** The labelers whose labels count. */
  readonly labelers: readonly Did[]
  /** Microseconds since 1970: labels that have expired by then do not count. */
  readonly now: bigint
}

export interface Selection extends LabelView {
  readonly viewer: Did
  readonly evaluators: readonly Did[]
  readonly quality?: QualityRule
  /** Absent for every kind. */
  readonly kinds?: readonly EntryKind[]
  /** Absent for the first page. */
  readonly after?: Position
  readonly limit: number
}

export interface SelectedEntry extends Position {
  readonly did: Did
  readonly kind: EntryKind
}

export interface SelectedView extends SelectedEntry {
  /** What is shown of its record, as JSON; null when the record must not be shown. */
  readonly view: string | null
}

/** What the index holds about one account: the handle, and name and avatar by the two profiles as JSON. */
export interface ActorSource {
  handle?: string
  attested?: string
  social?: string
}

export interface ReasonsQuery extends LabelView {
  readonly viewer: Did
  /** Those that the request named. */
  readonly evaluators: readonly Did[]
  /** Accounts with entries. One page of them, because all is read at once. */
  readonly dids: readonly Did[]
}

/** What speaks for one account. */
export interface Reasons {
  /** Addresses of the viewer's follow records. */
  readonly follows: string[]
  readonly endorsedBy: Did[]
  isOrganization: boolean
  /** Active labels of the labelers that count, which the quality rule looks at for an organization. */
  readonly labels: { readonly val: QualityLabel; readonly src: Did }[]
}

/** One state of the index. It goes with the call of `snapshot` that gave it. */
export interface IndexView {
  /** The newest entries that a page may show, at most `limit`, newest first. */
  entries(selection: Selection): Promise<SelectedEntry[]>
  /** The same entries, with what is shown of them. */
  views(selection: Selection): Promise<SelectedView[]>
  /** Throws when the tables of pages cannot be read. */
  probe(): Promise<void>
  /** Sources by account; an account of which the index holds nothing is absent. */
  actors(dids: readonly Did[]): Promise<ReadonlyMap<Did, ActorSource>>
  /** What speaks for accounts on a viewer's page; an account that nothing speaks for is absent. */
  reasons(query: ReasonsQuery): Promise<ReadonlyMap<Did, Reasons>>
  /** All that there is of one account, counted. */
  account(did: Did): Promise<AccountReport>
  /** Accounts whose handle is to be looked up. @param countedMax given also when there are more */
  waitingHandles(countedMax: number): Promise<number>
}
