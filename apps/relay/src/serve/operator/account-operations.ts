/** The operator's methods about accounts: look-up, takedown, and asking again who they are and how they are. */
import { IdentityError } from '@tributary/identity'
import { datetime, pageOf, type Page } from '@tributary/operations'
import type { Did } from '@tributary/protocol'
import { XrpcError } from '@tributary/xrpc'
import { publicStatus, type Account, type LocalStatus } from '../../state/account.ts'
import { addProcedure, addQuery, type OperatorParts } from './operator-parts.ts'

export function addAccountOperations(parts: OperatorParts): void {
  const { server, accounts, recovery, operations, policy } = parts
  const knownAccount = (did: Did): Account => {
    const account = accounts.get(did)
    // A takedown may be all that is known of an account, after its state was built again.
    if (account && (account.sourceId !== 0 || account.localStatus !== undefined)) return account
    throw new XrpcError(400, 'RepoNotFound', `no event of ${did} has passed here`)
  }

  addQuery<{ did: Did }>(server, 'getAccount', ({ did }) => describeAccount(knownAccount(did), parts))
  addProcedure<{ did: Did; status: LocalStatus | 'active'; reason?: string }>(
    server,
    'updateAccountStatus',
    async ({ did, status, ...input }, request) =>
      await operations.run(request, () => () => {
        knownAccount(did)
        const takedown = policy.takedownOf(did)
        const before = takedown ?? { status: 'active' }
        const reason = input.reason ?? takedown?.reason ?? ''
        const note = status === 'active' ? policy.liftTakedown(did) : undefined
        if (status !== 'active') policy.setTakedown(did, { status, reason })
        return {
          subject: did,
          before,
          after: { status, reason },
          output: { did, status },
          effect: () => apply(parts, did, status, note),
        }
      }),
  )
  addQuery<Page>(server, 'listTakedowns', ({ limit, cursor = '' }) => {
    const { page, ...rest } = pageOf(policy.listTakedowns(cursor, limit + 1), limit, ({ did }) => did)
    const takedowns = page.map(({ createdAtMs, ...row }) => ({
      ...row,
      ...datetime('createdAt', createdAtMs),
    }))
    return { takedowns, ...rest }
  })
  addProcedure<{ did: Did }>(
    server,
    'refreshIdentity',
    async ({ did }, request) =>
      await operations.run(request, async () => {
        const { pdsHost, handle, fetchedAt } = await readIdentity(parts, did)
        const output = {
          did,
          ...(pdsHost !== undefined && { hostname: pdsHost }),
          ...(handle !== undefined && { handle }),
          fetchedAt: new Date(fetchedAt).toISOString(),
        }
        return () => ({ subject: did, after: output, output })
      }),
  )
  addProcedure<{ did: Did }>(
    server,
    'recheckAccount',
    async ({ did }, request) =>
      await operations.run(request, async () => {
        const before = { upstreamStatus: knownAccount(did).upstreamStatus }
        await recovery.recheck(did)
        const after = { upstreamStatus: knownAccount(did).upstreamStatus }
        return () => ({ subject: did, before, after, output: { did, ...after } })
      }),
  )
}

async function apply(
  { recovery, policy }: Pick<OperatorParts, 'recovery' | 'policy'>,
  did: Did,
  status: LocalStatus | 'active',
  note?: string,
): Promise<void> {
  await recovery.setLocalStatus(did, status === 'active' ? undefined : status)
  if (note !== undefined) policy.forgetLifted(did, note)
}

/** At start: what was decided of accounts, and not done before the process ended. */
export async function applyTakedowns(
  parts: Pick<OperatorParts, 'recovery' | 'accounts' | 'policy'>,
): Promise<void> {
  const { accounts, policy, recovery } = parts
  for (const { did, note } of policy.liftedTakedowns()) {
    const account = accounts.get(did)
    // The log may have lost the takedown. What was left out by it is missing all the same.
    if (account && account.sourceId !== 0 && account.localStatus === undefined) await recovery.letIn(account)
    await apply(parts, did, 'active', note)
  }
  for (let after = '', page; (page = policy.listTakedowns(after, 1000)).length > 0;) {
    for (const { did, status } of page) {
      const account = accounts.take(did)
      // What was known of the account may have been lost. It is left out as soon as it is known again.
      if (account.sourceId === 0) account.localStatus = status
      else if (account.localStatus !== status) await apply(parts, did, status)
    }
    after = page.at(-1)?.did ?? ''
  }
}

async function readIdentity({ recovery }: OperatorParts, did: Did) {
  try {
    return await recovery.refreshIdentity(did)
  } catch (error) {
    if (!(error instanceof IdentityError)) throw error
    const message = `the DID document of ${did} could not be read: ${error.reason}`
    if (error.retryable) throw new XrpcError(503, 'IdentityUnavailable', `${message}; try again later`)
    throw new XrpcError(400, 'IdentityNotFound', message)
  }
}

function describeAccount(account: Account, { sources, policy }: OperatorParts) {
  const { did, sourceId, upstreamStatus, localStatus, throttledAtMs, rev, breaks } = account
  const { isDesynchronized, isIncomplete } = account
  const { active, status } = publicStatus(account)
  const hostname = sources.byId(sourceId)?.host
  const localReason = policy.takedownOf(did)?.reason
  return {
    did,
    active,
    upstreamStatus,
    isDesynchronized,
    isIncomplete,
    chainBreaks: breaks?.count ?? 0,
    ...datetime('chainBreaksSince', breaks?.sinceMs ?? 0),
    isHeldBack: breaks?.areTooMany ?? false,
    ...(hostname !== undefined && { hostname }),
    ...(status !== undefined && { status }),
    ...(localStatus !== undefined && { localStatus }),
    ...(localReason && { localReason }),
    ...datetime('throttledSince', throttledAtMs),
    ...(rev !== undefined && { rev }),
  }
}
