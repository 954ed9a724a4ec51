import type { EventKind } from '@tributary/protocol'
import { isCommitKind, type RowKind, rowKind } from '@tributary/segment'

/** The kind as consumers know it. */
export function eventKindOf(kind: RowKind): EventKind {
  if (isCommitKind(kind)) return 'commit'
  if (kind === rowKind.identity) return 'identity'
  return kind === rowKind.account ? 'account' : 'sync'
}
