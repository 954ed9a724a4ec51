/**
 * When a rebuild from another stream begins by itself, and when what it has built may be served.
 *
 * Always holds: a stream that is empty, that has not read its archive to the end, or that holds other accounts takes
 * nothing away by itself, and neither does one that is behind the stream that was followed. An operator who asks for the
 * rebuild is not held back. Attempts that come to nothing are made at ever longer intervals, and one in a day counts.
 */
import { type IndexWriter, parseDatetime, type RowOf } from '@tributary/index-store'
import type { Logger } from '@tributary/telemetry'
import { FollowedStream } from '../fold/followed-stream.ts'

/** What is built must have such a share of the accounts that are shown. The others may have gone meanwhile. */
const accountsShareMin = 0.9
/** Counting accounts reads all of them. */
const countEveryMs = 60_000
/** After a rebuild by itself the next one waits for so long, whatever happens. */
const dayMs = 86_400_000

/** The note of the last one, in the table of policies: milliseconds since 1970. */
const noteName = 'newStreamTakenAt'

interface NewStreamOptions {
  /** How long the stream must have been another one before the first attempt; 0 for never. */
  readonly afterMs: number
  /** Called with true when what was built may not be served, and with false when nothing is held back. */
  readonly onHeldBack: (isHeldBack: boolean) => void
  readonly logger: Logger
  /** Between two looks at what was built. */
  readonly countEveryMs?: number
}

export class NewStream {
  readonly #options: NewStreamOptions
  /** Since when the stream is another one. */
  #sinceMs: number | undefined
  #attempts = 0
  #looksAgainAtMs = 0
  #isWhole = false

  constructor(options: NewStreamOptions) {
    this.#options = options
  }

  /** Whether rebuilds may begin by themselves at all. */
  get isAllowed(): boolean {
    return this.#options.afterMs > 0
  }

  /** Whether an attempt is due. @param isAnother what is known of the stream now; undefined: nothing */
  async isDue(present: IndexWriter, isAnother: boolean | undefined): Promise<boolean> {
    if (!this.isAllowed || isAnother === undefined) return false
    if (!isAnother) {
      this.#sinceMs = undefined
      return false
    }
    const nowMs = Date.now()
    // Times after the present moment are of a clock that was ahead.
    this.#sinceMs = Math.min(this.#sinceMs ?? nowMs, nowMs)
    const waitMs = Math.min(dayMs, this.#options.afterMs * 2 ** this.#attempts)
    if (nowMs - this.#sinceMs < waitMs) return false
    const [note] = await present.write((batch) => batch.load('policies', [noteName]))
    const notedMs = Number(note?.value ?? 0)
    return notedMs > nowMs || nowMs - notedMs >= dayMs
  }

  /** An attempt begins. */
  begin(): void {
    this.#attempts++
    this.#sinceMs = undefined
    this.#looksAgainAtMs = 0
    this.#isWhole = false
  }

  /** An attempt ends, with or without what it was for. */
  end(): void {
    this.#options.onHeldBack(false)
  }

  /** Whether what was built may take the place of the present generation, which is not written to. */
  async isWhole(present: IndexWriter, built: IndexWriter): Promise<boolean> {
    if (this.#isWhole || Date.now() < this.#looksAgainAtMs) return this.#isWhole
    const [share, isBehind] = [await shareOf(present, built), await isOlder(built, present)]
    this.#isWhole = share >= accountsShareMin && !isBehind
    this.#looksAgainAtMs = Date.now() + (this.#options.countEveryMs ?? countEveryMs)
    this.#options.onHeldBack(!this.#isWhole)
    if (!this.#isWhole) {
      this.#options.logger.warn(
        { accountsShare: share, isBehind },
        'the new stream lacks accounts or is behind; the index waits for it. To take it over all the same: tributary index rebuild',
      )
    }
    return this.#isWhole
  }

  /** Notes in what was built that it is served by itself. */
  async note(built: IndexWriter): Promise<void> {
    this.#attempts = 0
    await built.write((batch) => batch.put('policies', [{ name: noteName, value: String(Date.now()) }]))
  }
}

/** Takes the note of the last one over into a generation that an operator has asked for. */
export async function keepNote(present: IndexWriter, built: IndexWriter): Promise<void> {
  const notes = await present.write((batch) => batch.load('policies', [noteName]))
  await built.write((batch) => batch.put('policies', notes))
}

/** Which share of the accounts that are shown of `present` have records in `built`; 1 when there are none. */
async function shareOf(present: IndexWriter, built: IndexWriter): Promise<number> {
  let [all, known] = [0, 0]
  for (let last: RowOf<'accounts'> | undefined; ;) {
    const page: RowOf<'accounts'>[] = await present.write((batch) => batch.page('accounts', last))
    const shown = page.filter(({ isAuthor, hidden }) => isAuthor === 1n && hidden === 0n)
    const dids = shown.map(({ did }) => did)
    const found = await built.write((batch) => batch.load('accounts', dids, ['isAuthor']))
    all += dids.length
    known += found.filter(({ isAuthor }) => isAuthor === 1n).length
    last = page.at(-1)
    if (last === undefined) return all === 0 ? 1 : known / all
  }
}

/** Whether the newest event of one is from before the newest of the other. */
async function isOlder(one: IndexWriter, other: IndexWriter): Promise<boolean> {
  const time = parseDatetime(await new FollowedStream(one).newestTime())
  const otherTime = parseDatetime(await new FollowedStream(other).newestTime())
  return otherTime !== undefined && (time === undefined || time < otherTime)
}
