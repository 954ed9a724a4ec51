/**
 * Looks at all that the relay does, and holds it against what hosts sent: the promises of CONTRIBUTING.md and of the
 * boundary, after every step. What it knows of the relay is what a consumer of its log sees, and what it says when asked.
 */
import { decode, decodeFirst, type BytesWrapper } from '@atcute/cbor'
import type { LogSlice } from '@tributary/event-log'
import { decodeCar, encodeEvent, type EventBody } from '@tributary/testkit'
import { isContent, readAccountKind } from '../../src/pipeline/record-kinds.ts'
import type { RelayRefusal } from '../../src/refusals.ts'
import type { Source } from '../../src/sources/source.ts'
import type { UpstreamEvent } from '../../src/sources/upstream-event.ts'
import { sourceOf, type Entry, type SimulatedHost } from './hosts.ts'
import type { RelayProcess, Witness, World } from './relay-process.ts'

/** What somebody knows of an account who has read the log from its start. */
export interface View {
  rev: string | undefined
  /** The tree of the newest commit. Undefined after a `#sync`. */
  data: string | undefined
  /** The commit of a `#sync`, and who brought it. Undefined when anything else was read since, and after a start of the relay. */
  sync: { host: SimulatedHost; head: Uint8Array } | undefined
  /** The commits that were read do not lead to the newest one. */
  isBroken: boolean
  /** Undefined while nothing of the account has passed. */
  status: string | undefined
  /** The relay's operator left it out. */
  isExcluded: boolean
  /** Collections of its commits since it was deleted last. */
  collections: Set<string>
}

/** A record as readers see it. */
export interface Seen {
  seq: number
  did: string
  /** What its account wrote, which is left out while the account is hidden. */
  isContent: boolean
  /** The WebSocket message. */
  frame: Buffer
  visibleAtMs: number
}

/** Reasons for which nothing is refused that an honest host sends. */
const unjust: ReadonlySet<RelayRefusal> = new Set<RelayRefusal>([
  'malformed-event',
  'unknown-event',
  'oversize',
  'deprecated-flag',
  'invalid-ops',
  'malformed-record',
  'record-too-large',
  'missing-op-prev',
  'missing-block',
  'missing-prev-data',
  'invalid-mst',
  'malformed-time',
  'seq-not-increasing',
])

/** `#identity` events of one account that pass in a minute: ten, and ten more where two minutes meet. */
const hintsMax = { count: 20, windowMs: 60_000 }

/** A source has fewer messages. */
const seqsMax = 1e9

/** How long an answer of the directory takes at most until it is stored. */
const storedWithinMs = 30_000

/** How long a question that was decided on may wait for its turn, and its host may take for the one before it. */
const questionMsMax = 15_000

/** Records of this kind and above say that the operator left an account out. */
const excludedKind = 32

/** `lost`: nobody could read it any more, or an operator left it out. */
export type Outcome = 'logged' | 'refused' | 'repeated' | 'lost'

export class Watch implements Witness {
  readonly world: World
  readonly broken: string[] = []
  readonly views = new Map<string, View>()
  readonly outcomes = new Map<Entry, Outcome>()
  /** Messages that were handed to this process and are not done, and when. */
  readonly open = new Map<Entry, number>()
  /** Accounts of which something was logged that their present host did not send. */
  readonly muddled = new Set<string>()
  /** What happened, in order. */
  readonly trace: string[] = []
  readonly #deliveredMs = new Map<Entry, number>()
  /** All that has become visible, in order. */
  readonly records: Seen[] = []
  /** Since when, and until when, accounts are or were hidden the last time. */
  readonly hidden = new Map<string, { fromMs: number; untilMs: number }>()
  readonly #lastLogged = new Map<string, number>()
  /** When `#identity` events of accounts came that were passed on. */
  readonly #hints = new Map<string, number[]>()
  /** What hosts have said of accounts themselves. */
  readonly #said = new Set<string>()
  /** Questions to hosts. */
  readonly asked: { did: string; isStatus: boolean; atMs: number }[] = []
  #lastSeq = 0
  #lastTimeMs = 0
  /** The time of the newest record that was seen before its time: the clock was ahead. Later records may bear it, too. */
  #aheadMs = 0
  #startedMs = 0
  #endedMs = 0
  /** When there were many consumers. */
  crowdedAtMs = 0
  /** Processes so far. */
  starts = 0
  /** The message that was handed on last. */
  #delivered: Entry | undefined

  constructor(world: World) {
    this.world = world
  }

  onBroken = (what: string): void => {
    this.broken.push(what)
    this.note(`broken: ${what}`)
  }

  onStarted = (relay: RelayProcess, slices: readonly LogSlice[]): void => {
    this.note('started')
    this.open.clear()
    this.#hints.clear()
    this.#startedMs = this.world.time.nowMs
    this.starts++
    const { log } = relay.parts
    if (log.nextSeq <= this.#lastSeq) this.onBroken(`seq ${log.nextSeq} is given out again`)
    const seen = new Map(this.records.map((each) => [each.seq, each]))
    const missing = new Set([...seen.keys()].filter((seq) => seq > log.lastDeletedSeq))
    for (const slice of slices)
      for (let row = 0; row < slice.count; row++) {
        const seq = slice.seqAt(row)
        const before = seen.get(seq)
        missing.delete(seq)
        if (before === undefined) this.#record(relay, slice, row)
        else if (!before.frame.equals(slice.payloadAt(row)))
          this.onBroken(`seq ${seq} is another record after the start`)
      }
    for (const seq of missing) this.onBroken(`seq ${seq} was seen, and is gone after the start`)
    for (const view of this.views.values()) view.sync = undefined
    for (const did of this.hidden.keys()) this.onHidden(did, relay.isHidden(did))
    this.onRecovered(relay)
  }

  /** Told of each process that knows again what it must know. */
  onRecovered: (relay: RelayProcess) => void = () => {}

  /** An account is hidden from readers from now on, or not any more. */
  onHidden = (did: string, isHidden: boolean): void => {
    const { nowMs } = this.world.time
    const before = this.hidden.get(did)
    const wasHidden = before?.untilMs === Infinity
    if (isHidden && !wasHidden) this.hidden.set(did, { fromMs: nowMs, untilMs: Infinity })
    else if (before && !isHidden && wasHidden) before.untilMs = nowMs
  }

  /** Nobody is asked for accounts that are left out here, nor anything of a host that is banned. */
  onAsked = (relay: RelayProcess, host: SimulatedHost, did: string, isStatus: boolean): void => {
    const { nowMs } = this.world.time
    this.note(`asks ${host.index} for ${isStatus ? 'the status' : 'a commit'} of ${did}`)
    this.asked.push({ did, isStatus, atMs: nowMs })
    const isOld = (sinceMs = Infinity): boolean => nowMs - sinceMs > questionMsMax
    if (isOld(relay.bannedSinceMs.get(host.name))) this.onBroken(`${host.name} is asked, and is banned`)
    if (!isStatus && isOld(relay.leftOutSinceMs.get(did)))
      this.onBroken(`${host.name} is asked for a commit of ${did}, which is left out here`)
  }

  /** The process is gone. */
  ended(): void {
    // A run that was short may have stored nothing.
    if (this.world.time.nowMs - this.#startedMs > storedWithinMs || this.starts <= 1)
      this.#endedMs = this.world.time.nowMs
  }

  onDelivered = (entry: Entry): void => {
    this.#delivered = entry
    // A message that is read again may be under way since it came first.
    if (!this.open.has(entry)) this.#deliveredMs.set(entry, this.world.time.nowMs)
    if (!this.outcomes.has(entry)) this.open.set(entry, this.world.time.nowMs)
    this.note(`delivered ${entry.host.index} ${entry.seq}`)
    // A flood is felt from when it comes, and a relay that was down gets it late.
    const { directory, conditions } = this.world
    if (directory.hanging.has(entry.did)) conditions.set(`flood ${entry.host.index}`, 'on', 0)
  }

  onLost = (entries: readonly Entry[]): void => {
    for (const entry of entries) {
      if (this.outcomes.has(entry)) continue
      this.outcomes.set(entry, 'lost')
      const account = this.world.directory.accounts.get(entry.did)
      if (account) account.hasLost = true
    }
  }

  onRefused = (source: Source, reason: RelayRefusal, upstreamSeq: number | undefined): void => {
    // What cannot be read is refused while it is handed on.
    const entry = upstreamSeq === undefined ? this.#delivered : this.#hostOf(source.host)?.at(upstreamSeq)
    if (entry) this.#done(entry, 'refused')
    if (entry?.isHonest && (unjust.has(reason) || (reason === 'bad-signature' && this.#isKeyKnown(entry))))
      this.onBroken(`a real ${entry.kind} ${entry.seq} of ${source.host} is refused: ${reason}`)
    if (reason === 'internal-error') this.onBroken('A4: a message is refused for a defect')
    this.note(`refused ${source.host} ${upstreamSeq} ${reason}`)
  }

  /** Whether a message was signed with the key that a directory named which has been as it should be. */
  #isKeyKnown({ host, did, sentAtMs }: Entry): boolean {
    const { directory, conditions } = this.world
    const account = directory.accounts.get(did)
    if (!account || account.documents.some((each) => each.host !== host)) return false
    const places = ['directory', `directory ${account.index}`] as const
    return sentAtMs > account.changedAtMs && places.every((place) => conditions.oddUntilMs(place) === 0)
  }

  onRepeated = ({ source, receipt }: UpstreamEvent): void => {
    const entry = this.#hostOf(source.host)?.at(receipt.upstreamSeq)
    if (entry) this.#done(entry, 'repeated')
  }

  onVisible = (relay: RelayProcess, slices: readonly LogSlice[]): void => {
    for (const slice of slices) for (let row = 0; row < slice.count; row++) this.#record(relay, slice, row)
  }

  /** How often a host said something of an account since then, of one kind. */
  saidSince({ host, did }: Entry, kind: Entry['kind'], sinceMs: number): number {
    const said = [...this.#deliveredMs].filter(
      ([entry, ms]) => ms >= sinceMs && entry.host === host && entry.did === did && entry.kind === kind,
    )
    return said.length
  }

  viewOf(did: string): View {
    const known = this.views.get(did)
    if (known) return known
    const nothing = { rev: undefined, data: undefined, sync: undefined, status: undefined }
    const view = { ...nothing, isBroken: false, isExcluded: false, collections: new Set<string>() }
    this.views.set(did, view)
    return view
  }

  note(what: string): void {
    this.trace.push(`${this.world.time.nowMs} ${what}`)
  }

  #done(entry: Entry, outcome: Outcome): void {
    this.open.delete(entry)
    if (this.outcomes.get(entry) !== 'logged') this.outcomes.set(entry, outcome)
  }

  #hostOf(name: string): SimulatedHost | undefined {
    return this.world.sources.find((host) => host.name === name)
  }

  /** One record that everybody can read from now on. */
  #record(relay: RelayProcess, slice: LogSlice, row: number): void {
    const seq = slice.seqAt(row)
    if (seq <= this.#lastSeq) this.onBroken(`seq ${seq} comes after ${this.#lastSeq}`)
    this.#lastSeq = Math.max(this.#lastSeq, seq)
    const timeMs = slice.timeMsAt(row)
    if (timeMs < this.#lastTimeMs) this.onBroken(`record ${seq} has an earlier time than the one before it`)
    this.#lastTimeMs = timeMs
    const frame = Buffer.from(slice.payloadAt(row))
    const message = messageOf(frame)
    const visibleAtMs = this.world.time.nowMs
    if (timeMs > visibleAtMs) this.#aheadMs = timeMs
    const seen = { seq, did: '', isContent: isContent(slice.kindAt(row)), frame, visibleAtMs }
    this.records.push(seen)
    const { source, epoch, upstreamSeq } = slice.metaAt(row)
    const host = this.#hostOf(relay.parts.sources.byId(source)?.host ?? '')
    if (!host) return this.onBroken(`A1: record ${seq} is of no host`)
    if (upstreamSeq > 0 || isContent(slice.kindAt(row))) this.#checkBan(relay, host, slice, row)
    if (upstreamSeq === 0) {
      seen.did = this.#ownRecord(host, seq, slice.kindAt(row), message)
      // An operator may decide on the account of a banned host.
      if (!isContent(slice.kindAt(row)) && !relay.decidedAtMs.has(seen.did))
        this.#checkBan(relay, host, slice, row)
      return
    }
    const entry = host.at(upstreamSeq)
    this.note(`logged ${host.index} ${upstreamSeq} as ${seq}`)
    if (!entry) return this.onBroken(`A1: ${host.name} never sent what record ${seq} says`)
    seen.did = entry.did
    this.#checkEntry(entry, { seq, epoch, message })
    this.#done(entry, 'logged')
    if (entry.kind === 'account') {
      this.#checkNews(entry)
      this.#readStatus(message, slice.kindAt(row))
    } else this.#apply(entry)
  }

  /** Nothing is logged for what a banned host says. */
  #checkBan(relay: RelayProcess, { name }: SimulatedHost, slice: LogSlice, row: number): void {
    const atMs = slice.timeMsAt(row)
    if (atMs > this.#aheadMs && atMs > (relay.bannedSinceMs.get(name) ?? Infinity))
      this.onBroken(`record ${slice.seqAt(row)} is of ${name}, which is banned`)
  }

  /**
   * A status that is not known yet is not signed: it counts by an answer that the directory gave after it had come. What
   * another relay says counts by the word of the account's host besides, which is looked at elsewhere.
   */
  #checkNews(entry: Entry): void {
    const { host, did, seq, body } = entry
    const view = this.viewOf(did)
    const said = saidBy(body)
    // What the host of an account without a slot said last is not shown.
    if (view.isExcluded || view.status === 'throttled' || said === (view.status ?? 'active')) return
    const arrivedMs = this.#deliveredMs.get(entry) ?? 0
    const given = this.world.directory.given.get(did) ?? []
    const mayNameAny = host.isRelay
    if (!given.some(({ atMs, host: named }) => atMs >= arrivedMs && (mayNameAny || named === host)))
      this.onBroken(`A1: account ${seq} of ${host.name} says ${said} by a document from before it came`)
  }

  #checkEntry(entry: Entry, { seq, epoch, message }: { seq: number; epoch: number; message: Buffer }): void {
    const { host, did, kind, isHonest } = entry
    const name = `${kind} ${entry.seq} of ${host.name}`
    if (!isHonest) this.onBroken(`A1: a ${name} is passed on that is forged or wrong`)
    const lane = `${host.index} ${did}`
    const before = this.#lastLogged.get(lane) ?? 0
    const place = epoch * seqsMax + entry.seq
    const isAgain = this.outcomes.get(entry) === 'logged'
    if (isAgain && (kind === 'commit' || before >= place)) this.onBroken(`${name} is logged twice`)
    else if (before > place) this.onBroken(`${name} is logged after ${before % seqsMax} of the same account`)
    this.#lastLogged.set(lane, Math.max(before, place))
    if (!bodiesOf(entry).some((body) => message.equals(encodeEvent(`#${kind}`, { ...body, seq }))))
      this.onBroken(`A1: ${name} is not passed on as it was sent`)
    if (!this.#mayHaveSpoken(entry)) this.onBroken(`A1: ${name} is not of the host of its account`)
    const { status } = entry
    if (kind === 'identity') this.#countHint(entry)
    if (status === undefined) return
    if (host.isRelay && !this.#isConfirmed(did, status))
      this.onBroken(`A1: ${name} says ${status}, and no host of its account has said so`)
    this.#said.add(`${did} ${status}`)
  }

  /** An `#identity` is a hint to read a document, and few are enough. */
  #countHint(entry: Entry): void {
    const { did } = entry
    const atMs = this.#deliveredMs.get(entry) ?? 0
    const recent = (this.#hints.get(did) ?? []).filter((ms) => atMs - ms < hintsMax.windowMs)
    this.#hints.set(did, [...recent, atMs])
    // By a clock that was ahead more minutes pass.
    if (recent.length >= hintsMax.count && this.world.aheadMsMax === 0)
      this.onBroken(`more of ${did} is passed on than anybody needs`)
  }

  /** Whether a host of an account has said a word, or has told it when it was asked. Each account is active at first. */
  #isConfirmed(did: string, word: string): boolean {
    const { hosts, directory } = this.world
    const given = directory.given.get(did) ?? []
    return (
      word === 'active' ||
      this.#said.has(`${did} ${word}`) ||
      hosts.some((host) => host.told.get(did)?.has(word) && given.some((each) => each.host === host))
    )
  }

  /** Whether the directory named the host of a message: in its last answer before the message came, or since. */
  #mayHaveSpoken(entry: Entry): boolean {
    const arrivedMs = this.#deliveredMs.get(entry) ?? 0
    const given = this.world.directory.given.get(entry.did) ?? []
    const isKnownNow = given.some(({ atMs }) => atMs >= this.#startedMs && atMs < arrivedMs)
    // An answer that came just before a crash may not be stored, and nothing was done by it.
    const beforeMs = isKnownNow ? arrivedMs : Math.min(arrivedMs, this.#endedMs - storedWithinMs)
    const since = given.findLastIndex(({ atMs }) => atMs < beforeMs)
    const named = given.slice(Math.max(0, since))
    return named.some(({ host }) => (entry.host.isRelay ? !host.isRead : host === entry.host))
  }

  #apply({ host, did, kind, head, commit, seq }: Entry): void {
    const view = this.viewOf(did)
    if (!head) return
    view.status ??= 'active'
    if (view.isExcluded || view.status === 'throttled')
      this.onBroken(`${kind} ${seq} of ${host.name} passes though its account is left out`)
    const home = this.world.directory.accounts.get(did)?.host
    if (home && sourceOf(home, this.world.sources) === host) this.muddled.delete(did)
    else this.muddled.add(did)
    const isNewer = view.rev === undefined || head.rev > view.rev
    if (!isNewer && (kind === 'commit' || head.rev !== view.rev))
      this.onBroken(`rev ${head.rev} of ${did} comes after ${view.rev}`)
    // After a #sync nobody has the tree that the next commit names.
    const isOtherTree = view.data !== undefined && commit?.prevData !== view.data
    if (kind === 'sync') view.isBroken = false
    else if (view.rev !== undefined && (commit?.since !== view.rev || isOtherTree)) view.isBroken = true
    view.rev = head.rev
    view.data = commit?.data
    view.sync = kind === 'sync' ? { host, head: head.bytes } : undefined
    const written = kind === 'commit' ? commit?.collections : undefined
    for (const collection of written ?? []) view.collections.add(collection)
  }

  /** What consumers are told of an account. */
  #readStatus(message: Buffer, kind: number): void {
    const [, body] = read(message)
    const view = this.viewOf(String(body['did']))
    view.status = saidBy(body)
    view.sync = undefined
    view.isExcluded = kind >= excludedKind
    if (readAccountKind(kind, view.status)?.upstreamStatus === 'deleted') view.collections.clear()
  }

  /** A record that the relay has made itself. @returns its account. */
  #ownRecord(host: SimulatedHost, seq: number, kind: number, message: Buffer): string {
    const [{ t }, body] = read(message)
    const did = String(body['did'])
    const view = this.viewOf(did)
    this.note(`logged own ${t} of ${did} as ${seq}`)
    if (!message.equals(encodeEvent(t, body))) this.onBroken(`A5: record ${seq} is not canonical`)
    if (t === '#account') {
      this.#readStatus(message, kind)
      return did
    }
    const rev = String(body['rev'])
    const blocks = decodeCar((body['blocks'] as BytesWrapper).buf) // as the lexicon has it
    const heads = this.world.hosts.flatMap((host) => host.heads.get(did) ?? [])
    const isOf = (head: Uint8Array): boolean =>
      [...blocks.values()].some((bytes) => Buffer.from(bytes).equals(head))
    const real = heads.find((head) => head.rev === rev && isOf(head.bytes))
    if (!real) this.onBroken(`A1: no host has the commit that the relay gives for ${did}`)
    const { sync } = view
    if (sync?.host === host && isOf(sync.head))
      this.onBroken(`record ${seq} says of ${did} what the #sync before it says`)
    view.sync = real && { host, head: real.bytes }
    if (view.rev !== undefined && rev < view.rev)
      this.onBroken(`rev ${rev} of ${did} comes after ${view.rev}`)
    view.status ??= 'active'
    view.rev = rev
    view.data = undefined
    view.isBroken = false
    return did
  }
}

/** The status that an `#account` gives. */
function saidBy(body: EventBody): string {
  const { active, status } = body as { active: boolean; status?: string } // an #account that passed
  return active ? 'active' : (status ?? 'inactive')
}

/** What a message may look like when it is passed on. */
function bodiesOf({ kind, body }: Entry): EventBody[] {
  if (kind === 'identity') {
    const { handle: _, ...plain } = body
    return [body, plain]
  }
  if (kind !== 'account') return [body]
  const { status: _, ...plain } = body
  const words = ['takendown', 'suspended', 'throttled'].map((status) => ({ ...plain, active: false, status }))
  return [body, ...words]
}

function read(message: Buffer): [header: { t: string }, body: EventBody] {
  const [header, rest] = decodeFirst(message) as [{ t: string }, Uint8Array] // of a message that passed
  return [header, decode(rest) as EventBody] // likewise
}

/** The message within a stored WebSocket frame. */
function messageOf(frame: Buffer): Buffer {
  const short = frame.readUInt8(1)
  return frame.subarray(short < 126 ? 2 : short === 126 ? 4 : 10)
}
