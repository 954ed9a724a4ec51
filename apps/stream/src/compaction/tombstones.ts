import { decode } from '@atcute/cbor'
import { type BlockView, rowKind } from '@tributary/segment'

interface OfAccount {
  /** Everything of the account before this seq is superseded. */
  all: number
  /** What is superseded of single records, by `<collection>/<rkey>`. */
  records: Map<string, number>
}

/**
 * Which rows are superseded, and by which seq (segment-format.md 10.1): a record that was changed or deleted later, all
 * records of an account that was deleted, and all before a `#sync` after which everything is written again.
 */
export class Tombstones {
  readonly #accounts = new Map<string, OfAccount>()
  #size = 0
  #maxSeq = 0

  /** Records and accounts that are superseded, counted apart. */
  get size(): number {
    return this.#size
  }

  /** Only rows before this seq are superseded. */
  get maxSeq(): number {
    return this.#maxSeq
  }

  get accounts(): ReadonlyMap<string, unknown> {
    return this.#accounts
  }

  /** Notes everything that a block supersedes. */
  addBlock(block: BlockView): void {
    for (let i = 0; i < block.count; i++) {
      const kind = block.kindAt(i)
      if (kind === rowKind.update || kind === rowKind.delete) {
        this.#addRecord(block.didAt(i), pathAt(block, i), block.seqAt(i))
      } else if (kind === rowKind.sync || kind === rowKind.account) {
        if (supersedesAll(block, i)) this.addAccount(block.didAt(i), block.seqAt(i))
      }
    }
  }

  /** Everything of an account before a seq is superseded. */
  addAccount(did: string, seq: number): void {
    const account = this.#of(did)
    if (account.all === 0) this.#size++
    account.all = Math.max(account.all, seq)
    this.#maxSeq = Math.max(this.#maxSeq, seq)
  }

  /** Whether a row that puts a record in place is superseded. */
  supersede(block: BlockView, i: number): boolean {
    const account = this.#accounts.get(block.didAt(i))
    if (!account) return false
    const seq = block.seqAt(i)
    if (seq < account.all) return true
    return account.records.size > 0 && seq < (account.records.get(pathAt(block, i)) ?? 0)
  }

  #addRecord(did: string, path: string, seq: number): void {
    const { records } = this.#of(did)
    const before = records.get(path)
    if (before === undefined) this.#size++
    records.set(before === undefined ? ownText(path) : path, Math.max(before ?? 0, seq))
    this.#maxSeq = Math.max(this.#maxSeq, seq)
  }

  #of(did: string): OfAccount {
    let account = this.#accounts.get(did)
    if (!account) this.#accounts.set(ownText(did), (account = { all: 0, records: new Map() }))
    return account
  }
}

/** The same text in memory of its own. As it comes from a block it would keep the texts of all rows of the block. */
function ownText(text: string): string {
  return Buffer.from(text).toString()
}

function pathAt(block: BlockView, i: number): string {
  return `${block.collectionAt(i)}/${block.rkeyAt(i)}`
}

/**
 * Whether a marker supersedes what came before it. Of `#sync` events only our own do, whose number is 0: those of the relay
 * are followed by one when there is anything to be written again.
 */
function supersedesAll(block: BlockView, i: number): boolean {
  const body = decode(block.payloadAt(i)) as { seq: number; active?: boolean; status?: unknown } // checked before it became a row
  return block.kindAt(i) === rowKind.sync
    ? body.seq === 0
    : body.active === false && body.status === 'deleted'
}
