import { setTimeout as sleep } from 'node:timers/promises'
import { listHosts, type RelayHost } from '../relay-hosts.ts'
import { ServiceError } from '../call-service.ts'
import type { Json, OperatorClient } from '../operator/operator-client.ts'

export interface ImportOptions {
  overrideDailyLimit?: boolean
  dryRun?: boolean
  actor?: string
  /** At most so many are added. */
  limit?: number
}

/** What became of one host of the other relay. */
export interface ImportedHost {
  hostname: string
  outcome: 'added' | 'known' | 'skipped' | 'would be added'
  reason?: string
}

const listTimeoutMs = 120_000
const dialEveryMs = 50

/**
 * Adds the hosts of another relay that work there to ours, one after the other, and says what became of each. It ends
 * early, and says so of the rest, when no more may be added today.
 */
export async function* importHosts(
  client: OperatorClient,
  relayUrl: string,
  { overrideDailyLimit = false, dryRun = false, actor, limit = Infinity }: ImportOptions,
): AsyncGenerator<ImportedHost> {
  const url = relayUrl.replace(/^ws/, 'http').replace(/\/$/, '')
  const hosts = await listHosts(url, AbortSignal.timeout(listTimeoutMs))
  const known = new Set((await client.rows('listHosts', 'hosts')).map(({ hostname }) => hostname))
  let added = 0
  let over: string | undefined
  for (const host of hosts) {
    const { hostname } = host
    const reason = reasonAgainst(host) ?? over ?? (added >= limit ? 'over --limit' : undefined)
    if (known.has(hostname)) yield { hostname, outcome: 'known' }
    else if (reason !== undefined) yield { hostname, outcome: 'skipped', reason }
    else if (dryRun) {
      added++
      yield { hostname, outcome: 'would be added' }
    } else {
      const input: Json = { hostname, overrideDailyLimit, ...(actor !== undefined && { actor }) }
      const refused = await refusalOf(client.change('addHost', input))
      if (refused?.error === 'RateLimitExceeded') over = refused.message
      if (refused) yield { hostname, outcome: 'skipped', reason: refused.message }
      else {
        added++
        yield { hostname, outcome: 'added' }
      }
      await sleep(dialEveryMs)
    }
  }
}

/** Hosts that never sent anything, or do not work there, are not worth taking. */
function reasonAgainst({ status = 'active', seq }: RelayHost): string | undefined {
  if (status !== 'active' && status !== 'idle') return `${status} there`
  return seq === undefined || seq > 0 ? undefined : 'never sent an event there'
}

async function refusalOf(call: Promise<unknown>): Promise<ServiceError | undefined> {
  try {
    await call
    return undefined
  } catch (error) {
    if (error instanceof ServiceError) return error
    throw error
  }
}
