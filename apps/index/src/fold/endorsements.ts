/** Which awards are endorsements: rules 3 to 6 of feed.md section 5. Rules 1 and 2 held when the awards were stored. */
import type { AwardState, Batch, Content } from '@tributary/index-store'
import { type Issuers, readIssuers, type RecordValue } from './record-facts.ts'

/** Issuers of definitions that are kept: 50 MB, and 100 MB when all have the longest DIDs. Beyond that, definitions are read again. */
const issuersKeptMax = 300_000
/** Characters of definitions after which no more are read at once: some 30 ms of work. */
const charsAtOnce = 500_000

/** For as long as no record changes: it keeps what definitions say, because one definition may have many awards. */
export class Endorsements {
  readonly #batch: Batch
  readonly #issuers = new Map<string, Issuers>()
  #kept = 0

  constructor(batch: Batch) {
    this.#batch = batch
  }

  /**
   * The valid ones of these awards, and the addresses of those that were not looked at: definitions may have a megabyte
   * each, and of the unknown ones only the first are read.
   */
  async among(awards: readonly AwardState[]): Promise<{ valid: AwardState[]; left: Set<string> }> {
    const byBadge = Map.groupBy(
      awards.filter(({ isRejected }) => !isRejected),
      ({ badgeUri, badgeCid }) => badgeKey(badgeUri, badgeCid),
    )
    const valid: AwardState[] = []
    const wanted: Content[] = []
    for (const [badge, named] of byBadge) {
      const issuers = this.#issuers.get(badge)
      if (issuers !== undefined) valid.push(...givenBy(issuers, named))
      else
        for (const { badgeUri, badgeCid } of named.slice(0, 1)) wanted.push({ uri: badgeUri, cid: badgeCid })
    }
    const unread = new Set(wanted.map(({ uri, cid }) => badgeKey(uri, cid)))
    let chars = 0
    for await (const { asked, rows } of this.#batch.classes.definitions(wanted)) {
      for (const { uri, cid } of asked) unread.delete(badgeKey(uri, cid))
      for (const { uri, cid, json } of rows) {
        chars += json.length
        const issuers = readIssuers(JSON.parse(json) as RecordValue) // stored from an object
        const badge = badgeKey(uri, cid)
        this.#keep(badge, issuers)
        valid.push(...givenBy(issuers, byBadge.get(badge) ?? []))
        if (this.#batch.isTurnOver()) await this.#batch.turn()
      }
      if (chars > charsAtOnce) break
    }
    const left = [...unread].flatMap((badge) => byBadge.get(badge) ?? []).map(({ uri }) => uri)
    return { valid, left: new Set(left) }
  }

  #keep(badge: string, issuers: Issuers): void {
    if (this.#kept > issuersKeptMax) {
      this.#issuers.clear()
      this.#kept = 0
    }
    this.#issuers.set(badge, issuers)
    this.#kept += issuers === 'all' ? 1 : 1 + issuers.size
  }
}

function givenBy(issuers: Issuers, awards: readonly AwardState[]): AwardState[] {
  return awards.filter(({ issuer }) => issuers === 'all' || issuers.has(issuer))
}

function badgeKey(uri: string, cid: string): string {
  return `${uri} ${cid}`
}
