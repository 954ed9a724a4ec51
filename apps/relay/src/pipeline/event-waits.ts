/** Events wait for DID documents and for the word of the hosts of their accounts. */
import { isStorageFault } from '@tributary/event-log'
import type { IdentityError, IdentityResolver } from '@tributary/identity'
import { IdentityReads, type Lane, type Outcome, type Wait } from '@tributary/lanes'
import type { Clock } from '../clock.ts'
import type { HostInquiry } from '../inquiry/host-inquiry.ts'
import type { Source } from '../sources/source.ts'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import type { WaitsFor } from './decide.ts'
import type { PipelineObserver } from './pipeline-observer.ts'

type RelayLane = Lane<Source, UpstreamEvent>

export interface EventWaitOptions {
  resolver: IdentityResolver
  /** Asks the hosts of accounts what they say now. */
  inquiry: Pick<HostInquiry, 'status'>
  /** How long events wait for the identity of their account, in milliseconds. */
  identityWaitMsMax: number
  clock: Clock
  /** A random number, at least 0 and below 1. Undefined: that of the system. */
  random: (() => number) | undefined
  observer: Pick<PipelineObserver, 'onIdentityFault' | 'onInternalError'>
  /** A lane waits for something that may take long. */
  discount: (lane: RelayLane) => void
  /** The host of an account that was not active says that it is. */
  onActive: (event: UpstreamEvent) => void
}

export class EventWaits {
  readonly #options: EventWaitOptions
  readonly #clock: Clock
  readonly #identityReads: IdentityReads

  constructor(options: EventWaitOptions) {
    const { resolver, clock, random } = options
    this.#options = options
    this.#clock = clock
    this.#identityReads = new IdentityReads(resolver, clock, random)
  }

  /** How an event waits. It is started again when what it waits for is there, or is known not to come. */
  waitOf(event: UpstreamEvent, lane: RelayLane, what: WaitsFor): Outcome {
    const { receipt } = event
    // If the clock was set back, the event came in the future. No document would be fresh until the clock is there again.
    receipt.receivedAtMs = Math.min(receipt.receivedAtMs, this.#clock.nowMs())
    switch (what) {
      case 'verdicts':
        return 'after-those-away'
      case 'identity':
        return this.#wait(event, (signal) => this.#readIdentity(event, lane, 0, signal))
      case 'fresh-identity':
        return this.#wait(event, (signal) =>
          this.#readIdentity(event, lane, event.receipt.receivedAtMs, signal),
        )
      case 'confirmation':
        return this.#wait(event, async () => {
          const { account, source } = event
          const status = await this.#options.inquiry.status(account.did, { cause: source.host })
          event.confirmedStatus = status ?? 'unknown'
        })
      case 'status':
        return this.#wait(event, () => this.#askHost(event))
    }
  }

  /** An error that is thrown while an event waits costs that event. */
  #wait(event: UpstreamEvent, wait: Wait): Wait {
    return async (signal) => {
      try {
        await wait(signal)
      } catch (error) {
        if (isStorageFault(error)) throw error
        this.#options.observer.onInternalError(event.source, error, event.message.bytes, event)
        event.waitFault = 'internal-error'
      }
    }
  }

  async #readIdentity(
    event: UpstreamEvent,
    lane: RelayLane,
    refreshAfter: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { account, receipt, source } = event
    // Anybody can have a host of did:web that never answers. The PLC directory is the operator's choice.
    if (!account.did.startsWith('did:plc:')) this.#options.discount(lane)
    const untilMs = receipt.receivedAtMs + this.#options.identityWaitMsMax
    const onFault = (error: IdentityError): void => {
      // A document that cannot be read may stay so for long. One that only waits for its turn comes soon.
      if (!error.isOwnLimit) this.#options.discount(lane)
      this.#options.observer.onIdentityFault(account.did, error)
    }
    const request = { untilMs, refreshAfter, onBehalfOf: source.host, signal, onFault }
    const outcome = await this.#identityReads.read(account.did, request)
    if (outcome !== 'ready') event.waitFault = outcome
  }

  /** Asks the host of an inactive account whether it is active again, because a commit or sync of it came. */
  async #askHost(event: UpstreamEvent): Promise<void> {
    const { account, source } = event
    account.askedAtMs = this.#clock.nowMs()
    event.statusCheck = 'asked'
    // The host that the account has left may call it active, too.
    const readAfterMs = event.receipt.receivedAtMs
    const status = await this.#options.inquiry.status(account.did, { cause: source.host, readAfterMs })
    if (status === 'active' && account.upstreamStatus !== 'active') this.#options.onActive(event)
  }
}
