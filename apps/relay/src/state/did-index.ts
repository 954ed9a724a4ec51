import { randomInt } from 'node:crypto'

const partsMax = 256
const slotsMin = 16
/** A part is made twice as large when it is filled more than this. */
const filledMax = 0.7

/** Pairs of a hash and a number above 0; 0 marks a slot that is free. */
interface Part {
  slots: Uint32Array
  count: number
}

/**
 * The numbers of DIDs, without the DIDs: hash tables with open addressing, some 15 bytes a DID. It is in parts so that
 * none takes long to grow. The hash is keyed, because hosts choose the DIDs.
 */
export class DidIndex {
  readonly #isOf: (number: number, did: string) => boolean
  readonly #key = randomInt(2 ** 32)
  readonly #parts: Part[] = Array.from({ length: partsMax }, () => ({ slots: newSlots(slotsMin), count: 0 }))

  /** @param isOf whether a number was added for a DID. */
  constructor(isOf: (number: number, did: string) => boolean) {
    this.#isOf = isOf
  }

  /** The number of a DID, -1 when it has none. */
  find(did: string): number {
    const hash = this.#hash(did)
    const { slots } = this.#partOf(hash)
    const slot = this.#slotOf(slots, hash, did)
    return (slots[slot + 1] ?? 0) - 1
  }

  /** Gives a number to a DID that has none. */
  add(did: string, number: number): void {
    const hash = this.#hash(did)
    const part = this.#partOf(hash)
    put(part.slots, hash, number + 1)
    if (++part.count > (part.slots.length / 2) * filledMax) grow(part)
  }

  delete(did: string): void {
    const hash = this.#hash(did)
    const part = this.#partOf(hash)
    const { slots } = part
    const slot = this.#slotOf(slots, hash, did)
    if (slots[slot + 1] === 0) return
    part.count--
    slots[slot + 1] = 0
    // Entries after it may have been put there because it was in their way.
    for (let next = after(slots, slot); slots[next + 1] !== 0; next = after(slots, next)) {
      const value = slots[next + 1] ?? 0
      slots[next + 1] = 0
      put(slots, slots[next] ?? 0, value)
    }
  }

  /** The slot of a DID, or the free one where it would be. */
  #slotOf(slots: Uint32Array, hash: number, did: string): number {
    let slot = firstOf(slots, hash)
    for (let value = slots[slot + 1] ?? 0; value !== 0; value = slots[slot + 1] ?? 0) {
      if (slots[slot] === hash && this.#isOf(value - 1, did)) break
      slot = after(slots, slot)
    }
    return slot
  }

  #partOf(hash: number): Part {
    const part = this.#parts[hash & (partsMax - 1)]
    if (!part) throw new Error('invariant broken: an index has all its parts')
    return part
  }

  #hash(did: string): number {
    let hash = this.#key
    for (let at = 4; at < did.length; at++) {
      hash = Math.imul(hash ^ did.charCodeAt(at), 0x9e3779b1)
      hash ^= hash >>> 15
    }
    hash = Math.imul(hash ^ this.#key, 0x85ebca6b)
    return (hash ^ (hash >>> 13)) >>> 0
  }
}

function newSlots(count: number): Uint32Array {
  return new Uint32Array(count * 2)
}

function firstOf(slots: Uint32Array, hash: number): number {
  return ((hash >>> 8) * 2) & (slots.length - 1) & ~1
}

function after(slots: Uint32Array, slot: number): number {
  return (slot + 2) & (slots.length - 1)
}

function put(slots: Uint32Array, hash: number, value: number): void {
  let slot = firstOf(slots, hash)
  while (slots[slot + 1] !== 0) slot = after(slots, slot)
  slots[slot] = hash
  slots[slot + 1] = value
}

function grow(part: Part): void {
  const slots = newSlots(part.slots.length)
  for (let slot = 0; slot < part.slots.length; slot += 2) {
    const value = part.slots[slot + 1] ?? 0
    if (value !== 0) put(slots, part.slots[slot] ?? 0, value)
  }
  part.slots = slots
}
