/**
 * Answers that an account is gone, by the directory or by the name server of its domain. Such an answer takes away a
 * handle or hides an account, so it counts only when it comes again later, and when other accounts are found meanwhile:
 * many in a row are our fault until proven otherwise, such as a wrong address of the directory. An account that is asked
 * about again and again is not many. Documents of `did:web` come from their owners, so one that is found says nothing of the
 * directory.
 */
import type { Did } from '@tributary/protocol'

/** Answers in a row after which none counts any more. */
const inRowMax = 10
/** Answers about one account that count among those in a row: as many as it takes to believe them. */
const inRowOfOneMax = 2
/** How much later the answer must come again. Longer than a resolver keeps it. */
export const goneAgainMs = 900_000
/** Accounts that are remembered; of more, the oldest must be answered twice again. */
const accountsMax = 10_000

/** Answers in a row. */
interface Row {
  count: number
  /** How many of them are about each account. Before the first account is found, none is noted. */
  readonly of: Map<Did, number>
}

export interface GoneAnswersOptions {
  /** Told when answers stop counting, and when they count again. */
  onDoubt: (isDoubted: boolean) => void
  nowMs?: () => number
}

export class GoneAnswers {
  readonly #onDoubt: (isDoubted: boolean) => void
  readonly #nowMs: () => number
  readonly #firstAtMs = new Map<Did, number>()
  /** Answers in a row, by DID method. Nothing counts before the first account is found. */
  readonly #inRow = { plc: fullRow(), web: fullRow() }
  #isDoubted = false

  constructor({ onDoubt, nowMs = Date.now }: GoneAnswersOptions) {
    this.#onDoubt = onDoubt
    this.#nowMs = nowMs
  }

  /** An account was found, by a question that was just asked. */
  found(did: Did): void {
    if (methodOf(did) === 'plc') this.#inRow.plc = { count: 0, of: new Map() }
    this.#inRow.web = { count: 0, of: new Map() }
    this.#firstAtMs.delete(did)
    this.#tellDoubts()
  }

  /** An account is said to be gone. True when that counts. */
  gone(did: Did): boolean {
    const row = this.#inRow[methodOf(did)]
    count(row, did)
    this.#tellDoubts()
    if (row.count > inRowMax) return false
    const firstAtMs = this.#firstAtMs.get(did)
    if (firstAtMs !== undefined) return this.#nowMs() - firstAtMs >= goneAgainMs
    const [oldest] = this.#firstAtMs.keys()
    if (oldest !== undefined && this.#firstAtMs.size >= accountsMax) this.#firstAtMs.delete(oldest)
    this.#firstAtMs.set(did, this.#nowMs())
    return false
  }

  #tellDoubts(): void {
    const isDoubted = Math.max(this.#inRow.plc.count, this.#inRow.web.count) > inRowMax
    if (isDoubted === this.#isDoubted) return
    this.#isDoubted = isDoubted
    this.#onDoubt(isDoubted)
  }
}

/** The next answer stops all from counting. */
function fullRow(): Row {
  return { count: inRowMax, of: new Map() }
}

/** Beyond the bound nothing is noted, so that a row takes no memory. */
function count(row: Row, did: Did): void {
  const ofOne = row.of.get(did) ?? 0
  if (ofOne >= inRowOfOneMax || row.count > inRowMax) return
  row.of.set(did, ofOne + 1)
  row.count++
}

function methodOf(did: Did): 'plc' | 'web' {
  return did.startsWith('did:plc:') ? 'plc' : 'web'
}
