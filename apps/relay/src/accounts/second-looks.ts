import { IdentityError, type Identity, type IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import type { Clock } from '../clock.ts'
import type { Source } from '../sources/source.ts'
import { AskQueue, type Waiting } from './ask-queue.ts'

export interface SecondLooksOptions {
  clock: Clock
  resolver: Pick<IdentityResolver, 'resolve'>
  /**
   * A document was read for a source whose event was left out.
   * @param isContent whether the event, or another since the last look, was a commit or sync.
   */
  onRead: (identity: Identity, source: Source, isContent: boolean) => void
  /**
   * Whether no host that was believed calls an account active. Then it may have moved to the host that was not believed,
   * and the directory may be wrong for longer than a minute.
   */
  isInactive: (did: Did) => boolean
  /** Host of the PDS that spoke for an account last. Undefined when none has, or a relay has. */
  pdsOf: (did: Did) => string | undefined
  /** Something of ours went wrong for one account. */
  onDefect: (did: Did, error: unknown) => void
}

/** A count of looks that is bounded. */
interface Share {
  name: string
  max: number
}

interface Look extends Waiting {
  did: Did
  source: Source
  shares: Share[]
  /** Documents that were read for it since an event was left out. */
  count: number
  /** How many are read. */
  looks: number
  /** A commit or sync was left out since the last document was read. */
  isContent: boolean
}

/**
 * Most looks that wait. Further looks are not added. Looks that a relay makes necessary for accounts of PDSs that are read
 * here count apart from its others, and each of these PDSs has a share. So a PDS does not use up what other accounts need.
 */
const looksMax = { all: 20_000, perSource: 1000, perRelayForPds: 1000, perRelayAndPds: 100 }
/** Most looks that a source keeps for when it is wanted again. */
const keptMax = looksMax.perSource + looksMax.perRelayForPds
/**
 * From an event that is left out, and from each look, to the next look. A minute is over with the third one, which is the
 * last unless what was left out shows that the directory may be wrong for longer.
 */
const pausesMs = [5000, 15_000, 30_000, 120_000, 600_000, 3_600_000]
const looksShort = 3
/** From a reading that failed to the next, where the resolver does not say when it can help. */
const retryMs = 30_000

/**
 * Looks again at the DID documents of accounts of which an event was left out because another host than its own seemed
 * to have sent it: the directory may have been away, or may have said what is no longer so, and the host may send
 * nothing more. A document that cannot be read is read later, for as long as the source is wanted.
 *
 * Always holds: looks count for the source whose events make them necessary, and only the directory is asked. The looks
 * of a source at a stop begin again at the next start, and those of one that was not wanted when it is wanted again.
 */
export class SecondLooks {
  readonly #options: SecondLooksOptions
  readonly #looks = new Map<string, Look>()
  readonly #counts = new Map<string, number>()
  readonly #queue = new AskQueue<Look>()
  #isClosed = false

  constructor(options: SecondLooksOptions) {
    this.#options = options
  }

  /** Looks that wait. */
  get size(): number {
    return this.#looks.size
  }

  /**
   * An event of a source was left out.
   * @param isContent whether it was a commit or sync.
   * @param isLong whether to look for longer than a minute.
   */
  add(did: Did, source: Source, isContent: boolean, isLong = false): void {
    const known = this.#looks.get(keyOf(did, source))
    if (known) {
      known.count = 0
      known.looks = Math.max(known.looks, isLong ? pausesMs.length : looksShort)
      this.#setContent(known, known.isContent || isContent)
      return
    }
    const { cause, shares } = this.#sharesOf(did, source)
    const isFull = shares.some(({ name, max }) => (this.#counts.get(name) ?? 0) >= max)
    if (this.#looks.size >= looksMax.all || isFull) {
      // The source may have it from before a restart, and nothing would ever take it off.
      source.looks.delete(did)
      return
    }
    const dueMs = this.#options.clock.nowMs() + (pausesMs[0] ?? 0)
    const looks = isLong ? pausesMs.length : looksShort
    const look: Look = { did, source, cause, host: cause, shares, dueMs, count: 0, looks, isContent }
    this.#looks.set(keyOf(did, source), look)
    this.#setContent(look, isContent)
    this.#count(look, 1)
    this.#queue.put(look)
  }

  /** Takes up the looks that a source has kept. */
  takeUp(source: Source): void {
    for (const [did, isContent] of source.looks) this.add(did, source, isContent, true)
  }

  /** The clock was set back. */
  setBack(ms: number): void {
    this.#queue.setBack(ms, this.#options.clock.nowMs())
  }

  /** Does what is due. */
  tick(): void {
    while (!this.#isClosed) {
      const look = this.#queue.take(this.#options.clock.nowMs())
      if (!look) return
      void this.#look(look)
    }
  }

  close(): void {
    this.#isClosed = true
  }

  async #look(look: Look): Promise<void> {
    const { clock } = this.#options
    const { did, source } = look
    const { isWanted } = source
    const pauseMs = isWanted ? await this.#read(look) : undefined
    this.#queue.release(look, 'unasked', clock.nowMs())
    if (pauseMs === undefined) {
      this.#remove(look)
      if (isWanted || source.looks.size > keptMax) source.looks.delete(did)
    } else {
      look.dueMs = clock.nowMs() + pauseMs
      this.#queue.put(look)
    }
    this.tick()
  }

  /** @returns milliseconds to the next look. Undefined when there is none. */
  async #read(look: Look): Promise<number | undefined> {
    const { clock, resolver, onRead, onDefect, isInactive } = this.#options
    const { did, source } = look
    try {
      const identity = await resolver.resolve(did, { refreshAfter: clock.nowMs(), onBehalfOf: source.host })
      const { isContent } = look
      this.#setContent(look, false)
      if (!this.#isClosed) onRead(identity, source, isContent)
    } catch (error) {
      if (!(error instanceof IdentityError)) onDefect(did, error)
      else if (error.retryable) return error.retryAfterMs ?? retryMs
      // Events of unknown accounts need no look: a directory that does not know this one may be wrong for long.
      look.looks = pausesMs.length
    }
    const looks = isInactive(did) ? pausesMs.length : look.looks
    return ++look.count < looks ? pausesMs[look.count] : undefined
  }

  /** Notes whether a commit or sync was left out. The source keeps this over a restart. */
  #setContent(look: Look, isContent: boolean): void {
    look.isContent = isContent
    look.source.looks.set(look.did, isContent)
  }

  #remove(look: Look): void {
    const { did, source } = look
    this.#looks.delete(keyOf(did, source))
    this.#count(look, -1)
  }

  /** The shares that a look counts for, and the cause whose turn it takes. */
  #sharesOf(did: Did, { host, policy }: Source): { cause: string; shares: Share[] } {
    const pds = policy.kind === 'relay' ? this.#options.pdsOf(did) : undefined
    if (pds === undefined) return { cause: host, shares: [{ name: host, max: looksMax.perSource }] }
    const cause = `${host} ${pds}`
    const ofRelay = { name: `${host} *`, max: looksMax.perRelayForPds }
    return { cause, shares: [ofRelay, { name: cause, max: looksMax.perRelayAndPds }] }
  }

  #count({ shares }: Look, by: number): void {
    for (const { name } of shares) {
      const count = (this.#counts.get(name) ?? 0) + by
      if (count > 0) this.#counts.set(name, count)
      else this.#counts.delete(name)
    }
  }
}

function keyOf(did: Did, { host }: Source): string {
  return `${did} ${host}`
}
