import { setImmediate } from 'node:timers/promises'
import { DidHashes, hashDid } from '@tributary/segment'
import type { SealedSegment } from '@tributary/segment/node'
import { orDamaged } from './or-damaged.ts'

/**
 * Accounts that are looked for in one turn of the event loop, and blocks that are looked at: some milliseconds. For each
 * block all accounts that the segment may hold are looked for, 200,000 at most.
 */
const perTurn = { accounts: 5000, blocks: 4 }

/** Accounts that one segment may hold rows of. */
interface Held {
  readonly hashes: DidHashes
  /** Their places in `hashes`. */
  readonly among: readonly number[]
}

/**
 * Tells which blocks may hold rows of any of some accounts, by the filters of segments and of blocks, in turns of the event
 * loop. A filter that is damaged tells nothing.
 */
export class AccountBlocks {
  readonly #parts: readonly DidHashes[]
  readonly #pace: (bytes: number) => Promise<void>
  /** The segment that was looked at last. */
  #looked: { segment: SealedSegment; held: readonly Held[] | undefined } | undefined

  private constructor(parts: readonly DidHashes[], pace: (bytes: number) => Promise<void>) {
    this.#parts = parts
    this.#pace = pace
  }

  /** @param pace is waited for before so many bytes of filters are read. */
  static async of(dids: Iterable<string>, pace: (bytes: number) => Promise<void>): Promise<AccountBlocks> {
    const all = [...dids]
    const parts: DidHashes[] = []
    for (let from = 0; from < all.length; from += perTurn.accounts) {
      await setImmediate()
      parts.push(new DidHashes(all.slice(from, from + perTurn.accounts).map((did) => hashDid(did))))
    }
    return new AccountBlocks(parts, pace)
  }

  /** Whether a block may hold rows of one of the accounts. */
  async mayBeIn(segment: SealedSegment, blockIndex: number): Promise<boolean> {
    if (this.#looked?.segment !== segment) {
      this.#looked = { segment, held: await orDamaged(this.#heldIn(segment)) }
    }
    const { held } = this.#looked
    if (held?.length === 0) return false
    if (blockIndex % perTurn.blocks === 0) await setImmediate()
    const filters = await orDamaged(segment.readBlockDidFilters())
    if (!held || !filters) return true
    return held.some(({ hashes, among }) => filters.mayHaveAny(blockIndex, hashes, among))
  }

  async #heldIn(segment: SealedSegment): Promise<Held[]> {
    const { didFilterOffset, blockDidFiltersOffset, collectionIndexOffset } = segment.header
    await this.#pace(blockDidFiltersOffset - didFilterOffset)
    const filter = await segment.readDidFilter()
    const held: Held[] = []
    for (const hashes of this.#parts) {
      await setImmediate()
      const among = filter.select(hashes, hashes.places())
      if (among.length > 0) held.push({ hashes, among })
    }
    if (held.length > 0) await this.#pace(collectionIndexOffset - blockDidFiltersOffset)
    return held
  }
}
