/** Why entries are in a viewer's feed, by what the index database holds now. */
import { openIndexReader, type Reasons } from '@tributary/index-store'
import { type Did, isDid } from '@tributary/protocol'
import { indexFromSettings } from '../settings-places.ts'

export interface ExplainOptions {
  databasePath?: string
  labelers?: string[]
}

/** What the feed was asked for, as far as it decides who is in it. */
export interface Asked {
  viewer: string
  evaluators: readonly string[]
  quality: readonly string[] | undefined
  kinds: readonly string[] | undefined
}

/** Time to read what speaks for the accounts of some pages. */
const readMs = 60_000

/**
 * Reads the reasons for the accounts of these records, by account, and says whether any labeler is known whose ratings count.
 * @throws what the index store throws.
 */
export async function reasonsFor(
  subjects: readonly string[],
  { viewer, evaluators }: Asked,
  { databasePath, labelers }: ExplainOptions,
): Promise<{ reasons: ReadonlyMap<string, Reasons>; hasLabelers: boolean }> {
  const settings = indexFromSettings('feed show', [
    ...(databasePath === undefined ? [] : [`--database-path=${databasePath}`]),
    ...(labelers === undefined ? [] : [`--labelers=${labelers.join(',')}`]),
  ])
  await using reader = openIndexReader(settings.place)
  const query = {
    viewer: viewer as Did, // the feed took it for one
    evaluators: evaluators as Did[], // likewise
    labelers: settings.labelers as Did[], // their pattern is that of a DID
    dids: [...new Set(subjects.map(accountOf))].filter((did) => isDid(did)),
    now: BigInt(Date.now()) * 1000n,
  }
  const reasons = await reader.snapshot({ timeoutMs: readMs }, (view) => view.reasons(query))
  return { reasons, hasLabelers: query.labelers.length > 0 }
}

/** Whether somebody whom the viewer follows or trusts brings the account in. */
export function isSpokenFor(reasons: Reasons | undefined): reasons is Reasons {
  return reasons !== undefined && reasons.follows.length + reasons.endorsedBy.length > 0
}

/**
 * In words: who brings the account in, what the quality rule says of it, and whether the kind was asked for.
 * @param hasLabelers whether any labeler is known whose ratings count.
 */
export function because(
  reasons: Reasons | undefined,
  { quality, kinds }: Asked,
  hasLabelers: boolean,
): string {
  if (!isSpokenFor(reasons)) return 'nothing in the index database speaks for it now'
  const { follows, endorsedBy, isOrganization, labels } = reasons
  const rated = labels.map(({ val, src }) => `rated ${val} by ${src}`).join(', ')
  const unrated = hasLabelers ? 'not rated' : 'ratings not looked at'
  const organization = isOrganization ? `an organization, ${rated || unrated}` : 'no organization'
  return [
    ...(follows.length > 0 ? ['followed'] : []),
    ...(endorsedBy.length > 0 ? [`endorsed by ${endorsedBy.join(', ')}`] : []),
    ...(quality || isOrganization ? [organization] : []),
    ...(kinds ? ['of a kind that was asked for'] : []),
  ].join('; ')
}

/** Whose record an address names. */
export function accountOf(subject: string): string {
  return subject.split('/')[2] ?? ''
}
