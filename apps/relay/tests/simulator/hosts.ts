/** Hosts with their journals, the accounts that live on them, and the directory that says who lives where. */
import { createHash } from 'node:crypto'
import {
  FetchError,
  type safeFetchPieces,
  type SafeFetchOptions,
  type SafeHead,
  type SafeResponse,
} from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { Signer, SignedRepo, type EventBody } from '@tributary/testkit'
import type { Place, RelayConditions } from './conditions.ts'
import { carOf, forgedCar, frameOf, type Draft, type Head } from './frames.ts'
import type { VirtualTime } from '@tributary/testkit/simulation'

/** A message of a host: all that it ever sent stays readable. */
export interface Entry extends Draft {
  host: SimulatedHost
  seq: number
  sentAtMs: number
  frame: Buffer
}

export class SimulatedHost {
  readonly index: number
  readonly name: string
  readonly journal: Entry[] = []
  /** What it says of accounts when it is asked. */
  readonly words = new Map<string, string>()
  /** What it has told our relay of accounts. */
  readonly told = new Map<string, Set<string>>()
  /** The commits that it has of accounts, the newest last. */
  readonly heads = new Map<string, Head[]>()
  readonly #time: VirtualTime
  #seq = 0
  /** Our relay reads it. What other hosts emit comes by another relay only. */
  readonly isRead: boolean
  readonly isRelay: boolean = false
  /** Place in the journal of the oldest message that can still be read. */
  keptFrom = 0
  onEmit: () => void = () => {}
  onEntry: (entry: Entry) => void = () => {}

  constructor(index: number, time: VirtualTime, isRead = true) {
    this.index = index
    this.name = `pds${index}.example.com`
    this.isRead = isRead
    this.#time = time
  }

  /** @param skipped numbers that it leaves out, which is legal. */
  emit(draft: Draft, skipped = 0): Entry {
    this.#seq += 1 + skipped
    const sentAtMs = this.#time.nowMs
    const frame = frameOf(draft, this.#seq, new Date(sentAtMs).toISOString())
    const body = { ...draft.body, time: new Date(sentAtMs).toISOString() }
    const entry: Entry = { ...draft, body, host: this, seq: this.#seq, sentAtMs, frame }
    this.journal.push(entry)
    this.onEmit()
    this.onEntry(entry)
    return entry
  }

  /** The message with a seq. */
  at(seq: number): Entry | undefined {
    const { journal } = this
    let [low, high] = [0, journal.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((journal[middle]?.seq ?? 0) < seq) low = middle + 1
      else high = middle
    }
    return journal[low]?.seq === seq ? journal[low] : undefined
  }

  /** Of the last message that can be read: of what names two accounts, not even the position can. */
  get lastSeq(): number {
    const last = this.journal.findLast(
      ({ body, isUnreadable }) => !isUnreadable && !('did' in body && 'repo' in body),
    )
    return last?.seq ?? 0
  }

  keep(did: string, head: Head): void {
    this.heads.set(did, [...(this.heads.get(did) ?? []), head])
  }
}

/** Another relay as a source. It forwards what the host of an account sends, once the directory names that host. */
export class SimulatedRelay extends SimulatedHost {
  override readonly name = 'relay.example.com'
  override readonly isRelay = true
  readonly #accounts: ReadonlyMap<string, SimulatedAccount>
  /** What came before the directory knew of a move. */
  readonly #early: Entry[] = []

  constructor(index: number, time: VirtualTime, accounts: ReadonlyMap<string, SimulatedAccount>) {
    super(index, time)
    this.#accounts = accounts
  }

  /** A host emits something. */
  forward(entry: Entry): void {
    const account = this.#accounts.get(entry.did)
    if (!account || account.isMadeUp || account.host !== entry.host || !entry.isHonest) return
    if (account.document.host === entry.host) this.emit(entry)
    else this.#early.push(entry)
  }

  /** The directory knows of the move of an account. */
  moved({ did, document }: SimulatedAccount): void {
    const own = this.#early.filter((entry) => entry.did === did)
    for (const entry of own) {
      this.#early.splice(this.#early.indexOf(entry), 1)
      if (entry.host === document.host) this.emit(entry)
    }
  }
}

/** Who of the sources brings what a host emits. */
export function sourceOf(host: SimulatedHost, sources: readonly SimulatedHost[]): SimulatedHost | undefined {
  return host.isRead ? host : sources.find(({ isRelay }) => isRelay)
}

/** What the directory says of an account. */
export interface Document {
  host: SimulatedHost
  signer: Signer
}

export class SimulatedAccount {
  readonly index: number
  readonly did: Did
  readonly handle: string
  readonly repo: SignedRepo
  /** What the directory has said of it, the newest last. */
  readonly documents: Document[]
  /** Where it writes now. */
  host: SimulatedHost
  /** Where it lived before. */
  formerHost: SimulatedHost | undefined
  formerSigner: Signer | undefined
  lastCommit: EventBody | undefined
  /** Hosts that have forged its messages, and never become its host. */
  readonly strangers = new Set<SimulatedHost>()
  /** When its document or its host changed last. */
  changedAtMs = 0
  /** It moved or changed its key, or the directory was wrong about it. */
  isUnsettled = false
  /** It has moved, or was not active for a while. */
  hasChanged = false
  /** A message of it was lost. */
  hasLost = false
  /** Made up by a host to keep the relay busy: nobody misses it. */
  readonly isMadeUp: boolean
  readonly #keys: number

  constructor(index: number, did: Did, host: SimulatedHost, isMadeUp = false) {
    this.index = index
    this.isMadeUp = isMadeUp
    this.did = did
    this.handle = `account${index}.example.com`
    this.#keys = isMadeUp ? 1_000_000 : index * 100
    const signer = signerOf(this.#keys)
    this.repo = new SignedRepo(did, signer)
    this.documents = [{ host, signer }]
    this.host = host
  }

  get document(): Document {
    const document = this.documents.at(-1)
    if (!document) throw new Error('an account begins with a document')
    return document
  }

  get head(): Head {
    const head = this.host.heads.get(this.did)?.at(-1)
    if (!head) throw new Error(`${this.did} has no commit at ${this.host.name}`)
    return head
  }

  /** What its own host says of it. */
  get status(): string {
    return this.host.words.get(this.did) ?? 'active'
  }

  nextSigner(): Signer {
    return signerOf(this.#keys + this.documents.length)
  }
}

const signers = new Map<number, Signer>()

/** Keys are the same for all seeds, since making one takes longer than a signature. */
export function signerOf(number: number): Signer {
  let signer = signers.get(number)
  if (!signer) signers.set(number, (signer = Signer.fromSeed(`simulator ${number}`)))
  return signer
}

const base32 = 'abcdefghijklmnopqrstuvwxyz234567'

export function didOf(name: string): Did {
  const digest = createHash('sha256').update(name).digest()
  const text = Array.from(digest.subarray(0, 24), (byte) => base32.charAt(byte & 31)).join('')
  return `did:plc:${text}` as Did // of the right form
}

/** An answer of the directory as it was given. */
export interface Given {
  atMs: number
  host: SimulatedHost
}

interface Network {
  time: VirtualTime
  conditions: RelayConditions
  /** Calls when an answer is there. Nothing is answered to a process that has ended. */
  later: (ms: number, answer: () => void) => void
}

export class Directory {
  readonly accounts = new Map<string, SimulatedAccount>()
  /** Accounts whose documents are never answered for. */
  readonly hanging = new Set<string>()
  /** Accounts that it did not know when it was asked. */
  readonly denied = new Set<string>()
  /** Documents name more keys and hosts than those that count. */
  areDocumentsOdd = false
  /** Which host was named for each account, in the order of the answers. */
  readonly given = new Map<string, Given[]>()

  /** Answers as `safeFetch` does. */
  fetch =
    ({ time, conditions, later }: Network) =>
    async (url: string, { timeoutMs = 5000 }: SafeFetchOptions): Promise<SafeResponse> => {
      const did = decodeURIComponent(url.slice(url.lastIndexOf('/') + 1))
      const account = this.accounts.get(did)
      const places: Place[] = account ? [`directory ${account.index}`, 'directory'] : ['directory']
      const manner = this.hanging.has(did) ? 'silent' : conditions.of(...places)
      const documents = account?.documents ?? []
      const document = documents.at(manner === 'older' && documents.length > 1 ? -2 : -1)
      const waitMs = manner === 'late' ? conditions.some(500, 4900) : conditions.some(2, 40)
      return await new Promise((resolve, reject) => {
        const answer = (status: number, body: string): void =>
          resolve({ status, headers: {}, body: Buffer.from(body) })
        if (manner === 'silent') later(timeoutMs, () => reject(new FetchError('no answer in time')))
        else if (manner === 'failing') later(waitMs, () => answer(503, ''))
        else if (!account || !document || manner === 'missing') {
          this.denied.add(did)
          later(waitMs, () => answer(404, ''))
        } else if (manner === 'of another') {
          this.denied.add(did)
          const another = [...this.accounts.values()].find((each) => each.host !== account.host) ?? account
          if (another === account) later(waitMs, () => answer(503, ''))
          else later(waitMs, () => answer(200, JSON.stringify(documentOf(another, another.document, false))))
        } else
          later(waitMs, () => {
            const given = this.given.get(did) ?? []
            given.push({ atMs: time.nowMs, host: document.host })
            this.given.set(did, given)
            answer(200, JSON.stringify(documentOf(account, document, this.areDocumentsOdd)))
          })
      })
    }
}

function documentOf({ did, handle }: SimulatedAccount, { host, signer }: Document, isOdd: boolean): object {
  const method = (id: string, controller: string, key: Signer): object => {
    return { id, type: 'Multikey', controller, publicKeyMultibase: key.did().slice('did:key:'.length) }
  }
  const other = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa'
  const nobody = signerOf(2_000_001)
  const odd = [method(`${did}#other`, did, nobody), method(`${other}#atproto`, did, nobody)]
  return {
    id: did,
    alsoKnownAs: [`at://${handle}`],
    verificationMethod: [...(isOdd ? odd : []), method(`${did}#atproto`, did, signer)],
    service: [
      ...(isOdd ? [{ id: '#other', type: 'OtherServer', serviceEndpoint: 'https://other.example.com' }] : []),
      {
        id: '#atproto_pds',
        type: 'AtprotoPersonalDataServer',
        serviceEndpoint: `https://${host.name}`,
      },
    ],
  }
}

type Take = Parameters<typeof safeFetchPieces>[2]

/** What the answers of hosts need besides. */
interface Answering extends Network {
  signerOf: (did: string) => Signer | undefined
  /** How far the clock of the relay is ahead at most. */
  aheadMsMax: number
  /** Told of each question. */
  onAsked: (host: SimulatedHost, did: string, isStatus: boolean) => void
}

/** Answers for hosts as `safeFetchPieces` does. */
export function hostAnswers(
  hosts: readonly SimulatedHost[],
  { time, conditions, later, signerOf, aheadMsMax, onAsked }: Answering,
): (url: string, options: SafeFetchOptions, take: Take) => Promise<SafeHead> {
  return async (url, { timeoutMs = 5000 }, take) => {
    const { hostname, pathname, searchParams } = new URL(url)
    const host = hosts.find(({ name }) => name === hostname)
    const manner = host ? conditions.of(`answers ${host.index}`, 'answers') : 'silent'
    const waitMs = manner === 'late' ? conditions.some(500, 4900) : conditions.some(5, 60)
    const did = searchParams.get('did') ?? ''
    const word = host?.words.get(did)
    const head = host?.heads.get(did)?.at(-1)
    const isStatus = pathname.endsWith('getRepoStatus')
    if (host) onAsked(host, did, isStatus)
    const forge = (real: Head): Buffer =>
      forgedCar(real, {
        did,
        nowMs: time.nowMs + aheadMsMax,
        signer: signerOf(did),
        pick: conditions.some(0, 1),
      })
    const [status, body] = answerTo(isStatus, did, word, head, manner === 'forged' ? forge : carOf)
    return await new Promise((resolve, reject) => {
      if (manner === 'silent') later(timeoutMs, () => reject(new FetchError('no answer in time')))
      else if (manner === 'failing') later(waitMs, () => resolve({ status: 503, headers: {} }))
      else
        later(waitMs, () => {
          const answer = { status, headers: {} }
          if (isStatus && manner !== 'garbled')
            host?.told.set(did, (host.told.get(did) ?? new Set()).add(word ?? 'deleted'))
          const text = manner === 'garbled' ? Buffer.from('{"constructor":1}') : body
          const step = manner === 'pieces' ? Math.ceil(conditions.some(0, 40)) : text.length
          for (let at = 0; at < text.length; at += step)
            if (take(text.subarray(at, at + step), answer) === 'enough') break
          resolve(answer)
        })
    })
  }
}

function answerTo(
  isStatus: boolean,
  did: string,
  word: string | undefined,
  head: Head | undefined,
  car: (head: Head) => Buffer,
): [status: number, body: Buffer] {
  const json = (value: object): Buffer => Buffer.from(JSON.stringify(value))
  if (word === undefined || word === 'deleted' || !head) return [400, json({ error: 'RepoNotFound' })]
  const isActive = word === 'active'
  if (isStatus) return [200, json(isActive ? { did, active: true } : { did, active: false, status: word })]
  if (isActive) return [200, car(head)]
  return [400, json({ error: `Repo${word.charAt(0).toUpperCase()}${word.slice(1)}` })]
}
