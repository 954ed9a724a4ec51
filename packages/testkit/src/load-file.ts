/**
 * Recorded load on disk: really signed commits, made once and replayed as often as wanted.
 *
 * - `FILE.frames`: the messages of a host's event stream in order, each already framed as a server
 *   sends it over a WebSocket, so its header is its length prefix and any run of them can be written
 *   to a socket as it is. The event at index `i` has the seq `i + 1`.
 * - `FILE.index`: per event two little-endian u32: bytes in the frames file, index of its account.
 * - `FILE.json`: the parameters, how to tell an event from its `rev`, and the accounts with their PLC
 *   operations. Written last: without it the load is not complete.
 */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import type { Operation } from '@did-plc/lib'
import { microsOfTid, tidAt } from './tid.ts'

/** What a load is made from; the same values give the same bytes. */
export interface LoadParameters {
  accounts: number
  commits: number
  seed: number
}

export interface LoadAccount {
  did: string
  handle: string
  /** The key that signs its commits, as `did:key:…`. */
  signingKey: string
  /** The operation that makes the DID, for a real PLC directory. Names a host that does not exist. */
  genesis: Operation
}

export interface LoadInfo {
  version: number
  parameters: LoadParameters
  /** The commit at index `i` has the time of its `rev` at `startMicros + i * stepMicros`. */
  startMicros: number
  stepMicros: number
  frameBytes: number
  /** How many commits of each kind; a recreate is a create of a path that was deleted before. */
  kinds: Record<'create' | 'update' | 'delete' | 'recreate', number>
  /** Median of the number of records per account at the end. */
  recordsMedian: number
  accounts: LoadAccount[]
}

/** Changes whenever the same parameters give other bytes. */
export const loadVersion = 1

const indexEntryBytes = 8

/** Where the parts of a load are. */
export function loadPaths(file: string): { frames: string; index: string; info: string } {
  return { frames: `${file}.frames`, index: `${file}.index`, info: `${file}.json` }
}

/** Reads what a load is. Throws when it is not there or was not completed. */
export function readLoadInfo(file: string): LoadInfo {
  return JSON.parse(readFileSync(loadPaths(file).info, 'utf8')) as LoadInfo // reason: written by createLoad.
}

/** The index of the commit with this `rev`; meaningless for a rev that is not of the load. */
export function eventIndexOf(info: Pick<LoadInfo, 'startMicros' | 'stepMicros'>, rev: string): number {
  return (microsOfTid(rev) - info.startMicros) / info.stepMicros
}

/** The `rev` of the commit at an index. */
export function revAt(info: Pick<LoadInfo, 'startMicros' | 'stepMicros'>, index: number): string {
  return tidAt(info.startMicros + index * info.stepMicros)
}

/** The header of a WebSocket message as a server sends it: final, binary, not masked. */
export function binaryHeader(length: number): Uint8Array {
  if (length < 126) return Uint8Array.of(0x82, length)
  if (length < 0x1_0000) return Uint8Array.of(0x82, 126, length >> 8, length & 0xff)
  const header = Buffer.alloc(10)
  header.writeUInt16BE(0x827f)
  header.writeBigUInt64BE(BigInt(length), 2)
  return header
}

function headerBytes(frame: Uint8Array): number {
  if (frame[1] === 127) return 10
  return frame[1] === 126 ? 4 : 2
}

/** An open load: random access to its events. */
export class Load implements Disposable {
  readonly info: LoadInfo
  /** Index of the account of each event. */
  readonly accountOf: Uint32Array
  /** Where each event begins in the frames file; one more entry for the end. */
  readonly offsets: Float64Array
  readonly #frames: number

  constructor(file: string) {
    const { frames, index } = loadPaths(file)
    this.info = readLoadInfo(file)
    const entries = readFileSync(index)
    const count = entries.length / indexEntryBytes
    this.accountOf = new Uint32Array(count)
    this.offsets = new Float64Array(count + 1)
    for (let event = 0; event < count; event++) {
      const length = entries.readUInt32LE(event * indexEntryBytes)
      this.offsets[event + 1] = (this.offsets[event] ?? 0) + length
      this.accountOf[event] = entries.readUInt32LE(event * indexEntryBytes + 4)
    }
    this.#frames = openSync(frames, 'r')
  }

  /** How many events there are. */
  get count(): number {
    return this.accountOf.length
  }

  /** The events from index `from` up to, but not, `to` as WebSocket frames in one buffer. */
  readFrames(from: number, to: number): Buffer {
    const start = this.offsets[from] ?? 0
    const bytes = Buffer.allocUnsafeSlow((this.offsets[to] ?? 0) - start)
    const read = readSync(this.#frames, bytes, 0, bytes.length, start)
    if (read !== bytes.length) throw new Error('the frames file is shorter than its index says')
    return bytes
  }

  /** The message of one event, without its WebSocket header. */
  readMessage(event: number): Buffer {
    const frame = this.readFrames(event, event + 1)
    return frame.subarray(headerBytes(frame))
  }

  [Symbol.dispose](): void {
    closeSync(this.#frames)
  }
}
