import { parseDatetime, type QualityRule } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import type { Shown } from './reference.ts'

/** A page's parameters. */
export interface Asked {
  viewer: Did
  evaluators: readonly Did[]
  /** Every kind when there are none. */
  kinds: readonly string[]
  quality?: QualityRule | undefined
  /** All that trusted labelers said. Default: nothing, so that every organization is unrated. */
  labels?: readonly SaidLabel[] | undefined
  /** When the page is asked for. */
  nowMs?: number | undefined
}

/** A label or negation of one of the four qualities, on the bare DID of an account. */
export interface SaidLabel {
  readonly labeler: Did
  readonly did: Did
  readonly val: string
  readonly neg: boolean
  readonly cts: string
  readonly exp: string | undefined
}

/** The entries of the accounts in scope by feed time and address, without any index (feed.md sections 4, 6 and 7). */
export function expectedPage(
  { entries, follows, endorsements, organizations }: Shown,
  { viewer, evaluators, kinds, quality, labels = [], nowMs = 0 }: Asked,
): string[] {
  const scope = new Set<string>([
    ...follows.flatMap(([from, subject = '']) => (from === viewer ? [subject] : [])),
    ...endorsements.flatMap(([issuer, subject]) => (evaluators.includes(issuer) ? [subject] : [])),
  ])
  scope.delete(viewer)
  for (const organization of quality === undefined ? [] : organizations) {
    const active = activeLabels(labels, organization, nowMs)
    const isAllowed = active.some((label) => quality?.allowed.some((allowed) => allowed === label))
    if (!isAllowed && !(active.length === 0 && quality?.includeUnrated === true)) scope.delete(organization)
  }
  return entries
    .filter(([uri]) => scope.has(uri.split('/')[2] ?? ''))
    .filter(([, kind]) => kinds.length === 0 || kinds.some((wanted) => wanted === kind))
    .toSorted(([a, , aTime], [b, , bTime]) => (aTime === bTime ? (a < b ? 1 : -1) : aTime < bTime ? 1 : -1))
    .map(([uri]) => uri)
}

/** The values of an account's labels that count now (feed.md section 4.4.1). */
function activeLabels(labels: readonly SaidLabel[], did: Did, nowMs: number): string[] {
  const lasting = labels.filter((label) => label.did === did && isLasting(label, nowMs))
  const isNegated = ({ labeler, val, cts }: SaidLabel): boolean =>
    lasting.some(
      (other) =>
        other.neg && other.labeler === labeler && other.val === val && micros(other.cts) >= micros(cts),
    )
  return lasting.filter((label) => !label.neg && !isNegated(label)).map(({ val }) => val)
}

function isLasting({ exp }: SaidLabel, nowMs: number): boolean {
  return exp === undefined || micros(exp) > BigInt(nowMs) * 1000n
}

function micros(time: string): bigint {
  return parseDatetime(time) ?? 0n
}
