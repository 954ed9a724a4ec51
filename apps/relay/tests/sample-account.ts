import type { Did } from '@tributary/protocol'
import { AccountRow, rowBytes } from '../src/state/account-row.ts'
import type { Account } from '../src/state/account.ts'

/** An account that is in no table. */
export function newAccount(did: Did): Account {
  return new AccountRow(Buffer.alloc(rowBytes), 0, new Map(), 0, did)
}
