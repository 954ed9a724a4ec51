/**
 * A scripted host of an attacker: its accounts cost nothing, its documents say what it likes, and it may answer any
 * question with anything.
 */
import { request, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  Signer,
  ScriptedAccount,
  ScriptedHost,
  type HostConnection,
  type Random,
  type ScriptedHostOptions,
} from '@tributary/testkit'

/** What a hostile host writes into a DID document. */
export interface DocumentParts {
  did: string
  signingKey: string
  /** Where the account says that it lives, `http://…`. */
  endpoint: string
  handle?: string
}

/** Every question that is asked of a host. */
const questions: readonly string[] = [
  'com.atproto.server.describeServer',
  'com.atproto.sync.getRepoStatus',
  'com.atproto.sync.getLatestCommit',
  'com.atproto.sync.getRepo',
  'com.atproto.sync.getRecord',
  'com.atproto.sync.listRepos',
  'com.atproto.sync.getHostStatus',
  'com.atproto.identity.resolveHandle',
  '/.well-known/did.json',
  '/.well-known/atproto-did',
]

const base32 = 'abcdefghijklmnopqrstuvwxyz234567'
/** Bytes that a connection may not have taken yet, before more are written to it. */
const unsentMax = 4_000_000
/** How long a host waits until it asks to be read again, and then to be read. */
const beforeAskingMs = 100
const comeBackMsMax = 1500

export class HostileHost extends ScriptedHost {
  readonly #directoryUrl: string
  readonly #random: Random
  #lastAccount = 0

  constructor(options: ScriptedHostOptions & { port: number; random: Random }) {
    super(options)
    this.#directoryUrl = options.plcUrl
    this.#random = options.random
  }

  /** An account whose document names this host, announced or not. */
  async createHostile(options: { announce?: boolean; did?: string } = {}): Promise<ScriptedAccount> {
    const signer = new Signer(this.#random.bytes(32))
    const did = options.did ?? this.newDid()
    const handle = `hostile${this.#lastAccount++}.test`
    if (did.startsWith('did:plc:'))
      await this.register({ did, handle, signingKey: signer.did(), endpoint: this.url })
    const account = new ScriptedAccount(this, { did, handle, signer, rotationKey: signer })
    this.accounts.set(did, account)
    if (options.announce !== false) account.announce()
    return account
  }

  newDid(): string {
    return `did:plc:${Array.from(this.#random.bytes(24), (byte) => base32[byte % 32]).join('')}`
  }

  /** Has the directory say this of an account from now on. */
  async register(parts: DocumentParts): Promise<void> {
    const response = await fetch(`${this.#directoryUrl}/${parts.did}`, {
      method: 'PUT',
      body: documentOf(parts),
    })
    await response.arrayBuffer()
  }

  /** The open subscription of the relay, if there is one that takes more. */
  get reader(): HostConnection | undefined {
    const connection = this.connections.at(-1)
    return connection !== undefined && connection.unsentBytes < unsentMax ? connection : undefined
  }

  /** Asks the relay to read this host again, as anybody may, and waits a moment for it. */
  async comeBack(relayUrl: string): Promise<void> {
    const connected = this.nextConnection()
    // The relay may not have noticed yet that the connection has ended.
    for (const connection of this.connections) if (connection !== this.reader) connection.terminate()
    for (let asked = 0; asked < 2 && this.reader === undefined; asked++) {
      await sleep(beforeAskingMs)
      this.#askToBeRead(relayUrl)
      await Promise.race([connected, sleep(comeBackMsMax)])
    }
  }

  #askToBeRead(relayUrl: string): void {
    const asked = request(`${relayUrl}/xrpc/com.atproto.sync.requestCrawl`, {
      method: 'POST',
      localAddress: this.address,
      headers: { 'content-type': 'application/json' },
      timeout: comeBackMsMax,
    })
    // A relay that is being killed does not answer.
    asked.on('error', () => undefined)
    asked.on('response', (response) => response.resume())
    asked.end(JSON.stringify({ hostname: this.host }))
  }

  /** Answers every question with this. */
  answerAll(answer: (response: ServerResponse, question: string) => void): void {
    for (const question of questions) this.answers.set(question, (_, response) => answer(response, question))
  }

  /** Answers honestly again. */
  answerHonestly(): void {
    this.answers.clear()
    this.refuseWithStatus = undefined
  }
}

/** A DID document in today's form. */
export function documentOf({ did, handle, signingKey, endpoint }: DocumentParts): string {
  return JSON.stringify({
    '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/multikey/v1'],
    id: did,
    alsoKnownAs: handle === undefined ? [] : [`at://${handle}`],
    verificationMethod: [
      {
        id: `${did}#atproto`,
        type: 'Multikey',
        controller: did,
        publicKeyMultibase: signingKey.slice('did:key:'.length),
      },
    ],
    service: [{ id: '#atproto_pds', type: 'AtprotoPersonalDataServer', serviceEndpoint: endpoint }],
  })
}

/** Sends `bytes` bytes of `chunk` again and again, as fast as they are taken. */
export async function pour(response: ServerResponse, chunk: Uint8Array, bytes: number): Promise<void> {
  for (let sent = 0; sent < bytes && !response.destroyed; sent += chunk.length) {
    if (!response.write(chunk)) await Promise.race([once(response, 'drain'), once(response, 'close')])
  }
  response.end()
}
