import type { Logger } from '@tributary/telemetry'
import type { Refusal } from '../policy/refusal-log.ts'
import type { StreamMetrics } from '../metrics.ts'
import type { IngestNotice, IngestObserver } from './ingest-observer.ts'
import type { ConnectionState } from './relay-connection.ts'

/** Bytes that are kept of a message which was refused for an internal error. */
const keptBytesMax = 16 * 1024
/** Characters that are logged of what a relay says in words. It may send megabytes. */
const saidMax = 256

/** Turns what the ingest reports into metrics and log lines, and keeps the state of the connection. */
export class IngestReport implements IngestObserver {
  readonly #logger: Logger
  readonly #metrics: StreamMetrics
  readonly #windowListeners: (() => void)[] = []
  readonly #takedownListeners: ((did: string) => void)[] = []
  readonly #refusalListeners: ((refusal: Refusal) => void)[] = []
  readonly #activeListeners: ((did: string) => void)[] = []
  #state: ConnectionState = { is: 'connecting' }

  constructor(logger: Logger, metrics: StreamMetrics) {
    this.#logger = logger
    this.#metrics = metrics
  }

  get connection(): ConnectionState {
    return this.#state
  }

  /** Called when the relay no longer had all events since the last one that was seen, or may not have had them. */
  onWindowMissed(listener: () => void): void {
    this.#windowListeners.push(listener)
  }

  /** Called when an account was taken down, with the change of its state. */
  whenTakenDown(listener: (did: string) => void): void {
    this.#takedownListeners.push(listener)
  }

  /** Called with each event, or operation of one, that gives no row. */
  whenRefused(listener: (refusal: Refusal) => void): void {
    this.#refusalListeners.push(listener)
  }

  /** Called when an account event says that its account is active. */
  whenActive(listener: (did: string) => void): void {
    this.#activeListeners.push(listener)
  }

  onTakedown = (did: string): void => {
    for (const listener of this.#takedownListeners) listener(did)
  }

  onActive = (did: string): void => {
    for (const listener of this.#activeListeners) listener(did)
  }

  onEvent: IngestObserver['onEvent'] = (kind) => this.#metrics.eventReceived(kind)

  onRefused: IngestObserver['onRefused'] = (reason, did, detail, event) => {
    this.#metrics.eventRefused(reason)
    const refusal = { reason, did, detail, kind: event?.kind, upstreamSeq: event?.upstreamSeq }
    for (const listener of this.#refusalListeners) listener(refusal)
    this.#logger.debug({ reason, did, detail }, 'event refused')
  }

  onOpDropped: IngestObserver['onOpDropped'] = (reason, did) => {
    this.#metrics.opDropped(reason)
    const detail = 'an operation of a good commit cannot be archived'
    for (const listener of this.#refusalListeners) listener({ reason, did, detail, kind: 'commit' })
    this.#logger.debug({ reason, did }, 'operation dropped')
  }

  onDiscontinuity: IngestObserver['onDiscontinuity'] = (did) => {
    this.#metrics.gapFound('repository')
    this.#logger.info({ did }, 'a commit does not continue what is stored of its repository')
  }

  onState: IngestObserver['onState'] = (state) => {
    this.#state = state
    if (state.is === 'connected') this.#logger.info('connected to the relay')
    else if (state.is === 'waiting') this.#logger.warn({ error: state.error }, 'not connected to the relay')
    else if (state.is === 'stuck') {
      const { cursor, error } = state
      this.#logger.error({ cursor, error }, 'the relay sends a message that is too large, again and again')
    }
  }

  onNotice: IngestObserver['onNotice'] = (notice: IngestNotice) => {
    switch (notice.is) {
      case 'outdated-cursor':
        this.#metrics.gapFound('relay')
        this.#logger.error(
          { ...notice, message: notice.message.slice(0, saidMax) },
          'the relay no longer has all events since the last one seen; some are missing',
        )
        this.#tellWindowMissed()
        return
      case 'relay-changed':
        this.#logger.warn(notice, 'another relay than before is read, from its oldest event')
        this.#tellWindowMissed()
        return
      case 'numbering-restarted':
        this.#logger.error(notice, 'the relay numbers its events anew; reading it from its oldest one')
        this.#tellWindowMissed()
        return
      case 'numbering-restart-held':
        this.#logger.error(notice, 'the relay numbers its events anew, again; waiting before following it')
        return
      case 'relay-error':
        this.#logger.warn(
          { ...notice, error: notice.error.slice(0, saidMax), message: notice.message.slice(0, saidMax) },
          'the relay ended the stream',
        )
        return
      case 'account-corrected':
        this.#logger.warn(notice, 'an account event was lost: the account is now as the relay says')
        return
      case 'internal-error': {
        const { did, upstreamSeq, error, bytes } = notice
        const fields = {
          did,
          upstreamSeq,
          err: error,
          message: bytes.subarray(0, keptBytesMax).toString('base64'),
        }
        this.#logger.error(fields, 'an event was refused for a defect of this stream: please report it')
        return
      }
      case 'unresolved':
        this.#logger.info(
          { did: notice.did, error: notice.error.message },
          'an account could not be resolved',
        )
    }
  }

  #tellWindowMissed(): void {
    for (const listener of this.#windowListeners) listener()
  }
}
