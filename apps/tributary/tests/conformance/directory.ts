/** A directory of DIDs, a host for handles, and a labeler, all on one loopback address, as a test fills them. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { encodeFrame, type Did } from '@tributary/protocol'
import { Signer } from '@tributary/testkit'
import { encode, toBytes } from '@atcute/cbor'
import { WebSocketServer } from 'ws'

export interface GivenLabel {
  readonly did: Did
  readonly val: string
  readonly uri?: string
  readonly cid?: string
  readonly neg?: boolean
  readonly cts?: string
  readonly exp?: string
}

/** An account with a key: it issues tokens, or labels. */
export class Signed {
  readonly did: Did
  signer: Signer

  constructor(did: Did) {
    this.did = did
    this.signer = Signer.fromSeed(did)
  }
}

export class Directory implements AsyncDisposable {
  readonly documents = new Map<string, object>()
  readonly handles = new Map<string, Did>()
  /** Called before a document is given. */
  onRequest: (did: string) => void = () => undefined
  readonly #server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(decodeURIComponent(request.url ?? '/'), 'http://localhost')
    this.onRequest(pathname.slice(1))
    const asked = searchParams.get('handle')
    const owner = asked === null ? undefined : this.handles.get(asked)
    const answer = owner ? { did: owner } : this.documents.get(pathname.slice(1))
    response.writeHead(answer ? 200 : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify(answer ?? { error: 'NotFound' }))
  })
  readonly #labelers: WebSocketServer[] = []

  static async start(): Promise<Directory> {
    const directory = new Directory()
    directory.#server.listen(0, '127.0.0.1')
    await once(directory.#server, 'listening')
    return directory
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on TCP
  }

  get url(): string {
    return `http://${this.host}`
  }

  /** Publishes a document with the account's present key, and a handle that points back. */
  publish(account: Signed, handle?: string, labelerUrl?: string): void {
    const { did, signer } = account
    const key = (name: string): object => ({
      id: `${did}#${name}`,
      type: 'Multikey',
      controller: did,
      publicKeyMultibase: signer.did().slice('did:key:'.length),
    })
    this.documents.set(did, {
      id: did,
      alsoKnownAs: handle === undefined ? [] : [`at://${handle}`],
      verificationMethod: [key('atproto'), key('atproto_label')],
      service:
        labelerUrl === undefined
          ? []
          : [{ id: '#atproto_labeler', type: 'AtprotoLabeler', serviceEndpoint: labelerUrl }],
    })
    if (handle !== undefined) this.handles.set(handle, did)
  }

  /** Starts a labeler that says this to whoever subscribes, in order, with its signatures. */
  async startLabeler(labeler: Signed, labels: readonly GivenLabel[]): Promise<void> {
    const { did: src, signer } = labeler
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
    await once(server, 'listening')
    const frames = labels.map(({ did, uri = did, cts = '2026-01-01T00:00:00Z', ...more }, index) => {
      const label = { ver: 1, src, uri, cts, ...more }
      const sig = toBytes(signer.signNow(encode(label)))
      return encodeFrame('#labels', { seq: index + 1, labels: [{ ...label, sig }] })
    })
    server.on('connection', (socket) => {
      for (const frame of frames) socket.send(frame)
    })
    this.#labelers.push(server)
    const { port } = server.address() as AddressInfo // it listens on TCP
    this.publish(labeler, undefined, `http://127.0.0.1:${port}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const labeler of this.#labelers) {
      for (const client of labeler.clients) client.terminate()
      labeler.close()
    }
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
