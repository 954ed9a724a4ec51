/** Which source may bring what the host of an account says. */
import { hasFallenSilent } from '../pipeline/decide.ts'
import type { SourceSet } from '../sources/source-set.ts'
import type { Source } from '../sources/source.ts'
import type { Account } from '../state/account.ts'

export type Sources = Pick<SourceSet, 'byHost' | 'byId' | 'isBanned' | 'sources'>

/** The source that spoke for the account last, or the relay that named it while none had. */
export function lastOf(sources: Sources, { sourceId, namedBy }: Account): Source | undefined {
  return sources.byId(sourceId) ?? (namedBy === undefined ? undefined : sources.byId(namedBy))
}

/**
 * The source that may bring what the account's host says: this host itself, or a relay that forwards its events.
 * Undefined when no source may that is wanted.
 * @param cause host of the source whose message was left out.
 * @param host undefined while the account's document was not read: then the source that brought the account in.
 */
export function speakerOf(
  sources: Sources,
  account: Account,
  cause: string,
  host: string | undefined,
): Source | undefined {
  const direct = sources.byHost(host ?? '')
  if (direct?.isWanted) return direct
  const [known, bringer] = [lastOf(sources, account), sources.byHost(cause)]
  // While nobody has spoken for the account, a relay that named it holds back no other source that brings it.
  const speaker = known?.isWanted === false && account.sourceId === 0 ? bringer : (known ?? bringer)
  // A relay named the account since it has left its PDS, or since nobody reads this PDS any more, or brings what is asked for.
  const other = sources.byId(account.namedBy ?? 0) ?? bringer
  const last = hasFallenSilent(speaker, host) ? other : speaker
  if (!last?.isWanted) return undefined
  const mayBring = host === undefined || (last.policy.kind === 'relay' && !sources.isBanned(host))
  return mayBring ? last : undefined
}

/** The source itself, or a relay that is read when the source is a PDS that was removed. */
export function bringerOf(sources: Sources, source: Source): Source | undefined {
  if (source.isWanted) return source
  const { desired, kind } = source.policy
  if (desired !== 'removed' || kind !== 'pds' || source.bannedDomain !== undefined) return undefined
  const all = [...sources.sources]
  return all.find(({ isWanted, policy, reading }) => policy.kind === 'relay' && isWanted && reading.isOpen)
}
