/**
 * A subscriber of the stream, and the model of what it must get: from any cursor each row that its filter wants, in
 * order and soon, or a notice by its name.
 */
import type { IncomingMessage } from 'node:http'
import type { EventKind } from '@tributary/protocol'
import { rowKind, type Row } from '@tributary/segment'
import { randomFrom, type Random } from '@tributary/testkit/disk'
import {
  clientFrame,
  ConsumerSocket,
  firstFrame,
  opcodeOf,
  opcodes,
  payloadOf,
  type Pace,
} from '@tributary/testkit/simulation'
import { XrpcError } from '@tributary/xrpc'
import { FairEnd } from './fair-end.ts'
import type { SocketsHeld } from './held-bytes.ts'
import { mayBeGone, type Ledger, type Shown } from './ledger.ts'
import type { Script } from './script.ts'
import type { Step } from './step.ts'
import type { StreamProcess } from './stream-process.ts'
import { subscribeTo } from './subscribe-to.ts'

type Join = Extract<Step, { do: 'join' }>

export interface Filter {
  kinds?: EventKind[]
  collections?: string[]
  dids?: string[]
}

/** A message may wait so long to be sent together with others. */
const flushMsMax = 60
/** Cursors from here on are times, in microseconds. */
const timesFrom = 1e15
const redialMs = { min: 10, max: 1000 }
/** How long a subscriber that takes everything waits for a row at most, while the disk is as it should be. */
const lateMs = 6000

/** The filter of a number. */
export function filterOf(number: number, dids: readonly string[]): Filter {
  const did = dids[number % dids.length] ?? ''
  const filters: Filter[] = [
    {},
    {},
    { kinds: ['commit'] },
    { collections: ['org.impact.*'] },
    { collections: ['org.impact.claim.activity'] },
    { dids: [did] },
    { kinds: ['identity', 'account', 'sync'] },
    { kinds: ['commit'], collections: ['org.impact.collection'], dids: [did] },
  ]
  if (number < filters.length) return filters[number] ?? {}
  const other = dids[(number + 1) % dids.length] ?? ''
  const more: Filter[] = [
    { kinds: ['account', 'identity'], dids: [did] },
    { collections: ['org.impact.claim.*', 'org.impact.claim.activity', 'org.impact.*'] },
    { dids: [did, other, did] },
    { kinds: ['account', 'commit'], collections: ['org.impact.claim.*'], dids: [other, did] },
    { collections: ['org.impact.claim.activity.*'], dids: [other] },
    { kinds: ['sync'] },
    { collections: ['org.impact.evaluation', 'org.impact.claim.activity.draft'] },
    { kinds: ['commit'], dids: [other] },
  ]
  return more[number % more.length] ?? {}
}

/** Whether a filter wants a row, in plain words. */
export function wants({ kinds, collections, dids }: Filter, row: Row): boolean {
  const kind = kindOf(row)
  if (kinds && !kinds.includes(kind)) return false
  if (dids && !dids.includes(row.did)) return false
  if (!collections) return true
  return kind !== 'commit' || collections.some((each) => isIn(each, row.collection))
}

function isIn(pattern: string, collection: string): boolean {
  return pattern.endsWith('.*') ? collection.startsWith(pattern.slice(0, -1)) : collection === pattern
}

function kindOf({ kind }: Row): EventKind {
  if (kind === rowKind.identity) return 'identity'
  if (kind === rowKind.account) return 'account'
  return kind === rowKind.sync ? 'sync' : 'commit'
}

export class Subscriber {
  readonly name: string
  readonly #dids: readonly string[]
  readonly #ledger: Ledger
  readonly #held: SocketsHeld
  readonly #random: Random
  #stream: StreamProcess | undefined
  #socket: ConsumerSocket | undefined
  #end: FairEnd | undefined
  readonly #address: string
  #join: Join | undefined
  #pace: Pace = 'fast'
  /** The newest seq that it has handled. */
  #cursor: number | undefined
  #inbox: Buffer = Buffer.alloc(0)
  #isGreeted = false
  #isTold = false
  /** It got a row at the moment at which that became visible, and has taken everything since. */
  #isLive = false
  /** What it is to be told of its cursor. */
  #notices = new Set<string>()
  /** It was told while it did not take everything. */
  #wasSlow = false
  #connectedAtMs = 0
  /** The place in `rows` of what comes next. */
  #next = 0

  constructor(
    index: number,
    script: Script,
    { dids, ledger, held }: { dids: readonly string[]; ledger: Ledger; held: SocketsHeld },
  ) {
    this.name = `subscriber ${index}`
    this.#address = `203.0.113.${index + 1}`
    this.#held = held
    this.#dids = dids
    this.#ledger = ledger
    this.#random = randomFrom(script.seed + index)
  }

  attach(stream: StreamProcess): void {
    this.detach()
    this.#stream = stream
    if (this.#join) this.#redial()
  }

  detach(): void {
    this.#cut()
    this.#stream = undefined
  }

  join(join: Join): void {
    this.#cut()
    if (join.filter !== this.#join?.filter) this.#cursor = undefined
    this.#join = join
    this.#pace = join.pace
    this.#dial(join.cursor)
  }

  leave(): void {
    this.#cut()
    this.#join = undefined
  }

  setPace(pace: Pace): void {
    this.#pace = pace
    this.#isLive = false
    if (this.#socket) this.#socket.pace = pace
  }

  /** What must hold at every moment. */
  now(nowMs: number): void {
    const overdue = this.#socket && this.#end?.overdue(nowMs)
    if (overdue !== undefined) return this.#broken(overdue)
    const missing = this.#missing
    const stream = this.#stream
    if (!missing || !stream || stream.hasFailed || this.#socket?.pace !== 'fast' || !this.#isGreeted) return
    const diskMs = stream.world.conditions.oddUntilMs('disk') + lateMs
    const sinceMs = Math.max(missing.atMs, this.#connectedAtMs, this.#socket.paceSinceMs, diskMs)
    if (nowMs - sinceMs > lateMs) this.#broken(`waits for ${missing.seq} since ${sinceMs}`)
  }

  /** What it still has to get, when nothing is in its way. */
  faults(): string[] {
    if (!this.#join) return []
    if (!this.#socket) return [`${this.name} is not connected`]
    const missing = this.#missing
    return missing ? [`${this.name} does not get ${missing.seq}`] : []
  }

  get #filter(): Filter {
    return filterOf(this.#join?.filter ?? 0, this.#dids)
  }

  /** The first row that it has not got and must get. */
  get #missing(): Shown | undefined {
    const filter = this.#filter
    const { rows } = this.#ledger
    for (let at = this.#next; at < rows.length; at++) {
      const shown = rows[at]
      if (shown && wants(filter, shown.row) && !this.#mayMiss(shown)) return shown
    }
    return undefined
  }

  #cut(): void {
    this.#socket?.destroy()
    this.#socket = undefined
  }

  #redial(): void {
    const ms = redialMs.min + this.#random.next() * (redialMs.max - redialMs.min)
    this.#stream?.clock.after(ms, () => {
      if (this.#join && !this.#socket) this.#dial('own')
    })
  }

  #dial(wish: Join['cursor']): void {
    if (this.#stream?.isListening === true && this.#join) this.#dialAt(this.#stream, this.#cursorFor(wish))
  }

  #dialAt(stream: StreamProcess, cursor: number | undefined): void {
    const socket = new ConsumerSocket(this.#pace, {
      clock: stream.clock,
      random: this.#random,
      onBytes: (bytes, writtenAtMs) => this.#take(bytes, writtenAtMs),
      onWritten: (bytes) => {
        const fault = end.written(bytes)
        if (fault !== undefined) this.#broken(fault)
        this.#held.written(this.name, bytes)
        if (bytes.includes('all readers hold too many') && !this.#held.mayBeTooMuch)
          this.#broken('is ended for what readers hold, and they hold little')
        if (!bytes.includes('"$type":"error"')) return
        this.#isTold = true
        this.#wasSlow = this.#pace !== 'fast'
      },
      onTaken: () => {},
    })
    const end = new FairEnd(stream.world, socket)
    this.#socket = socket
    this.#end = end
    this.#held.opened(this.name, socket)
    this.#inbox = Buffer.alloc(0)
    this.#isGreeted = this.#isTold = this.#isLive = false
    this.#connectedAtMs = stream.world.time.nowMs
    this.#ledger.note(`${this.name} joins at ${cursor}`)
    socket.once('close', () => this.#onClosed(socket, stream))
    const { delivery } = stream.parts
    const { headSeq } = delivery
    const isTime = cursor !== undefined && cursor >= timesFrom
    const nowMs = stream.clock.nowMs()
    // A cursor is the first seq or time that is wanted. Ahead of all there is, it stands for now.
    const from = cursor === undefined || (!isTime && cursor > headSeq + 1) ? headSeq + 1 : cursor
    const { rows } = this.#ledger
    const next = rows.findIndex(({ seq, row }) => (isTime ? row.witnessedAt : seq) >= from)
    this.#next = next < 0 ? rows.length : next
    const isAhead = next < 0 && cursor !== undefined && cursor > (isTime ? (nowMs + 1) * 1000 : headSeq + 1)
    const isOutdated = isTime && cursor < (delivery.oldestWitnessedAt() ?? 0)
    this.#notices = new Set([...(isAhead ? ['FutureCursor'] : []), ...(isOutdated ? ['OutdatedCursor'] : [])])
    const address = this.#address
    subscribeTo(
      stream,
      { request: requestOf(this.name), socket, address, filter: this.#filter, cursor },
      (error) => {
        const floor = error instanceof XrpcError && Number(/is below (\d+)/.exec(error.message)?.[1])
        if (!floor || cursor === undefined) return stream.fail(error)
        const fault = this.#faultOfFloor(stream, { cursor, floor, nowMs })
        if (fault !== undefined) return this.#broken(fault)
        if (this.#socket !== socket) return
        this.#cut()
        this.#dialAt(stream, floor)
      },
    )
  }

  /** What is wrong with a refusal of a cursor, because it is below the oldest seq that may be asked for. */
  #faultOfFloor(
    { world }: StreamProcess,
    { cursor, floor, nowMs }: { cursor: number; floor: number; nowMs: number },
  ): string | undefined {
    const { rows } = this.#ledger
    const oldestMicros = (nowMs - (world.bounds.lookBackMs ?? Infinity)) * 1000
    const below = rows.filter(({ seq }) => seq < floor)
    const isYoung = ({ seq, row }: Shown): boolean => seq >= cursor && row.witnessedAt >= oldestMicros
    return cursor >= floor || below.length === 0 || below.some(isYoung)
      ? `is refused at ${cursor}, for the floor ${floor}`
      : undefined
  }

  #onClosed(socket: ConsumerSocket, stream: StreamProcess): void {
    if (this.#socket !== socket) return
    this.#socket = undefined
    const isFair = this.#isTold || stream.hasFailed || !stream.isListening || this.#pace !== 'fast'
    const pingMs = 60_000
    if (!isFair && stream.world.time.nowMs - socket.paceSinceMs > pingMs)
      this.#broken('is cut off without a word')
    this.#redial()
  }

  #cursorFor(wish: Join['cursor']): number | undefined {
    const { rows, lastSeq } = this.#ledger
    if (wish === 'none') return undefined
    if (wish === 'start') return 0
    const [oldest] = rows
    if (wish === 'edge') {
      const seq = this.#random.pick([oldest?.seq ?? 1, lastSeq, lastSeq + 1])
      return Math.max(0, seq - 1 + this.#random.below(3))
    }
    // A time may stand for the oldest row that can be replayed, which then is told.
    if (wish === 'time' && oldest && this.#stream?.world.bounds.lookBackMs === undefined)
      return this.#random.pick(rows).row.witnessedAt + this.#random.pick([-1, 0, 0, 1])
    if (wish === 'future') return lastSeq + 2 + this.#random.below(1000)
    if (wish === 'back' && rows.length > 0) return this.#random.pick(rows).seq + this.#random.below(2)
    return this.#cursor === undefined ? undefined : this.#cursor + 1
  }

  #take(bytes: Buffer, writtenAtMs: number): void {
    this.#inbox = Buffer.concat([this.#inbox, bytes])
    if (!this.#isGreeted) {
      const end = this.#inbox.indexOf('\r\n\r\n')
      if (end < 0) return
      this.#inbox = this.#inbox.subarray(end + 4)
      this.#isGreeted = true
    }
    for (let frame = firstFrame(this.#inbox); frame && this.#socket; frame = firstFrame(this.#inbox)) {
      this.#inbox = this.#inbox.subarray(frame.length)
      const opcode = opcodeOf(frame)
      if (opcode === opcodes.close) this.#socket.destroy()
      else if (opcode === opcodes.ping) {
        if (this.#pace !== 'mute') this.#socket.push(clientFrame(opcodes.pong, payloadOf(frame)))
      } else if (opcode === opcodes.text) this.#message(payloadOf(frame).toString(), writtenAtMs)
    }
  }

  #message(text: string, writtenAtMs: number): void {
    const { $type, error, message, payload } = JSON.parse(text) as Message
    if ($type === 'error') {
      this.#ledger.note(`${this.name} is told ${error}: ${message}`)
      const isSlow = error === 'ConsumerTooSlow' && this.#wasSlow
      const isOurs = error === 'ServiceRestart' || isSlow || this.#stream?.world.storage.hasFailed
      if (!isOurs) return this.#broken(`is told ${error}: ${message}`)
      const cursor = Number(/resume with cursor=(\d+)/.exec(message)?.[1])
      const missed = this.#missing
      if (missed && missed.seq <= cursor) this.#broken(`is told ${cursor}, and did not get ${missed.seq}`)
      return
    }
    if (payload.$type.endsWith('#info')) {
      this.#ledger.note(`${this.name} is told ${payload.name}`)
      if (!this.#notices.delete(payload.name) && payload.name !== 'UnwatchedCollections')
        this.#broken(`is told ${payload.name}: ${payload.message}`)
      return
    }
    for (const notice of this.#notices) this.#broken(`is not told ${notice} before ${payload.seq}`)
    const shown = this.#comeTo(payload.seq)
    if (!shown || shown.row.did !== payload.did || !isRow(payload, shown.row))
      return this.#broken(`gets ${payload.seq}, and not ${this.#missing?.seq}`)
    this.#cursor = shown.seq
    // There are few subscribers, so nothing is gathered.
    const isAtOnce = writtenAtMs <= shown.atMs
    if (this.#isLive && !isAtOnce) this.#broken(`is live, and waits for ${shown.seq}`)
    const { pace, paceSinceMs = 0 } = this.#socket ?? {}
    this.#isLive = isAtOnce && pace === 'fast' && paceSinceMs < writtenAtMs
    const hidden = this.#ledger.hidden.get(shown.row.did)
    const wasHidden = hidden?.untilMs === Infinity && hidden.fromMs + flushMsMax < writtenAtMs
    if (wasHidden && kindOf(shown.row) === 'commit')
      this.#broken(`gets ${shown.seq} of an account that is hidden`)
  }

  /** The row of a seq, if it may come now. */
  #comeTo(seq: number): Shown | undefined {
    const { rows } = this.#ledger
    const filter = this.#filter
    for (let at = this.#next; at < rows.length; at++) {
      const shown = rows[at]
      if (!shown || !wants(filter, shown.row)) continue
      if (shown.seq === seq) {
        this.#next = at + 1
        return shown
      }
      if (!this.#mayMiss(shown)) return undefined
    }
    return undefined
  }

  /** Whether a row may be left out: it may have left the archive, or its account was hidden since the subscriber is here. */
  #mayMiss(shown: Shown): boolean {
    const { row } = shown
    if (mayBeGone(shown)) return true
    return kindOf(row) === 'commit' && (this.#ledger.hidden.get(row.did)?.untilMs ?? 0) >= this.#connectedAtMs
  }

  #broken(what: string): void {
    this.#ledger.onBroken(`${this.name} ${what}`)
    this.leave()
  }
}

/** A message of `subscribeEvents`, as far as a subscriber looks at it. */
interface Message {
  $type: string
  error: string
  message: string
  payload: {
    $type: string
    name: string
    message: string
    seq: number
    did: string
    rev?: string
    collection?: string
    rkey?: string
    record?: { text: string }
  }
}

function isRow({ $type, rev, collection, rkey, record }: Message['payload'], row: Row): boolean {
  if (!$type.endsWith(`#${kindOf(row)}`)) return false
  if (kindOf(row) !== 'commit') return true
  const isSame = rev === row.rev && collection === row.collection && rkey === row.rkey
  return isSame && (record === undefined || Buffer.from(row.payload).includes(record.text))
}

function requestOf(name: string): IncomingMessage {
  const headers = {
    upgrade: 'websocket',
    connection: 'Upgrade',
    'user-agent': name,
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    'sec-websocket-version': '13',
  }
  return { method: 'GET', url: '/', headers } as unknown as IncomingMessage // all of a request that `ws` reads
}
