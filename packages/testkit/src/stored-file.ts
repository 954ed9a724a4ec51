/**
 * What a file and a directory are on a disk that may lose its power: what was synced, and every change since then, each
 * of which may have reached the disk or not.
 */
import type { Random } from './random.ts'

/** What the disk writes whole or not at all. */
const sectorBytes = 512

/** Bytes that were written, or a new length. */
export type FileChange = ({ at: number; bytes: Buffer } | { length: number }) & {
  isSynced: boolean
  /** The system could not bring it to the disk, and counts it as done: no sync does so any more. */
  isGivenUp?: boolean
}

export class StoredFile {
  readonly #synced: Content
  /** Oldest first. */
  #changes: FileChange[] = []

  constructor(synced: Buffer = Buffer.alloc(0)) {
    this.#synced = new Content(synced)
  }

  change(change: FileChange): void {
    this.#changes.push(change)
  }

  /** A change that was not made after all. */
  takeBack(change: FileChange): void {
    this.#changes = this.#changes.filter((other) => other !== change)
  }

  /** Bytes that are not on the disk could not be brought there. Programs read them all the same. */
  giveUp(): void {
    for (const change of this.#changes) if ('at' in change && !change.isSynced) change.isGivenUp = true
  }

  /** One change, or all of them, are on the disk now. */
  sync(only?: FileChange): void {
    for (const change of this.#changes)
      if (!change.isGivenUp) change.isSynced ||= only === undefined || change === only
    const end = this.#changes.findIndex(({ isSynced }) => !isSynced)
    for (const change of this.#changes.splice(0, end < 0 ? this.#changes.length : end))
      this.#synced.apply(change)
  }

  /** What may be on the disk: of all that was not synced, each sector has arrived with this probability. */
  afterPowerCut(random: Random, arrives: number): Buffer {
    const changes = this.#changes.flatMap((change): FileChange[] => {
      if (change.isSynced) return [change]
      if (!('at' in change)) return random.next() < arrives ? [change] : []
      const { at, bytes } = change
      const sectors = sectorsOf(at, bytes).filter(() => random.next() < arrives)
      // The length may have arrived without the bytes.
      const isLonger = random.next() < arrives
      return isLonger
        ? [{ at: at + bytes.length, bytes: Buffer.alloc(0), isSynced: false }, ...sectors]
        : sectors
    })
    const content = new Content(this.#synced.bytes)
    for (const change of changes) content.apply(change)
    return content.bytes
  }
}

function sectorsOf(at: number, bytes: Buffer): FileChange[] {
  const sectors: FileChange[] = []
  for (let start = at; start < at + bytes.length;) {
    const end = Math.min(start - (start % sectorBytes) + sectorBytes, at + bytes.length)
    sectors.push({ at: start, bytes: bytes.subarray(start - at, end - at), isSynced: false })
    start = end
  }
  return sectors
}

/** Bytes that get longer and shorter in place. What is added without being written is zero. */
class Content {
  #room: Buffer
  #length: number

  constructor(bytes: Buffer) {
    this.#room = Buffer.from(bytes)
    this.#length = bytes.length
  }

  get bytes(): Buffer {
    return this.#room.subarray(0, this.#length)
  }

  apply(change: FileChange): void {
    if (!('at' in change)) {
      this.#room.fill(0, Math.min(this.#length, change.length))
      this.#setLength(change.length)
      return
    }
    this.#setLength(Math.max(this.#length, change.at + change.bytes.length))
    change.bytes.copy(this.#room, change.at)
  }

  #setLength(length: number): void {
    if (length > this.#room.length) this.#room = Buffer.concat([this.bytes], 2 * length)
    this.#length = length
  }
}

/** Names that change together: a file without a value is gone. */
type NameChange = readonly [name: string, node: StoredNode | undefined][]

export type StoredNode = StoredFile | StoredDirectory

export class StoredDirectory {
  /** As running programs see it. */
  readonly names: Map<string, StoredNode> = new Map()
  #synced = new Map<string, StoredNode>()
  #changes: NameChange[] = []

  change(change: NameChange): void {
    this.#changes.push(change)
    applyNames(this.names, change)
  }

  /** All names are on the disk now. What the files hold may not be. */
  sync(): void {
    this.#synced = new Map(this.names)
    this.#changes = []
  }

  /** The names that may be on the disk: each change since the last sync has arrived with this probability. */
  afterPowerCut(random: Random, arrives: number): Map<string, StoredNode> {
    const names = new Map(this.#synced)
    for (const change of this.#changes) if (random.next() < arrives) applyNames(names, change)
    return names
  }
}

function applyNames(names: Map<string, StoredNode>, change: NameChange): void {
  for (const [name, node] of change) {
    if (node) names.set(name, node)
    else names.delete(name)
  }
}
