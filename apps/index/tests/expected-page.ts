import type { QualityRule } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import type { Shown } from './reference.ts'

/** A page's parameters, as far as the rules without labels go. */
export interface Asked {
  viewer: Did
  evaluators: readonly Did[]
  /** Every kind when there are none. */
  kinds: readonly string[]
  /** Without labels every organization is unrated. */
  quality?: QualityRule | undefined
}

/** The entries of the accounts in scope by feed time and address, without any index (feed.md sections 4, 6 and 7). */
export function expectedPage(
  { entries, follows, endorsements, organizations }: Shown,
  { viewer, evaluators, kinds, quality }: Asked,
): string[] {
  const scope = new Set<string>([
    ...follows.flatMap(([from, subject = '']) => (from === viewer ? [subject] : [])),
    ...endorsements.flatMap(([issuer, subject]) => (evaluators.includes(issuer) ? [subject] : [])),
  ])
  scope.delete(viewer)
  if (quality?.includeUnrated === false) for (const organization of organizations) scope.delete(organization)
  return entries
    .filter(([uri]) => scope.has(uri.split('/')[2] ?? ''))
    .filter(([, kind]) => kinds.length === 0 || kinds.some((wanted) => wanted === kind))
    .toSorted(([a, , aTime], [b, , bTime]) => (aTime === bTime ? (a < b ? 1 : -1) : aTime < bTime ? 1 : -1))
    .map(([uri]) => uri)
}
