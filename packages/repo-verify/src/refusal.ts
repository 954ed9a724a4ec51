import { StacklessError } from '@tributary/protocol'

/** Why an event or a repository is refused. Also a metric label, so the set stays small and closed. */
export const refusalReasons = [
  /** The message is not two maps of strict DAG-CBOR. */
  'malformed-frame',
  /** A required field is missing or has the wrong type. */
  'malformed-event',
  /** The message, its blocks or its number of operations pass a limit of the protocol. */
  'oversize',
  'malformed-car',
  /** A block does not hash to its CID. */
  'bad-block-hash',
  'malformed-commit',
  'future-rev',
  /** No signing key was given. */
  'missing-key',
  'bad-signature',
  /** The event names another account, revision or commit than its signed commit does. */
  'mismatched-fields',
  /** `tooBig` or `rebase` is set. */
  'deprecated-flag',
  /** For callers: the account has a stored state, and its next commit has no `prevData`. */
  'missing-prev-data',
  'malformed-time',
  'invalid-ops',
  /** An update or delete without `prev`, as hosts before Sync 1.1 send them. */
  'missing-op-prev',
  /** A record, or a part of the tree that the inversion needs, is not in the CAR. */
  'missing-block',
  'malformed-record',
  'record-too-large',
  /** The tree breaks a rule of its kind, does not hold what the operations say, or does not invert to `prevData`. */
  'invalid-mst',
] as const

export type RefusalReason = (typeof refusalReasons)[number]

export interface Refusal {
  ok: false
  reason: RefusalReason
  /** One English sentence for a log. Holds no content of records. */
  detail: string
}

/** How the parts of this package refuse. It never leaves the package: entry points turn it into a `Refusal`. */
export class RefusedError extends StacklessError {
  override readonly name = 'RefusedError'
  readonly reason: RefusalReason
  constructor(reason: RefusalReason, detail: string) {
    super(detail)
    this.reason = reason
  }
}

/** @throws RefusedError always. */
export function refuse(reason: RefusalReason, detail: string): never {
  throw new RefusedError(reason, detail)
}

/** Runs a check and returns what it refused as a value. Other errors are ours and pass through. */
export function refusing<T>(check: () => T): T | Refusal {
  try {
    return check()
  } catch (error) {
    if (error instanceof RefusedError) return { ok: false, reason: error.reason, detail: error.message }
    throw error
  }
}
