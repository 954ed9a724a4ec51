import { isSigned, CheckedTrees, verifyMessage, type Refusal, type SigningKey } from '@tributary/repo-verify'
import { VerifyPool, type Verdict as PoolVerdict, type Verification } from '@tributary/verify-pool'
import type { EventLane, RelayEvent } from '../ingest/relay-event.ts'
import { readVerdict } from './verdict-text.ts'
import type { Good } from './verified.ts'

/** Where the stream's commits and syncs are verified, each for the collections that are watched when it is added. */
export type StreamVerification = Verification<RelayEvent, EventLane, Good>

export type Verdict = PoolVerdict<Good>

interface VerificationOptions {
  workers: number
  /** What is watched. The same object until that changes. */
  watched: () => ReadonlySet<string>
}

export function newVerification({ workers, watched }: VerificationOptions): StreamVerification {
  return new WatchingPool(workers, watched)
}

/** Tells the threads what is watched whenever that has changed. */
class WatchingPool extends VerifyPool<RelayEvent, EventLane, Good> {
  readonly #watched: () => ReadonlySet<string>
  #told: ReadonlySet<string> | undefined

  constructor(workers: number, watched: () => ReadonlySet<string>) {
    super({
      workers,
      thread: new URL('./verify-thread.ts', import.meta.url),
      placeOf: ({ message }) => placeOf(message.did),
      verify: verifierHere(watched),
      read: (text, { message }, bytes) => readVerdict(text, message, bytes),
    })
    this.#watched = watched
  }

  override add(...args: Parameters<StreamVerification['add']>): void {
    const watched = this.#watched()
    if (watched !== this.#told) this.setPolicy((this.#told = watched))
    super.add(...args)
  }
}

/** Verifies messages on the main thread, which has read them already. */
export function verifierHere(
  watched: () => ReadonlySet<string>,
  nowMs: () => number = Date.now,
): (event: RelayEvent, bytes: Buffer, key: SigningKey | undefined, strict: boolean) => Good | Refusal {
  const checkedTrees = new CheckedTrees()
  return ({ message }, bytes, key, strict) => {
    if (!isSigned(message)) throw new Error(`invariant broken: a ${message.kind} event is verified`)
    const isWanted = (collection: string): boolean => watched().has(collection)
    // Its own bytes were taken away while it waited.
    message.bytes = bytes
    return verifyMessage(message, { key, nowMs: nowMs(), strict, isWanted, checkedTrees })
  }
}

/** A number that a DID always has. */
function placeOf(did: string): number {
  let place = 0
  for (let i = Math.max(0, did.length - 8); i < did.length; i++)
    place = (place * 31 + did.charCodeAt(i)) >>> 0
  return place
}
