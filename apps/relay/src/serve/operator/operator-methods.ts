/**
 * The operator API: `network.social.stream.relay.admin.*`, for the holder of the operator token. Whatever it changes is
 * stored with who asked for it, takes effect at once, and may be asked for again with the same idempotency key.
 */
import { requireOperatorToken } from '@tributary/xrpc'
import { addAccountOperations } from './account-operations.ts'
import { addHostOperations } from './host-operations.ts'
import { operatorPrefix, type OperatorParts } from './operator-parts.ts'
import { addRelayOperations } from './relay-operations.ts'

export function addOperatorMethods(parts: OperatorParts): void {
  requireOperatorToken(parts.server, operatorPrefix, parts.operatorToken)
  addHostOperations(parts)
  addRelayOperations(parts)
  addAccountOperations(parts)
}
