/** A consumer of the relay in one of the framings of proposal 0015. It must see the events of honest accounts as they were sent, too. */
import { isDeepStrictEqual } from 'node:util'
import { decode, encode } from '@atcute/cbor'
import type { EventBody } from '@tributary/testkit'
import { objectFault } from '@tributary/testkit/strict-decoders'
import { Journal } from './journal.ts'
import type { SentEvent } from './relay-witness.ts'
import { describeBody, isHint, keyOf, Witness, type OnBreach } from './witness.ts'

type Framing = 'json' | 'cbor'

const nsid = 'com.atproto.sync.subscribeRepos'
const bytesShown = 120

interface SeenMessage {
  message: Buffer
  seq: unknown
}

export class FramingWitness extends Witness<SeenMessage> {
  readonly #url: string
  readonly #framing: Framing

  /** @param relayUrl it need not answer yet. */
  constructor(relayUrl: string, framing: Framing, onBreach: OnBreach) {
    super(`relay (${framing})`, new Journal(), onBreach)
    this.#url = relayUrl.replace('http', 'ws')
    this.#framing = framing
  }

  /** An honest host is about to send an event. */
  expect({ type, did, body, sentAtMs }: SentEvent): void {
    const rev = type === '#commit' ? String(body['rev']) : undefined
    const isAsSent = ({ message, seq }: SeenMessage): boolean => {
      const whole = { $type: 'message', payload: { ...body, $type: `${nsid}${type}`, seq } }
      if (this.#framing === 'cbor') return Buffer.compare(encode(whole), message) === 0
      return isDeepStrictEqual(JSON.parse(message.toString()), JSON.parse(JSON.stringify(whole)))
    }
    this.journal.note({ did, key: keyOf(type, body), rev, sentAtMs, isAsSent })
  }

  protected override url(): string {
    return `${this.#url}/xrpc/${nsid}?cursor=${this.lastSeq}`
  }

  protected override get protocols(): string[] {
    return [`xrpc.v1.${this.#framing}`]
  }

  protected override take(message: Buffer, isBinary: boolean, arrivedMs: number): void {
    this.seen++
    const whole = this.#read(message, isBinary)
    if (!whole || whole['$type'] === 'error') return
    const payload = whole['payload'] as EventBody | undefined // checked below, where it matters
    const [, type] =
      /^com\.atproto\.sync\.subscribeRepos(#(?:commit|sync|identity|account))$/.exec(
        String(payload?.['$type']),
      ) ?? []
    if (!payload || type === undefined)
      return this.breach('A5', `a message of type ${String(whole['$type'])}, ${String(payload?.['$type'])}`)
    const { $type: _, ...body } = payload
    this.checkSeq(body['seq'])
    const event = {
      did: String(type === '#commit' ? body['repo'] : body['did']),
      key: keyOf(type, body),
      isHint: isHint(type, body),
      syncRev: type === '#sync' ? String(body['rev']) : undefined,
      detail: describeBody(body),
    }
    this.hold(event, { message, seq: body['seq'] }, arrivedMs)
  }

  #read(message: Buffer, isBinary: boolean): EventBody | undefined {
    try {
      if (isBinary !== (this.#framing === 'cbor')) throw new Error('a text for bytes, or bytes for a text')
      if (this.#framing === 'json') return JSON.parse(message.toString()) as EventBody // an object, or fields are missing
      const fault = objectFault(message)
      if (fault !== undefined) throw new Error(fault)
      return decode(message) as EventBody // likewise
    } catch (error) {
      this.breach('A5', `${String(error)}: ${message.subarray(0, bytesShown).toString('hex')}`)
      return undefined
    }
  }
}
