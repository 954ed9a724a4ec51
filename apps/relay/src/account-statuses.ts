import { setImmediate } from 'node:timers/promises'
import { publicStatus } from './state/account.ts'
import type { AccountTable } from './state/account-table.ts'

const knownStatuses = new Set([
  'deactivated',
  'deleted',
  'suspended',
  'takendown',
  'throttled',
  'desynchronized',
])
/** Accounts that are looked at before others have their turn: less than a millisecond. */
const accountsPerTurn = 10_000

/**
 * Counts accounts by what this relay says of them. It goes through all of them, in pieces, because a count that changed
 * with events would cost each event.
 */
export async function countStatuses(accounts: AccountTable): Promise<Map<string, number>> {
  const counts = new Map<string, number>()
  let inactive = 0
  for (let at: number | undefined = 0; at !== undefined; await setImmediate()) {
    const { found, next } = accounts.exceptional(at, accountsPerTurn)
    at = next
    for (const account of found) {
      const { active, status = 'inactive' } = publicStatus(account)
      if (active || account.sourceId === 0) continue
      const label = knownStatuses.has(status) ? status : 'inactive'
      counts.set(label, (counts.get(label) ?? 0) + 1)
      inactive++
    }
  }
  return counts.set('active', accounts.known - inactive)
}
