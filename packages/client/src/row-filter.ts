import { compileFilter, type EventFilter } from '@tributary/protocol'
import type { BlockView } from '@tributary/segment'
import { eventKindOf } from './row-event.ts'

/** A filter over rows that reads no column it does not need. The filter's values have been checked. */
export function compileRowFilter(filter: EventFilter): (block: BlockView, row: number) => boolean {
  const byKind = filter.kinds?.length ? new Set(filter.kinds) : undefined
  const byDid = filter.dids?.length ? new Set(filter.dids) : undefined
  const wants = filter.collections?.length ? compileFilter({ collections: filter.collections }) : undefined
  if (!byKind && !byDid && !wants) return () => true
  // Blocks hold few collections.
  const known = new Map<string, boolean>()
  const wantsCollection = (did: string, collection: string): boolean => {
    let isWanted = known.get(collection)
    if (isWanted === undefined) {
      isWanted = wants?.({ kind: 'commit', did, collection }) ?? true
      if (known.size < knownCollectionsMax) known.set(collection, isWanted)
    }
    return isWanted
  }
  return (block, row) => {
    const kind = eventKindOf[block.kindAt(row)]
    if (byKind && !byKind.has(kind)) return false
    if (byDid && !byDid.has(block.didAt(row))) return false
    return !wants || kind !== 'commit' || wantsCollection('', block.collectionAt(row))
  }
}

const knownCollectionsMax = 10_000
