/** Verification as `newVerification` wires it: an event is read for what is watched when it is added, not for what is later. */
import type { SigningKey } from '@tributary/repo-verify'
import { SimulatedVerification, type ProcessClock } from '@tributary/testkit/simulation'
import type { EventLane, RelayEvent } from '../../src/ingest/relay-event.ts'
import { verifierHere } from '../../src/verify/verification.ts'
import type { Good } from '../../src/verify/verified.ts'
import type { StreamConditions } from './conditions.ts'

interface WatchingVerificationParts {
  clock: ProcessClock
  conditions: StreamConditions
  watched: () => ReadonlySet<string>
}

export class WatchingVerification extends SimulatedVerification<RelayEvent, EventLane, Good> {
  readonly #watched: () => ReadonlySet<string>
  readonly #told: WeakMap<RelayEvent, ReadonlySet<string>>

  constructor({ clock, conditions, watched }: WatchingVerificationParts) {
    const told = new WeakMap<RelayEvent, ReadonlySet<string>>()
    let now = watched()
    const verify = verifierHere(
      () => now,
      () => clock.nowMs(),
    )
    super({
      clock,
      conditions,
      verify: (event, ...rest) => {
        now = told.get(event) ?? watched()
        return verify(event, ...rest)
      },
    })
    this.#watched = watched
    this.#told = told
  }

  override add(event: RelayEvent, lane: EventLane, key: SigningKey | undefined, isStrict: boolean): void {
    this.#told.set(event, this.#watched())
    super.add(event, lane, key, isStrict)
  }
}
