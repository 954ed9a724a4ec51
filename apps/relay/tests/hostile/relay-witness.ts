/** An ordinary consumer of the relay: it reads every event with three strict decoders, and holds those of honest accounts against what was sent. */
import { encodeEvent, type EventBody } from '@tributary/testkit'
import { readLoosely, strictFault } from '@tributary/testkit/strict-decoders'
import { Journal } from './journal.ts'
import { describeBody, isHint, keyOf, Witness, type OnBreach } from './witness.ts'

interface SeenFrame {
  message: Uint8Array
  seq: unknown
}

const bytesShown = 120

export class RelayWitness extends Witness<SeenFrame> {
  readonly #url: string

  /** @param relayUrl it need not answer yet. */
  constructor(relayUrl: string, onBreach: OnBreach) {
    super('relay', new Journal(), onBreach)
    this.#url = relayUrl.replace('http', 'ws')
  }

  /** An honest host is about to send an event. */
  expect({ type, did, body, sentAtMs }: SentEvent): void {
    this.journal.note({
      did,
      key: keyOf(type, body),
      rev: type === '#commit' ? String(body['rev']) : undefined,
      sentAtMs,
      isAsSent: ({ message, seq }) => Buffer.compare(encodeEvent(type, { ...body, seq }), message) === 0,
    })
  }

  protected override url(): string {
    return `${this.#url}/xrpc/com.atproto.sync.subscribeRepos?cursor=${this.lastSeq}`
  }

  protected override take(message: Buffer, _: boolean, arrivedMs: number): void {
    this.seen++
    const fault = strictFault(message)
    if (fault !== undefined) this.breach('A5', `${fault}: ${message.subarray(0, bytesShown).toString('hex')}`)
    // What no strict decoder reads may still be forged: some consumers are not strict.
    const [header, body] = readLoosely(message) ?? []
    // A relay that ends in order says so.
    if (!header || !body || header['op'] === -1) return
    const t = String(header['t'])
    if (t === '#info')
      return this.breach('A7', `a notice to a consumer that kept up: ${JSON.stringify(body)}`)
    this.checkSeq(body['seq'])
    const event = {
      did: String(t === '#commit' ? body['repo'] : body['did']),
      key: keyOf(t, body),
      isHint: isHint(t, body),
      syncRev: t === '#sync' ? String(body['rev']) : undefined,
      detail: describeBody(body),
    }
    this.hold(event, { message, seq: body['seq'] }, arrivedMs)
  }
}

export interface SentEvent {
  type: string
  did: string
  body: EventBody
  sentAtMs: number
}
