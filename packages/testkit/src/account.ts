import type { Pds } from './pds.ts'
import { callProcedure, callQuery, fetchBytes } from './xrpc-call.ts'
import type { XrpcCall } from './xrpc-call.ts'

export interface WriteResult {
  uri: string
  cid: string
}

/** One entry of `com.atproto.repo.applyWrites`. */
export type Write =
  | { action: 'create'; collection: string; rkey?: string; value: Record<string, unknown> }
  | { action: 'update'; collection: string; rkey: string; value: Record<string, unknown> }
  | { action: 'delete'; collection: string; rkey: string }

/** A write that the PDS acknowledged: what consumers must see, in this order for one account. */
export interface JournalEntry {
  action: 'create' | 'update' | 'delete'
  collection: string
  rkey: string
  /** The record's CID, absent for a delete. */
  cid?: string
}

export interface Session {
  did: string
  handle: string
  accessJwt: string
}

/** An account on a real PDS, driven through `com.atproto.*` calls. All throw `XrpcCallError`. */
export class Account {
  readonly did: string
  readonly password: string
  readonly email: string
  /** Every acknowledged write, oldest first. */
  readonly journal: JournalEntry[] = []
  #pds: Pds
  #handle: string
  #accessJwt: string

  constructor(pds: Pds, session: Session, login: { email: string; password: string }) {
    this.did = session.did
    this.email = login.email
    this.password = login.password
    this.#pds = pds
    this.#handle = session.handle
    this.#accessJwt = session.accessJwt
  }

  /** Where the account lives now: another one after a migration. */
  get pds(): Pds {
    return this.#pds
  }

  get handle(): string {
    return this.#handle
  }

  /** Goes on with another session, on the same PDS or a new one. */
  continueOn(pds: Pds, session: Session): void {
    this.#pds = pds
    this.#handle = session.handle
    this.#accessJwt = session.accessJwt
  }

  /** Calls a procedure of the account's PDS as this account. */
  async procedure<T>(nsid: string, call: XrpcCall = {}): Promise<T> {
    return callProcedure<T>(this.#pds.url, nsid, { authorization: this.#authorization, ...call })
  }

  /** Calls a query of the account's PDS as this account. */
  async query<T>(nsid: string, params: XrpcCall['params'] = {}): Promise<T> {
    return callQuery<T>(this.#pds.url, nsid, { params, authorization: this.#authorization })
  }

  get #authorization(): string {
    return `Bearer ${this.#accessJwt}`
  }

  /** Creates a record. The PDS picks a TID when `rkey` is left out, and adds `$type`. */
  async create(collection: string, record: Record<string, unknown>, rkey?: string): Promise<WriteResult> {
    const written = await this.procedure<WriteResult>('com.atproto.repo.createRecord', {
      input: { repo: this.did, collection, record, ...(rkey === undefined ? {} : { rkey }) },
    })
    this.#record('create', collection, written.uri, written.cid)
    return written
  }

  /** Replaces an existing record. To create one under a chosen key, use `create`. */
  async put(collection: string, rkey: string, record: Record<string, unknown>): Promise<WriteResult> {
    const input = { repo: this.did, collection, rkey, record }
    const written = await this.procedure<WriteResult>('com.atproto.repo.putRecord', { input })
    this.#record('update', collection, written.uri, written.cid)
    return written
  }

  async delete(collection: string, rkey: string): Promise<void> {
    const input = { repo: this.did, collection, rkey }
    await this.procedure('com.atproto.repo.deleteRecord', { input })
    this.#record('delete', collection, rkey)
  }

  /** Up to 200 writes in one commit. */
  async applyWrites(writes: readonly Write[]): Promise<void> {
    const input = {
      repo: this.did,
      writes: writes.map(({ action, ...write }) => ({
        $type: `com.atproto.repo.applyWrites#${action}`,
        ...write,
      })),
    }
    const { results } = await this.procedure<{ results: Partial<WriteResult>[] }>(
      'com.atproto.repo.applyWrites',
      { input },
    )
    for (const [index, write] of writes.entries()) {
      const { uri = '', cid } = results[index] ?? {}
      const path = write.action === 'delete' ? write.rkey : uri
      this.#record(write.action, write.collection, path, cid)
    }
  }

  #record(action: JournalEntry['action'], collection: string, uri: string, cid?: string): void {
    const rkey = uri.slice(uri.lastIndexOf('/') + 1)
    this.journal.push({ action, collection, rkey, ...(cid === undefined ? {} : { cid }) })
  }

  /** The `blob` value to put in a record. A blob that no record names is dropped by the PDS. */
  async uploadBlob(body: Uint8Array, contentType: string): Promise<Record<string, unknown>> {
    const answer = await this.procedure<{ blob: Record<string, unknown> }>('com.atproto.repo.uploadBlob', {
      body,
      contentType,
    })
    return answer.blob
  }

  async updateHandle(handle: string): Promise<void> {
    await this.procedure('com.atproto.identity.updateHandle', { input: { handle } })
    this.#handle = handle
  }

  async deactivate(): Promise<void> {
    await this.procedure('com.atproto.server.deactivateAccount', { input: {} })
  }

  async activate(): Promise<void> {
    await this.procedure('com.atproto.server.activateAccount')
  }

  /** Deletes the account as its owner. Its entry in the PLC directory stays. */
  async deleteAccount(): Promise<void> {
    await this.procedure('com.atproto.server.requestAccountDelete')
    const token = this.#pds.emailToken(this.did, 'delete_account')
    const input = { did: this.did, password: this.password, token }
    await this.procedure('com.atproto.server.deleteAccount', { input })
  }

  /** A service token of this account: bare DID of the service, one method, 60 s unless `exp`. */
  async serviceAuth(claims: { aud: string; lxm?: string; exp?: number }): Promise<string> {
    const answer = await this.query<{ token: string }>('com.atproto.server.getServiceAuth', claims)
    return answer.token
  }

  async listRecords(collection: string): ReturnType<Pds['listRecords']> {
    return this.#pds.listRecords(this.did, collection)
  }

  /** The whole repository as a CAR file. */
  async repoCar(): Promise<Uint8Array> {
    const params = { did: this.did }
    return fetchBytes(this.#pds.url, 'com.atproto.sync.getRepo', { params })
  }
}

/**
 * Counts the accounts of this process; with the run's own part a handle is unique, also beside
 * other processes. A PDS accepts labels of 3 to 18 characters.
 */
let accountCount = 0
const run = Math.floor(Math.random() * 36 ** 4).toString(36)
const labelPrefixCharsMax = 9

/**
 * Creates an account on a PDS. `handle` is a label (`alice`) or a whole handle; without it a
 * unique one is made, starting with `name`.
 */
export async function createAccount(
  pds: Pds,
  options: { handle?: string; name?: string } = {},
): Promise<Account> {
  accountCount += 1
  const { name = 'user' } = options
  const label = options.handle ?? `${name.slice(0, labelPrefixCharsMax)}${accountCount.toString(36)}-${run}`
  const handle = label.includes('.') ? label : label + pds.handleDomain
  const email = `${accountCount}-${run}@example.com`
  const password = `password-${accountCount}`
  const session = await callProcedure<Session>(pds.url, 'com.atproto.server.createAccount', {
    input: { handle, email, password },
  })
  return new Account(pds, session, { email, password })
}
