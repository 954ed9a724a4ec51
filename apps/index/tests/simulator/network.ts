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

export class SimulatedAccount {
  readonly name: string
  readonly did: Did
  /** What its host says of it. */
  word = 'active'
  #handles = 0

  constructor(name: string) {
    this.name = name
    this.did = didOf(name)
  }

  get handle(): Handle {
    return `${this.name}${this.#handles}.example.com` as Handle // of the right form
  }

  rename(): void {
    this.#handles++
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
          ? { status: 200, body: documentOf(account) }
          : { status: 404, body: {} },
      )
    }
  }

  /** The hosts of accounts, as `safeFetch` asks them. */
  hosts(clock: ProcessClock) {
    return async (url: string, { timeoutMs = 5000 }: SafeFetchOptions): Promise<SafeResponse> => {
      const did = new URL(url).searchParams.get('did') ?? ''
      const manner = this.#conditions.of('hosts')
      return await this.#answer(clock, manner, timeoutMs, () => {
        const word = this.account(did)?.word ?? 'deleted'
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
      const account = this.accounts.find((each) => each.handle === handle)
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

function documentOf({ did, handle }: SimulatedAccount): object {
  const type = 'AtprotoPersonalDataServer'
  return {
    id: did,
    alsoKnownAs: [`at://${handle}`],
    verificationMethod: [],
    service: [{ id: '#atproto_pds', type, serviceEndpoint: 'https://pds.example.com' }],
  }
}
