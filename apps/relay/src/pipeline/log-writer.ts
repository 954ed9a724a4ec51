import type { EventLog } from '@tributary/event-log'
import { headerSize, writeHeader } from '@tributary/fanout'
import { RecentMap } from '@tributary/identity'
import type { Account } from '../state/account.ts'
import type { StateTrail } from '../state/state-trail.ts'
import type { LogMessage } from './plain-events.ts'
import { partialSyncKind, recordKinds } from './record-kinds.ts'

/** Accounts whose newest record is known to be a `#sync`: a megabyte. Of others a `#sync` may be logged twice. */
const syncsMax = 10_000

/** Where a record comes from. Records of our own name the account's source, and epoch and seq 0. */
export interface RecordOrigin {
  kind: number
  source: number
  epoch: number
  upstreamSeq: number
}

/** Appends events to the log as they came, with our seq in the place of the sender's. */
export class LogWriter {
  readonly #log: EventLog
  readonly #trail: StateTrail
  readonly #scratch = Buffer.alloc(32)
  /** By the row of the account. */
  readonly #syncs = new RecentMap<number, true>(syncsMax)
  /** Seq of the record that is timed until it is durable; 0 when there is none. */
  #timedSeq = 0
  #timedSinceMs = 0

  /** @param onDurable told how long a record took from being appended to being durable, for about one in each sync. */
  constructor(log: EventLog, trail: StateTrail, onDurable: (tookMs: number) => void) {
    this.#log = log
    this.#trail = trail
    log.onDurable((seq) => {
      if (this.#timedSeq === 0 || seq < this.#timedSeq) return
      this.#timedSeq = 0
      onDurable(performance.now() - this.#timedSinceMs)
    })
  }

  /** Whether the newest record of an account, but for `#identity`, is a `#sync`. Not remembered over a start. */
  endsInSync({ row }: Account): boolean {
    return this.#syncs.get(row) === true
  }

  /** @returns the seq. @throws LogWriteError after a disk fault. */
  append(
    origin: RecordOrigin,
    account: Account,
    { bytes, seqStart, seqEnd }: LogMessage,
    newCollections?: readonly string[],
  ): number {
    const scratch = this.#scratch
    const seqBytes = writeCborUnsigned(scratch, 16, this.#log.nextSeq)
    const length = bytes.length - (seqEnd - seqStart) + seqBytes
    writeHeader(scratch, 0, 'binary', length)
    const { kind, source, epoch, upstreamSeq } = origin
    if (kind === recordKinds.sync || kind === partialSyncKind) this.#syncs.set(account.row, true)
    else if (kind !== recordKinds.identity) this.#syncs.delete(account.row)
    const seq = this.#log.append(
      { kind, account: account.logId, source, epoch, upstreamSeq },
      scratch.subarray(0, headerSize(length)),
      bytes.subarray(0, seqStart),
      scratch.subarray(16, 16 + seqBytes),
      bytes.subarray(seqEnd),
    )
    if (this.#timedSeq === 0) {
      this.#timedSeq = seq
      this.#timedSinceMs = performance.now()
    }
    this.#trail.push(seq, account, newCollections)
    return seq
  }
}

/** Writes a CBOR unsigned integer in its shortest form. Returns its length. */
function writeCborUnsigned(target: Buffer, at: number, value: number): number {
  if (value < 24) {
    target[at] = value
    return 1
  }
  if (value < 0x100) {
    target[at] = 0x18
    target[at + 1] = value
    return 2
  }
  if (value < 0x10000) {
    target[at] = 0x19
    return target.writeUInt16BE(value, at + 1) - at
  }
  if (value < 0x100000000) {
    target[at] = 0x1a
    return target.writeUInt32BE(value, at + 1) - at
  }
  target[at] = 0x1b
  return target.writeBigUInt64BE(BigInt(value), at + 1) - at
}
