/** The relay that the stream reads, the accounts whose events it passes on, and the directory that has their documents. */
import { createHash } from 'node:crypto'
import { FetchError, type SafeFetchOptions, type SafeResponse } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { readMessage } from '@tributary/repo-verify'
import { encodeCar, encodeEvent, SignedRepo, Signer, type EventBody } from '@tributary/testkit'
import type { ProcessClock, VirtualTime } from '@tributary/testkit/simulation'
import type { RelayReader } from '../../src/ingest/ingest.ts'
import type { RelayConnectionOptions } from '../../src/ingest/relay-connection.ts'
import type { StreamConditions } from './conditions.ts'

/** An event of the relay. */
export interface Entry {
  did: string
  kind: string
  body: EventBody
  /** When it was sent first. Another time for each that has no revision. */
  time: string
  /** Who has signed a commit. */
  signer?: Signer | undefined
}

interface Numbered {
  seq: number
  entry: Entry
}

/** Messages that one packet of the relay may hold. */
const packetMax = 8
/** Former repositories that are kept of an account. */
const formerMax = 4
const signers = new Map<string, Signer>()
const base32 = 'abcdefghijklmnopqrstuvwxyz234567'

/** Keys are the same for all seeds, since making one takes longer than a signature. */
export function signerOf(name: string): Signer {
  let signer = signers.get(name)
  if (!signer) signers.set(name, (signer = Signer.fromSeed(name)))
  return signer
}

export class SimulatedAccount {
  readonly index: number
  readonly did: Did
  readonly repo: SignedRepo
  /** Those that its document has named, the newest last. */
  readonly signers: Signer[]
  status = 'active'
  /** The relay did not pass on its newest commit. */
  isMuddled = false
  syncedRev = ''
  /** Its repository as it was before its newest commits, the newest last, for hosts that give former ones. */
  readonly former: Uint8Array[] = []
  readonly #keepsFormer: boolean

  /** @param keepsFormer whether its host may give former repositories. */
  constructor(index: number, name: string, keepsFormer = false) {
    const digest = createHash('sha256').update(name).digest()
    const text = Array.from(digest.subarray(0, 24), (byte) => base32.charAt(byte & 31)).join('')
    this.index = index
    this.#keepsFormer = keepsFormer
    this.did = `did:plc:${text}` as Did // of the right form
    const signer = signerOf(`stream ${index}`)
    this.signers = [signer]
    this.repo = new SignedRepo(this.did, signer)
  }

  /** It is about to write: keeps its repository as it is now, if its host may give former ones. */
  keepFormer(): void {
    if (!this.#keepsFormer || this.repo.rev === null) return
    this.former.push(encodeCar(this.repo.head.cid, this.repo.blocks()))
    if (this.former.length > formerMax) this.former.shift()
  }

  /** Its document names another key from now on. */
  changeKey(): Signer {
    const signer = signerOf(`stream ${this.index} ${this.signers.length}`)
    this.signers.push(signer)
    return signer
  }
}

export class SimulatedRelay {
  readonly #time: VirtualTime
  readonly #conditions: StreamConditions
  #journal: Numbered[] = []
  #seq = 0
  #isRenumbered = false
  /** How often it was replaced by another one, and which of these its readers have. */
  #replaced = 0
  #readAs = 0
  #keptFrom = 0
  #keptBefore = 0
  #sentMs = 0
  /** What is to be sent when its reader has taken note of the new numbers. */
  #held: { entry: Entry; skipped: number }[] | undefined
  #wake: () => void = () => {}

  constructor(time: VirtualTime, conditions: StreamConditions) {
    this.#time = time
    this.#conditions = conditions
  }

  get tip(): number {
    return this.#seq
  }

  get hostname(): string {
    return `relay${this.#replaced === 0 ? '' : this.#replaced}.example.com`
  }

  /**
   * The next process reads another relay, which has the events after a position of this one, and some before, under numbers
   * of its own.
   */
  replace(cursor: number, before: number): void {
    this.#replaced++
    this.#keptFrom = this.#held ? 0 : cursor
    this.#keptBefore = before
  }

  /** @param skipped seqs that it gives to nobody. */
  emit(did: string, kind: string, body: EventBody, skipped: number, signer?: Signer): Entry {
    const isNamedByTime = kind === 'identity' || kind === 'account'
    this.#sentMs = Math.max(this.#sentMs + Number(isNamedByTime), Math.floor(this.#time.nowMs))
    const entry = { did, kind, body, time: new Date(this.#sentMs).toISOString(), signer }
    if (this.#held) this.#held.push({ entry, skipped })
    else this.#append(entry, skipped)
    return entry
  }

  /** Its reader has saved a position. Events that come before could not be told from those that it has seen. */
  release(cursor: number): void {
    if (!this.#held || cursor > this.#seq) return
    const held = this.#held
    this.#held = undefined
    for (const { entry, skipped } of held) this.#append(entry, skipped)
  }

  #append(entry: Entry, skipped: number): void {
    this.#seq += 1 + skipped
    this.#journal.push({ seq: this.#seq, entry })
    this.#wake()
  }

  /**
   * Begins its numbers again with all that came after a position, and some before. False when a reader that stands there
   * could not tell.
   */
  renumber(cursor: number, before: number): boolean {
    const from = Math.max(0, this.#journal.findIndex(({ seq }) => seq > cursor) - before)
    const kept = this.#journal.slice(this.#journal.at(-1)?.seq === cursor ? -before : from)
    if (kept.length >= cursor) return false
    this.#isRenumbered = true
    this.#journal = kept.map(({ entry }, index) => ({ seq: index + 1, entry }))
    this.#seq = kept.length
    this.#held = []
    this.#wake()
    return true
  }

  #numberAnew(): void {
    this.#readAs = this.#replaced
    this.#isRenumbered = true
    const held = this.#held?.map(({ entry }) => entry) ?? []
    this.#held = undefined
    const done = this.#journal.filter(({ seq }) => seq <= this.#keptFrom)
    const kept = this.#journal.slice(Math.max(0, done.length - this.#keptBefore))
    this.#journal = [...kept.map(({ entry }) => entry), ...held].map((entry, index) => ({
      seq: index + 1,
      entry,
    }))
    this.#seq = this.#journal.length
  }

  /** The event with a seq. Undefined once the relay has begun its numbers again: then it may be another one. */
  at(seq: number): Entry | undefined {
    const found = this.#isRenumbered ? undefined : this.#after(seq - 1)
    return found?.seq === seq ? found.entry : undefined
  }

  /** Reads it as `RelayConnection` does. */
  connect(
    clock: ProcessClock,
    options: RelayConnectionOptions,
    onThrown: (error: unknown) => void,
  ): RelayReader {
    const { cursor, onEvent, onDefect, onRenumbered } = options
    if (this.#readAs !== this.#replaced) this.#numberAnew()
    const conditions = this.#conditions
    const over = Promise.withResolvers<void>()
    let position: number | undefined
    let isPaused = false
    let isScheduled = false
    let isOver = false
    const dial = (): void => {
      const after = cursor()
      if (after > this.#seq) return onRenumbered()
      position = after
    }
    const deliver = (from: number): void => {
      position = from
      for (let count = Math.ceil(conditions.some(0, packetMax)); count > 0; count--) {
        if (isPaused) return
        const next = this.#after(position)
        if (!next || this.#aheadMs(next) > 0) return
        position = next.seq
        const bytes = Buffer.from(encodeEvent(`#${next.entry.kind}`, bodyOf(next)))
        try {
          const message = readMessage(bytes)
          if (message.ok && (message.kind === 'info' || message.kind === 'error')) return
          onEvent(message, bytes.length)
        } catch (error) {
          onDefect(error, bytes)
        }
      }
    }
    const schedule = (): void => {
      if (isOver || isScheduled || (position !== undefined && (isPaused || !this.#after(position)))) return
      isScheduled = true
      const slowMs =
        (conditions.of('link') === 'slow' ? conditions.some(100, 2000) : conditions.some(0, 10)) +
        this.#aheadMs(position === undefined ? undefined : this.#after(position))
      clock.after(position === undefined ? slowMs + conditions.some(10, 1000) : slowMs, () => {
        isScheduled = false
        if (!isOver) step()
      })
    }
    const step = (): void => {
      const manner = conditions.of('link')
      try {
        if (manner === 'down' || (manner === 'jumpy' && conditions.chance(0.2))) position = undefined
        // Its numbers begin again below what was read: the connection ended with it.
        else if (position === undefined || position > this.#seq) dial()
        else deliver(position)
      } catch (error) {
        onThrown(error)
      }
      schedule()
    }
    this.#wake = () => {
      if (position !== undefined && position > this.#seq) position = undefined
      schedule()
    }
    return {
      run: async (signal) => {
        signal.addEventListener('abort', () => {
          isOver = true
          over.resolve()
        })
        schedule()
        await over.promise
      },
      markHealthy: () => {},
      pause: () => {
        isPaused = true
      },
      resume: () => {
        isPaused = false
        schedule()
      },
    }
  }

  /** How far the time of an event lies ahead. It comes when it is there, as that of a host whose clock is right. */
  #aheadMs(next: Numbered | undefined): number {
    return next === undefined ? 0 : Math.max(0, Date.parse(next.entry.time) - this.#time.nowMs)
  }

  #after(seq: number): Numbered | undefined {
    const journal = this.#journal
    let [low, high] = [0, journal.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((journal[middle]?.seq ?? 0) <= seq) low = middle + 1
      else high = middle
    }
    return journal[low]
  }
}

function bodyOf({ seq, entry: { body, time } }: Numbered): EventBody {
  return { ...body, seq, time }
}

/** Answers as `safeFetch` does for documents. */
export function directoryOf(
  accounts: readonly SimulatedAccount[],
  clock: ProcessClock,
  conditions: StreamConditions,
): (url: string, options: SafeFetchOptions) => Promise<SafeResponse> {
  return async (url, { timeoutMs = 5000 }) => {
    const did = decodeURIComponent(url.slice(url.lastIndexOf('/') + 1))
    const account = accounts.find((each) => each.did === did)
    const manner = conditions.of('directory')
    const waitMs = manner === 'late' ? conditions.some(500, 4900) : conditions.some(2, 40)
    return await new Promise((resolve, reject) => {
      const answer = (status: number, body: string): void =>
        resolve({ status, headers: {}, body: Buffer.from(body) })
      if (manner === 'silent') clock.after(timeoutMs, () => reject(new FetchError('no answer in time')))
      else if (manner === 'failing') clock.after(waitMs, () => answer(503, ''))
      else
        clock.after(waitMs, () => {
          // A directory that is wrong tells of somebody else.
          const told =
            manner === 'mixed-up' ? accounts[((account?.index ?? 0) + 1) % accounts.length] : account
          if (told) answer(200, documentOf(told))
          else answer(404, '')
        })
    })
  }
}

function documentOf({ did, index, signers: keys }: SimulatedAccount): string {
  const publicKeyMultibase = keys.at(-1)?.did().slice('did:key:'.length)
  const key = { id: `${did}#atproto`, type: 'Multikey', controller: did, publicKeyMultibase }
  const type = 'AtprotoPersonalDataServer'
  return JSON.stringify({
    id: did,
    alsoKnownAs: [`at://account${index}.example.com`],
    verificationMethod: [key],
    service: [{ id: '#atproto_pds', type, serviceEndpoint: 'https://pds.example.com' }],
  })
}
