import type { VerifiedCommit } from '@tributary/repo-verify'

/** Collections of the records that a commit creates or updates, each once, as one text with spaces between. */
export function collectionsOf({ ops }: VerifiedCommit): string {
  const [first] = ops
  if (ops.length === 1 && first) return first.action === 'delete' ? '' : first.collection
  const written = ops.filter(({ action }) => action !== 'delete').map(({ collection }) => collection)
  return [...new Set(written)].join(' ')
}
