import { randomBytes } from 'node:crypto'
import { cidText } from './cid.ts'
import { commitBody, syncBody } from './commit-event.ts'
import type { EventBody } from './commit-event.ts'
import { createDid, pdsService, tombstoneDid, updateDid } from './plc-identity.ts'
import type { PlcData } from './plc-identity.ts'
import type { JsonRecord } from './sample-record.ts'
import { SignedRepo } from './signed-repo.ts'
import type { RepoWrite, SignedCommit } from './signed-repo.ts'
import { Signer } from './signer.ts'
import { nextTid } from './tid.ts'

/** What an account needs of the host that it lives on. */
export interface AccountHome {
  readonly plcUrl: string
  readonly url: string
  readonly accounts: Map<string, ScriptedAccount>
  emit(type: string, body: EventBody): number
}

/** Why an account is not active, as `#account` events say it. */
export type InactiveStatus = 'deactivated' | 'takendown' | 'suspended' | 'deleted'

export interface EmittedWrite {
  seq: number
  rev: string
  /** The record's CID in text form, undefined for a delete. */
  cid: string | undefined
}

/** An account of a scripted host. Its own calls do what a PDS does; `draft` helps to do otherwise. */
export class ScriptedAccount extends SignedRepo {
  readonly handle: string
  readonly #rotationKey: Signer
  #home: AccountHome
  readonly #first: SignedCommit
  #status: InactiveStatus | undefined

  constructor(
    home: AccountHome,
    identity: { did: string; handle: string; signer: Signer; rotationKey: Signer },
  ) {
    super(identity.did, identity.signer)
    this.handle = identity.handle
    this.#rotationKey = identity.rotationKey
    this.#home = home
    this.#first = this.commit([])
  }

  /** Undefined while the account is active. */
  get status(): InactiveStatus | undefined {
    return this.#status
  }

  /** Emits what a PDS emits for a new account: `#identity`, `#account`, an empty commit, `#sync`. */
  announce(): void {
    this.announceIdentity()
    this.setStatus(undefined)
    this.#home.emit('#commit', commitBody(this.#first))
    this.announceSync()
  }

  /** Emits an `#identity` event. Returns its seq. */
  announceIdentity(fields: EventBody = { handle: this.handle }): number {
    return this.#home.emit('#identity', { did: this.did, ...fields })
  }

  /** Makes the account inactive, or active again, and emits the `#account` event. Returns its seq. */
  setStatus(status: InactiveStatus | undefined): number {
    this.#status = status
    const fields = status === undefined ? { active: true } : { active: false, status }
    return this.#home.emit('#account', { did: this.did, ...fields })
  }

  /** Emits a `#sync` event with the current commit. Returns its seq. */
  announceSync(): number {
    return this.#home.emit('#sync', syncBody(this.did, this.rev ?? '', this.head))
  }

  create(collection: string, record: JsonRecord, rkey: string = nextTid()): EmittedWrite {
    return this.emitWrites([{ action: 'create', collection, rkey, record }])
  }

  update(collection: string, rkey: string, record: JsonRecord): EmittedWrite {
    return this.emitWrites([{ action: 'update', collection, rkey, record }])
  }

  delete(collection: string, rkey: string): EmittedWrite {
    return this.emitWrites([{ action: 'delete', collection, rkey }])
  }

  /** Applies writes in one commit and emits it. Tells the CID of the first. */
  emitWrites(writes: readonly RepoWrite[]): EmittedWrite {
    const signed = this.commit(writes)
    const cid = signed.ops[0]?.cid ?? undefined
    return {
      seq: this.#home.emit('#commit', commitBody(signed)),
      rev: signed.rev,
      cid: cid === undefined ? undefined : cidText(cid),
    }
  }

  /** Changes the account's DID document. No event is emitted. */
  async changeDocument(changes: Partial<PlcData>): Promise<void> {
    await updateDid(this.#home.plcUrl, this.did, this.#rotationKey, changes)
  }

  /** Signs with a new key from now on, and names it in the DID document. No event is emitted. */
  async rotateKey(): Promise<void> {
    const signer = new Signer(randomBytes(32))
    await this.changeDocument({ verificationMethods: { atproto: signer.did() } })
    this.signer = signer
  }

  /** Moves the account with its repository to another host. No event is emitted. */
  async moveTo(home: AccountHome): Promise<void> {
    await this.changeDocument({ services: pdsService(home.url) })
    this.#home.accounts.delete(this.did)
    home.accounts.set(this.did, this)
    this.#home = home
  }

  /** Ends the DID: its document is not found afterwards. */
  async tombstone(): Promise<void> {
    await tombstoneDid(this.#home.plcUrl, this.did, this.#rotationKey)
  }
}

let accountCount = 0

/** Registers a new account in the PLC directory of `home`. */
export async function registerAccount(
  home: AccountHome,
  options: { handle?: string } = {},
): Promise<ScriptedAccount> {
  accountCount += 1
  const { handle = `scripted${accountCount}.test` } = options
  const signer = new Signer(randomBytes(32))
  const rotationKey = new Signer(randomBytes(32))
  const did = await createDid(home.plcUrl, rotationKey, {
    alsoKnownAs: [`at://${handle}`],
    verificationMethods: { atproto: signer.did() },
    services: pdsService(home.url),
  })
  return new ScriptedAccount(home, { did, handle, signer, rotationKey })
}
