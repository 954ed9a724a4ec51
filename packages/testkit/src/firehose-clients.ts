/**
 * The clients that people read firehoses with, unmodified, behind one interface: what one of them
 * cannot read, users cannot read. Imported late, because together they take longer than most tests.
 */
import { WebSocket } from 'ws'

/** One thing that a client told: an operation of a commit, or another event. */
export interface SeenEvent {
  seq: number
  did: string
  /** `create a.b.c/rkey`, `update …`, `delete …`, `identity`, `account` or `sync`. */
  what: string
}

export interface FirehoseOptions {
  /** Base address of the relay or host, `ws://HOST:PORT`. */
  url: string
  /** Events after this seq; from now on when left out. */
  cursor?: number
  /** For the client that verifies signatures. */
  plcUrl: string
  onEvent: (event: SeenEvent) => void
  /** What the client itself calls an error. */
  onError: (error: unknown) => void
}

/** A reading client; `close` ends it. */
export interface OpenFirehose {
  close(): Promise<void>
}

export interface FirehoseClient {
  readonly name: string
  open(options: FirehoseOptions): Promise<OpenFirehose>
}

/** Verifies signatures and proofs of every commit against the DID document. */
const official: FirehoseClient = {
  name: '@atproto/sync',
  async open({ url, cursor, plcUrl, onEvent, onError }) {
    const { IdResolver } = await import('@atproto/identity')
    const { Firehose } = await import('@atproto/sync')
    let last = cursor
    const firehose = new Firehose({
      service: url,
      idResolver: new IdResolver({ plcUrl, fetch }),
      // Handles of test accounts are in no DNS.
      unauthenticatedHandles: true,
      getCursor: () => last,
      handleEvent(event) {
        last = event.seq
        const path = 'rkey' in event ? ` ${event.collection}/${event.rkey}` : ''
        onEvent({ seq: event.seq, did: event.did, what: event.event + path })
      },
      onError,
    })
    void firehose.start()
    return { close: () => firehose.destroy() }
  },
}

const skyware: FirehoseClient = {
  name: '@skyware/firehose',
  async open({ url, cursor, onEvent, onError }) {
    const { Firehose } = await import('@skyware/firehose')
    const firehose = new Firehose({
      relay: url,
      ws: WebSocket,
      autoReconnect: false,
      ...(cursor === undefined ? {} : { cursor: String(cursor) }),
    })
    firehose.on('commit', ({ seq, repo, ops }) => {
      for (const { action, path } of ops) onEvent({ seq, did: repo, what: `${action} ${path}` })
    })
    firehose.on('identity', ({ seq, did }) => onEvent({ seq, did, what: 'identity' }))
    firehose.on('account', ({ seq, did }) => onEvent({ seq, did, what: 'account' }))
    firehose.on('sync', ({ seq, did }) => onEvent({ seq, did, what: 'sync' }))
    firehose.on('error', ({ error }) => onError(error))
    firehose.on('websocketError', ({ error }) => onError(error))
    const closed = new Promise<void>((resolve) => firehose.on('close', () => resolve()))
    firehose.start()
    return {
      async close() {
        firehose.close()
        await closed
      },
    }
  },
}

/** Validates every event against the lexicon. */
const atcute: FirehoseClient = {
  name: '@atcute/firehose',
  async open({ url, cursor, onEvent, onError }) {
    const { ComAtprotoSyncSubscribeRepos } = await import('@atcute/atproto')
    const { FirehoseSubscription } = await import('@atcute/firehose')
    const closed = Promise.withResolvers<void>()
    const subscription = new FirehoseSubscription({
      service: url,
      nsid: ComAtprotoSyncSubscribeRepos.mainSchema,
      params: cursor === undefined ? {} : { cursor },
      onConnectionClose: () => closed.resolve(),
      onError,
    })
    const events = subscription[Symbol.asyncIterator]()
    const read = async (): Promise<void> => {
      for await (const event of events) {
        if (event.$type === 'com.atproto.sync.subscribeRepos#info') continue
        const { seq } = event
        if (event.$type === 'com.atproto.sync.subscribeRepos#commit') {
          for (const { action, path } of event.ops)
            onEvent({ seq, did: event.repo, what: `${action} ${path}` })
        } else {
          const [, what = ''] = event.$type.split('#')
          onEvent({ seq, did: event.did, what })
        }
      }
    }
    void read().catch(onError)
    return {
      async close() {
        await events.return()
        await closed.promise
      },
    }
  },
}

/** Three independent clients. */
export const firehoseClients: readonly FirehoseClient[] = [official, skyware, atcute]
