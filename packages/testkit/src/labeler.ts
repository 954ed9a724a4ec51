import { join } from 'node:path'
import type { LabelerServer } from '@skyware/labeler'
import { freePort } from './free-port.ts'
import { createDid } from './plc-identity.ts'
import { callQuery } from './xrpc-call.ts'

/** One label as `com.atproto.label.queryLabels` tells it, without its signature. */
export interface ListedLabel {
  src: string
  uri: string
  val: string
  neg?: boolean
  cts: string
}

/** A real labeler of a test network, startable and stoppable on the same data and port. */
export class Labeler implements AsyncDisposable {
  readonly did: string
  readonly url: string
  readonly #port: number
  readonly #signingKeyHex: string
  readonly #databasePath: string
  #server: LabelerServer | undefined

  constructor(options: { did: string; port: number; signingKeyHex: string; databasePath: string }) {
    this.did = options.did
    this.url = `http://localhost:${options.port}`
    this.#port = options.port
    this.#signingKeyHex = options.signingKeyHex
    this.#databasePath = options.databasePath
  }

  async start(): Promise<void> {
    if (this.#server !== undefined) throw new Error('the labeler runs already')
    const { LabelerServer } = await import('@skyware/labeler')
    const server = new LabelerServer({
      did: this.did,
      signingKey: this.#signingKeyHex,
      dbPath: this.#databasePath,
    })
    await new Promise<void>((resolve, reject) => {
      server.start({ port: this.#port, host: '127.0.0.1' }, (error) => {
        if (error === null) resolve()
        else reject(error)
      })
    })
    this.#server = server
  }

  async stop(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (server === undefined) return
    await new Promise<void>((resolve) => server.stop(resolve))
    server.db.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /**
   * Labels an account (`did`) or a record (`at://…`). With `neg` it takes the label back.
   * @param options.cts when it was said. Default: now
   * @param options.exp when it ends. Default: never
   */
  async label(
    subject: string,
    val: string,
    options: { neg?: boolean; cts?: string; exp?: string | undefined } = {},
  ): Promise<void> {
    if (this.#server === undefined) throw new Error('the labeler is stopped')
    await this.#server.createLabel({ uri: subject, val, neg: false, ...options })
  }

  /** The rows about one subject, oldest first; negations are rows of their own. */
  async listLabels(subject: string): Promise<ListedLabel[]> {
    const params = { uriPatterns: [subject], limit: 250 }
    const answer = await callQuery<{ labels: ListedLabel[] }>(this.url, 'com.atproto.label.queryLabels', {
      params,
    })
    return answer.labels
  }
}

/** Starts a labeler with an identity of its own in the PLC directory at `plcUrl`. */
export async function startLabeler(options: { plcUrl: string; directory: string }): Promise<Labeler> {
  const { Secp256k1Keypair } = await import('@atproto/crypto')
  const port = await freePort()
  const key = await Secp256k1Keypair.create({ exportable: true })
  const did = await createDid(options.plcUrl, key, {
    alsoKnownAs: [],
    verificationMethods: { atproto_label: key.did() },
    services: {
      atproto_labeler: { type: 'AtprotoLabeler', endpoint: `http://localhost:${port}` },
    },
  })
  const labeler = new Labeler({
    did,
    port,
    signingKeyHex: Buffer.from(await key.export()).toString('hex'),
    databasePath: join(options.directory, `labeler-${port}.sqlite`),
  })
  await labeler.start()
  return labeler
}
