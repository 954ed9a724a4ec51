/** What becomes of what the pipeline meets: metrics, log lines, refusals and messages kept for the operator. */
import { hash } from 'node:crypto'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isStorageFault, type EventLog } from '@tributary/event-log'
import type { Logger } from '@tributary/telemetry'
import type { PipelineObserver } from './pipeline/pipeline-observer.ts'
import type { RefusalLog } from './policy/refusal-log.ts'
import type { RelayMetrics } from './relay-metrics.ts'
import type { HiddenAccounts } from './serve/hidden-accounts.ts'
import type { SourceSet } from './sources/source-set.ts'
import type { Source } from './sources/source.ts'
import { isHidden } from './state/account.ts'

export interface RelayReportOptions {
  logger: Logger
  counts: RelayMetrics
  refusals: RefusalLog
  sources: SourceSet
  hidden: HiddenAccounts
  log: EventLog
  /** Messages that a defect of ours cost are kept here, in the folder `internal-errors`. */
  directory: string
}

/** Messages of internal errors that are kept. The operator makes room by removing files. */
const keptMax = 100

export class RelayReport implements PipelineObserver {
  readonly #options: RelayReportOptions

  constructor(options: RelayReportOptions) {
    this.#options = options
  }

  onReceived: PipelineObserver['onReceived'] = (_, type, bytes) => this.#options.counts.received(type, bytes)

  onRefused: PipelineObserver['onRefused'] = (source, reason, detail, event) => {
    const { counts, refusals, logger } = this.#options
    counts.refused(reason)
    source.eventsRefused++
    if (reason === 'bad-signature') source.signatureFailures++
    refusals.note(source, reason, detail, event)
    logger.debug({ host: source.host, reason, detail, ...event }, 'event refused')
  }

  onRepeated: PipelineObserver['onRepeated'] = (_, { message }) => this.#options.counts.repeated(message.kind)

  onWaived: PipelineObserver['onWaived'] = (source, reason) => {
    source.rulesWaived++
    this.#options.counts.waived(reason)
  }

  onDiscontinuity: PipelineObserver['onDiscontinuity'] = () => this.#options.counts.discontinuous()

  onDurable: PipelineObserver['onDurable'] = (tookMs) => this.#options.counts.durable(tookMs)

  /** At debug, because it comes for each account that waits and each attempt. How often is in the metrics. */
  onIdentityFault: PipelineObserver['onIdentityFault'] = (did, error) => {
    const { reason, retryAfterMs, cause } = error
    this.#options.logger.debug({ did, reason, retryAfterMs, err: cause }, 'identity not read')
  }

  onStatus: PipelineObserver['onStatus'] = (account) => {
    const { hidden, log } = this.#options
    hidden.set(account, isHidden(account), log.nextSeq)
  }

  onPaused: PipelineObserver['onPaused'] = (source, reason, isPaused) =>
    this.#options.sources.setSourcePaused(source, reason, isPaused)

  onInternalError: PipelineObserver['onInternalError'] = ({ host }, error, bytes, event) => {
    const { epoch, upstreamSeq } = event?.receipt ?? {}
    const place = event ? `${epoch}-${upstreamSeq}` : hash('sha256', bytes, 'hex').slice(0, 16)
    const file = this.#keep(`${host.replaceAll(/[^a-z0-9.-]/g, '_')}-${place}.cbor`, bytes)
    const fields = { host, did: event?.account.did, upstreamSeq, file, err: error }
    this.#options.logger.error(fields, 'an event was refused for a defect of this relay: please report it')
  }

  /** What was thrown by a message outside the pipeline costs that message. @throws what a storage fault throws. */
  onDefect = (source: Source, error: unknown, bytes: Buffer): void => {
    if (isStorageFault(error)) throw error
    this.onInternalError(source, error, bytes)
    this.onRefused(source, 'internal-error', 'a defect of this relay')
  }

  /** Keeps a message. @returns the file; undefined when it is not kept. */
  #keep(name: string, bytes: Buffer): string | undefined {
    if (bytes.length === 0) return undefined
    const folder = join(this.#options.directory, 'internal-errors')
    try {
      mkdirSync(folder, { recursive: true })
      if (readdirSync(folder).length >= keptMax) return undefined
      const file = join(folder, name)
      writeFileSync(file, bytes)
      return file
    } catch (error) {
      // The event is refused all the same.
      this.#options.logger.error({ err: error }, 'a message could not be kept')
      return undefined
    }
  }
}
