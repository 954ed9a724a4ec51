import type { Logger } from '@tributary/telemetry'
import type { AccountRecovery } from '../accounts/account-recovery.ts'
import type { AccountTable } from '../state/account-table.ts'
import type { SourceSet } from './source-set.ts'

/** Accounts of a source that are let in with one write to the log. */
const togetherMax = 100

export interface SlotKeeperOptions {
  accounts: AccountTable
  sources: SourceSet
  recovery: Pick<AccountRecovery, 'letIn'>
  logger: Logger
}

/**
 * Gives slots that are free to the accounts that wait for one, longest waiting first, whenever one comes free or a quota
 * is raised. Accounts of a source that an operator paused, banned or removed wait on.
 */
export class SlotKeeper {
  readonly #options: SlotKeeperOptions
  readonly #running = new Map<number, Promise<void>>()
  #isClosed = false

  constructor(options: SlotKeeperOptions) {
    this.#options = options
    options.accounts.onSlotFreed((sourceId) => this.fill(sourceId))
  }

  /** Lets in whoever fits now. */
  fill(sourceId: number): void {
    if (this.#running.has(sourceId) || !this.#next(sourceId)) return
    const run = this.#run(sourceId).finally(() => this.#running.delete(sourceId))
    this.#running.set(sourceId, run)
  }

  fillAll(): void {
    for (const { id } of this.#options.sources.sources) this.fill(id)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#running.values())
  }

  #next(sourceId: number) {
    const { accounts, sources } = this.#options
    const isFree = accounts.activeOf(sourceId) < sources.quotaOf(sourceId)
    const isWanted = sources.byId(sourceId)?.isWanted === true
    return isFree && isWanted && !this.#isClosed ? accounts.throttledOf(sourceId, 1)[0] : undefined
  }

  async #run(sourceId: number): Promise<void> {
    const { accounts, recovery, logger, sources } = this.#options
    const host = sources.byId(sourceId)?.host
    // What comes in the same turn as the freed slot is done first: this is called from within its handling.
    await Promise.resolve()
    while (this.#next(sourceId)) {
      const entering: Promise<void>[] = []
      for (
        let account = this.#next(sourceId);
        account && entering.length < togetherMax;
        account = this.#next(sourceId)
      ) {
        accounts.admit(account)
        entering.push(recovery.letIn(account))
        logger.info({ host, did: account.did }, 'account has a slot now')
      }
      await Promise.all(entering)
    }
  }
}
