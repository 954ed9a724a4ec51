import type { NoticeLog } from '../policy/notice-log.ts'
import type { NoticeKind } from '../policy/notice-rows.ts'
import type { AccountTable } from '../state/account-table.ts'
import type { SourceSet } from './source-set.ts'
import type { Source } from './source.ts'

export interface NoticeWatchOptions {
  sources: SourceSet
  accounts: Pick<AccountTable, 'activeOf' | 'throttledCountOf'>
  notices: NoticeLog
}

const lookMs = 5000
/** Looks that have to find a source throttled, more often than not, before that is told: a minute of it. */
const throttledLooks = 12

/** What keeps a source from being read. */
type Trouble = 'unreachable' | 'stuck' | 'throttled' | 'disabled' | 'banned'

/** What was said of a source. */
interface Said {
  trouble: Trouble | undefined
  isFull: boolean
  losses: number
  epoch: number
  throttled: number
}

/**
 * Looks at the sources every five seconds and notes what changed and lasts: outages, pauses, quotas, losses. It looks
 * instead of being told, so that whatever comes and goes in between costs nothing and is not noted.
 */
export class NoticeWatch {
  readonly #options: NoticeWatchOptions
  readonly #said = new Map<number, Said>()
  readonly #timer: NodeJS.Timeout
  #isPaused = false

  constructor(options: NoticeWatchOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.look(), lookMs).unref()
  }

  /** Looks now. Done by itself. */
  look(): void {
    const { sources, notices } = this.#options
    const isPaused = sources.pauseReasons.includes('disk-floor')
    if (isPaused && !this.#isPaused) notices.note('reading-paused', 'relay', 'too little disk is free')
    if (!isPaused && this.#isPaused) notices.note('reading-resumed', 'relay', 'enough disk is free')
    this.#isPaused = isPaused
    for (const source of sources.sources) this.#lookAt(source)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #lookAt(source: Source): void {
    const { sources, accounts, notices } = this.#options
    const { id, host, losses, epoch } = source
    const said = this.#said.get(id) ?? firstSaid(source)
    this.#said.set(id, said)

    const waiting = accounts.throttledCountOf(id)
    const isFull = waiting > 0 && accounts.activeOf(id) >= sources.quotaOf(id)
    if (isFull && !said.isFull)
      notices.note('quota-reached', host, `${accounts.activeOf(id)} accounts hold all slots, ${waiting} wait`)
    // Slots that are freed are given to those who wait: the quota is reached until nobody does.
    said.isFull = isFull || (said.isFull && waiting > 0)
    if (losses > said.losses)
      notices.note('events-lost', host, 'it no longer had the events behind our position')
    if (epoch > said.epoch) notices.note('source-renumbered', host, `it is read from ${source.cursor}`)
    Object.assign(said, { losses, epoch })

    const { state, reason } = source.condition
    said.throttled = Math.min(
      2 * throttledLooks,
      Math.max(0, said.throttled + (state === 'throttled' ? 1 : -1)),
    )
    const trouble = this.#troubleOf(source, said)
    if (trouble === said.trouble) return
    said.trouble = trouble
    const kind: NoticeKind = trouble === undefined ? 'source-resumed' : `source-${trouble}`
    const error = trouble === 'unreachable' && source.lastError !== undefined ? `: ${source.lastError}` : ''
    notices.note(kind, host, `${state}${reason === undefined ? '' : ` (${reason})`}${error}`)
  }

  #troubleOf({ state }: Source, { throttled, trouble }: Said): Trouble | undefined {
    if (state === 'unreachable' || state === 'stuck' || state === 'disabled' || state === 'banned')
      return state
    const isThrottled = throttled >= throttledLooks || (trouble === 'throttled' && throttled > 0)
    return isThrottled ? 'throttled' : undefined
  }
}

/** What operators decided before the start is no news. */
function firstSaid({ state, losses, epoch }: Source): Said {
  const trouble = state === 'disabled' || state === 'banned' ? state : undefined
  return { trouble, isFull: false, losses, epoch, throttled: 0 }
}
