/** A subscriber of the stream: it holds what comes of honest accounts against what their hosts sent. */
import { isDeepStrictEqual } from 'node:util'
import { decode, fromBytes, type Bytes } from '@atcute/cbor'
import { cidKey, cidText, decodeCar, type EventBody } from '@tributary/testkit'
import { Journal } from './journal.ts'
import type { SentEvent } from './relay-witness.ts'
import { Witness, type OnBreach } from './witness.ts'

/** The payload of a message of `subscribeEvents`. */
type Payload = Record<string, unknown> & { $type: string }

/** What a message says beside its key. */
interface Row {
  key: string
  content: object
  /** The record that it is about. */
  path?: string
}

export class StreamWitness extends Witness<object> {
  readonly #url: string

  /** @param streamUrl it need not answer yet. */
  constructor(streamUrl: string, onBreach: OnBreach) {
    super('stream', new Journal({ readsAgain: true }), onBreach)
    this.#url = streamUrl.replace('http', 'ws')
  }

  /** An honest host is about to send an event. */
  expect({ type, did, body, sentAtMs }: SentEvent): void {
    // A repository that was read as a whole stands for the commits and syncs up to its revision.
    const rev = type === '#commit' || type === '#sync' ? String(body['rev']) : undefined
    for (const { key, content, path } of rowsOf(type, body)) {
      const isAsSent = (seen: object): boolean => isDeepStrictEqual(seen, content)
      this.journal.note({ did, key, rev, sentAtMs, isAsSent, ...(path !== undefined && { path }) })
    }
  }

  protected override url(): string {
    return `${this.#url}/xrpc/network.social.stream.subscribeEvents?cursor=${this.lastSeq === 0 ? 0 : this.lastSeq + 1}`
  }

  protected override take(data: Buffer, isBinary: boolean, arrivedMs: number): void {
    this.seen++
    const payload = isBinary ? undefined : read(data.toString())
    if (!payload) return this.breach('A5', `not a message: ${data.subarray(0, 200).toString()}`)
    const kind = payload.$type.slice(payload.$type.indexOf('#') + 1)
    // Errors and notices have no seq.
    if (kind === 'error' || kind === 'info') return
    this.checkSeq(payload['seq'])
    const { key, content, path } = shownRow(kind, payload)
    const isCreate = path !== undefined && payload['operation'] === 'create'
    const event = {
      did: String(payload['did']),
      key,
      isHint: kind === 'identity' && Object.keys(content).length === 0,
      syncRev: kind === 'sync' ? key.slice('sync '.length) : undefined,
      created: isCreate ? { rev: String(payload['rev']), path } : undefined,
      detail: JSON.stringify(content).slice(0, 400),
    }
    this.hold(event, content, arrivedMs)
  }
}

function read(text: string): Payload | undefined {
  try {
    const message = JSON.parse(text) as Payload & { payload?: Payload } // the lexicon has it so; else the fields miss
    return message.payload ?? message
  } catch {
    return undefined
  }
}

/** The messages that an event of an honest host must give. Its records hold neither links nor bytes. */
function rowsOf(type: string, body: EventBody): Row[] {
  const { time, rev, active, status, handle } = body
  if (type === '#sync') return [{ key: `sync ${String(rev)}`, content: {} }]
  if (type === '#identity') return [{ key: `identity ${String(time)}`, content: { handle } }]
  if (type === '#account') return [{ key: `account ${String(time)}`, content: { active, status } }]
  const blocks = decodeCar(fromBytes(body['blocks'] as Bytes)) // as `commitBody` made it
  const ops = body['ops'] as { action: string; path: string; cid: { bytes: Uint8Array } | null }[] // likewise
  return ops.map(({ action, path, cid }) => {
    const key = `commit ${String(rev)} ${action} ${path}`
    if (cid === null) return { key, content: {}, path }
    const record: unknown = decode(blocks.get(cidKey(cid.bytes)) ?? new Uint8Array())
    return { key, content: { cid: cidText(cid.bytes), record }, path }
  })
}

/** The same of a message that the stream sent. */
function shownRow(kind: string, payload: Payload): Row {
  const inner = (payload[kind] ?? {}) as Record<string, unknown> // as the lexicon has it
  const { time, rev, active, status, handle } = inner
  if (kind === 'sync') return { key: `sync ${String(rev)}`, content: {} }
  if (kind === 'identity')
    return { key: `identity ${String(time)}`, content: handle === undefined ? {} : { handle } }
  if (kind === 'account') return { key: `account ${String(time)}`, content: { active, status } }
  const { operation, collection, rkey, cid, record } = payload
  const path = `${String(collection)}/${String(rkey)}`
  const key = `commit ${String(payload['rev'])} ${String(operation)} ${path}`
  return { key, content: operation === 'delete' ? {} : { cid, record }, path }
}
