import type { Did } from '@tributary/protocol'
import type { SigningKey } from '@tributary/repo-verify'
import type { Identity } from './did-document.ts'
import type { IdentityStore } from './resolver.ts'

/** An identity as it is stored. Without a text its DID is forgotten. */
export type IdentityValues = [did: Did, text: string | null, fetchedAtMs: number]

type StoredKey = readonly [curve: SigningKey['curve'], point: string]
type StoredIdentity = Omit<Identity, 'signingKey' | 'labelKey'> & {
  signingKey: StoredKey | undefined
  labelKey: StoredKey | undefined
}

/** Identities in the state database of a service: read from it one by one, and written with the next write of the state. */
export class StoredIdentities implements IdentityStore {
  readonly #read: (did: Did) => string | undefined
  #waiting = new Map<Did, Identity | undefined>()
  /** On their way to the database. */
  #leaving: ReadonlyMap<Did, Identity | undefined> = new Map()

  /** @param read the stored text of a DID. */
  constructor(read: (did: Did) => string | undefined) {
    this.#read = read
  }

  /** How many wait for a write. */
  get size(): number {
    return this.#waiting.size
  }

  get(did: Did): Identity | undefined {
    for (const changes of [this.#waiting, this.#leaving]) if (changes.has(did)) return changes.get(did)
    const text = this.#read(did)
    return text === undefined ? undefined : fromText(text)
  }

  set(did: Did, identity: Identity | undefined): void {
    this.#waiting.set(did, identity)
  }

  /** What has to be written. Called again when that is done. */
  take(): IdentityValues[] {
    this.#leaving = this.#waiting
    this.#waiting = new Map()
    return Array.from(this.#leaving, ([did, identity]) => [
      did,
      identity ? toText(identity) : null,
      identity?.fetchedAt ?? 0,
    ])
  }
}

function toText(identity: Identity): string {
  const signingKey = pack(identity.signingKey)
  const labelKey = pack(identity.labelKey)
  return JSON.stringify({ ...identity, signingKey, labelKey } satisfies StoredIdentity)
}

function fromText(text: string): Identity {
  const stored = JSON.parse(text) as StoredIdentity // written by `toText`
  return { ...stored, signingKey: unpack(stored.signingKey), labelKey: unpack(stored.labelKey) }
}

function pack(key: SigningKey | undefined): StoredKey | undefined {
  return key && [key.curve, Buffer.from(key.point).toString('base64')]
}

function unpack(key: StoredKey | undefined): SigningKey | undefined {
  // A Buffer of this length would keep 64 kB of Node's pool for as long as the identity is known.
  return key && { curve: key[0], point: new Uint8Array(Buffer.from(key[1], 'base64')) }
}
