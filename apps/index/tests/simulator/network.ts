/** Accounts with their hosts and handles, and how the directory, hosts and name servers answer for them. */
import {
  FetchError,
  type HandleResolver,
  type SafeFetchOptions,
  type SafeResponse,
} from '@tributary/identity'
import type { Did, Handle } from '@tributary/protocol'
import type { ProcessClock } from '@tributary/testkit/simulation'
import { keeper } from '../random-event.ts'
import { did as didOf } from '../scenario.ts'
import type { IndexConditions } from './conditions.ts'

/** What the directory says of an account. */
interface Document {
  handle: Handle | undefined
  host: string
}

export class SimulatedAccount {
  readonly name: string
  readonly did: Did
  /** All that its host has said of it, the newest last. */
  readonly #words = ['active']
  /** What the directory has said of it, the newest last. */
  readonly documents: Document[]
  /** Handles that point to it. */
  readonly handles: Handle[]

  constructor(name: string) {
    this.name = name
    this.did = didOf(name)
    this.handles = [this.#newHandle(0)]
    this.documents = [{ handle: this.handles[0], host: 'pds0.example.com' }]
  }

  /** What its host says of it. */
  get word(): string {
    return this.#words.at(-1) ?? ''
  }

  set word(word: string) {
    this.#words.push(word)
  }

  hasSaid(word: string): boolean {
    return this.#words.includes(word)
  }

  get document(): Document {
    const document = this.documents.at(-1)
    if (!document) throw new Error('an account begins with a document')
    return document
  }

  /** The handle that is shown of it in the end. */
  get handle(): Handle | undefined {
    const { handle } = this.document
    return handle !== undefined && this.handles.includes(handle) ? handle : undefined
  }

  rename(): void {
    const handle = this.#newHandle(this.handles.length)
    this.handles.push(handle)
    this.declare(handle)
  }

  declare(handle: Handle | undefined): void {
    this.documents.push({ ...this.document, handle })
  }

  move(): void {
    this.documents.push({ ...this.document, host: `pds${this.documents.length}.example.com` })
  }

  #newHandle(number: number): Handle {
    return `${this.name}${number}.example.com` as Handle // of the right form
  }
}

type Answer = () => Pick<SafeResponse, 'status'> & { body: object | string }

export class Network {
  readonly accounts: readonly SimulatedAccount[] = ['x', 'y', 'z', keeper].map(
    (name) => new SimulatedAccount(name),
  )
  readonly #conditions: IndexConditions

  constructor(conditions: IndexConditions) {
    this.#conditions = conditions
  }

  account(did: string): SimulatedAccount | undefined {
    return this.accounts.find((each) => each.did === did)
  }

  /** The directory, as `safeFetch` asks it. */
  directory(clock: ProcessClock) {
    return async (url: string, { timeoutMs = 5000 }: SafeFetchOptions): Promise<SafeResponse> => {
      const account = this.account(decodeURIComponent(url.slice(url.lastIndexOf('/') + 1)))
      const manner = this.#conditions.of('directory')
      return await this.#answer(clock, manner, timeoutMs, () =>
        account && manner !== 'missing'
          ? { status: 200, body: documentOf(account, manner === 'older') }
          : { status: 404, body: {} },
      )
    }
  }

  /** The hosts of accounts, as `safeFetch` asks them. */
  hosts(clock: ProcessClock) {
    return async (url: string, { timeoutMs = 5000 }: SafeFetchOptions): Promise<SafeResponse> => {
      const { hostname, searchParams } = new URL(url)
      const did = searchParams.get('did') ?? ''
      const manner = this.#conditions.of('hosts')
      return await this.#answer(clock, manner, timeoutMs, () => {
        const account = this.account(did)
        const word = account?.document.host === hostname ? account.word : 'deactivated'
        if (manner === 'garbled') return { status: 200, body: '{"active":"no"' }
        if (word === 'deleted') return { status: 400, body: { error: 'RepoNotFound' } }
        const active = word === 'active'
        return { status: 200, body: active ? { did, active } : { did, active, status: word } }
      })
    }
  }

  names(clock: ProcessClock): HandleResolver {
    return async (handle) => {
      const manner = this.#conditions.of('names')
      await this.#answer(clock, manner, 5000, () => ({ status: 200, body: {} }))
      const account = this.accounts.find((each) => each.handles.includes(handle))
      return manner === 'elsewhere' ? undefined : account?.did
    }
  }

  async #answer(clock: ProcessClock, manner: string, timeoutMs: number, find: Answer): Promise<SafeResponse> {
    const waitMs = manner === 'late' ? this.#conditions.some(500, 4900) : this.#conditions.some(2, 60)
    return await new Promise((resolve, reject) => {
      if (manner === 'silent') clock.after(timeoutMs, () => reject(new FetchError('no answer in time')))
      else
        clock.after(waitMs, () => {
          const { status, body } = manner === 'failing' ? { status: 503, body: '' } : find()
          const text = typeof body === 'string' ? body : JSON.stringify(body)
          resolve({ status, headers: {}, body: Buffer.from(text) })
        })
    })
  }
}

function documentOf({ did, documents, document }: SimulatedAccount, isOlder: boolean): object {
  const { handle, host } = (isOlder ? documents.at(-2) : undefined) ?? document
  const type = 'AtprotoPersonalDataServer'
  return {
    id: did,
    alsoKnownAs: handle === undefined ? [] : [`at://${handle}`],
    verificationMethod: [],
    service: [{ id: '#atproto_pds', type, serviceEndpoint: `https://${host}` }],
  }
}
