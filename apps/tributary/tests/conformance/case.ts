/** What one case does and sees: V is the viewer, A and B are authors, E is an evaluator, O is an organization. */
import { recordUri, type Did } from '@tributary/protocol'
import { didOf, noon, type Ref } from './made.ts'
import type { World } from './world.ts'

/** Cases of the specification. */
export const caseCount = 152
export const getFeed = 'org.impact.feed.getFeed'
export const getFeedSkeleton = 'org.impact.feed.getFeedSkeleton'
export const impactFeedId = 'org.impact.feed.defs#impactFeed'
const impactParams = 'org.impact.feed.defs#impactFeedParams'

export const names = {
  activity: 'org.impact.claim.activity',
  attachment: 'org.impact.context.attachment',
  award: 'app.attested.badge.award',
  board: 'org.hyperboards.board',
  collection: 'org.impact.collection',
  definition: 'app.attested.badge.definition',
  evaluation: 'org.impact.context.evaluation',
  follow: 'app.attested.graph.follow',
  measurement: 'org.impact.context.measurement',
  organization: 'app.attested.actor.organization',
  profile: 'app.attested.actor.profile',
  response: 'app.attested.badge.response',
  socialProfile: 'app.social.actor.profile',
} as const
export type Name = keyof typeof names

export interface Item {
  readonly subject: string
  readonly view: {
    readonly kind: string
    readonly actor: Record<string, unknown>
    readonly content: Record<string, unknown>
  }
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly error: string | undefined
  readonly text: string
  readonly feed: readonly Item[]
  readonly cursor: string | undefined
}

/** Fields that a valid record of a collection needs besides `$type` and `createdAt`. */
function needed(name: Name, target: Ref): object {
  switch (name) {
    case 'activity':
      return { title: 'Trees', shortDescription: 'We planted trees.' }
    case 'collection':
      return { title: 'Water' }
    case 'evaluation':
      return { evaluators: [{ did: didOf('grader') }], summary: 'Done as described.' }
    case 'measurement':
      return { metric: 'trees planted', unit: 'trees', value: '200' }
    case 'attachment':
      return { title: 'Week 3' }
    case 'definition':
      return { title: 'Good work', badgeType: 'endorsement' }
    case 'board':
      return { subject: target }
    default:
      return {}
  }
}

export class Case {
  readonly world: World
  readonly V: Did
  readonly A: Did
  readonly B: Did
  readonly E: Did
  readonly O: Did
  readonly #number: number
  #keys = 0

  constructor(world: World, number: number) {
    this.world = world
    this.#number = number
    ;[this.V, this.A, this.B, this.E, this.O] = [
      this.did('v'),
      this.did('a'),
      this.did('b'),
      this.did('e'),
      this.did('o'),
    ]
  }

  /** The account of a name in this case. */
  did(name: string): Did {
    const digits = String(this.#number).replaceAll(/./g, (digit) => 'abcdefghij'[Number(digit)] ?? '')
    return didOf(`${name}c${digits}`)
  }

  nextKey(): string {
    return `3k${String(this.#keys++).padStart(4, '0')}`
  }

  /** Stores a valid record, with more fields or others. A field that is undefined is left out. */
  put(did: Did, name: Name, rkey: string, fields: object = {}, receivedAt = noon): Ref {
    const target = { uri: recordUri(this.B, names.activity, '3target'), cid: `bafyrei${'a'.repeat(52)}` }
    const record = { $type: names[name], createdAt: noon, ...needed(name, target), ...fields }
    const json = JSON.parse(JSON.stringify(record)) as object // without undefined fields
    return this.world.put(did, names[name], rkey, json, receivedAt)
  }

  remove(did: Did, name: Name, rkey: string): void {
    const seq = this.world.nextSeq()
    const path = { collection: names[name], rkey } as never // a valid path
    this.world.send({
      kind: 'commit',
      operation: 'delete',
      rev: `3l${seq}`,
      seq,
      did,
      time: noon,
      ...Object(path),
    })
  }

  follow(subject: unknown, by = this.V): string {
    const rkey = this.nextKey()
    this.put(by, 'follow', rkey, { subject })
    return rkey
  }

  /** An award to an account; a definition of the issuer's own unless a badge is given. */
  endorse(issuer: Did, did: Did, { badge, ...fields }: { badge?: Ref } & Record<string, unknown> = {}): Ref {
    const named = badge ?? this.put(issuer, 'definition', this.nextKey())
    const subject = { $type: 'app.attested.defs#did', did }
    return this.put(issuer, 'award', this.nextKey(), { badge: named, subject, ...fields })
  }

  respond(by: Did, badgeAward: Ref, response: string, at = noon, receivedAt = noon): void {
    this.put(by, 'response', this.nextKey(), { badgeAward, response, createdAt: at }, receivedAt)
  }

  /** Sends a call once the index has folded all events. */
  async call(
    method: string,
    body: unknown,
    headers: Record<string, string> = {},
    init: RequestInit = {},
  ): Promise<Answer> {
    await this.world.settled()
    const response = await fetch(`${this.world.feedUrl}/xrpc/${method}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...init,
    })
    const text = await response.text()
    const read = (text === '' ? {} : JSON.parse(text)) as Partial<Answer> // cases look into it
    const { feed = [], cursor, error } = read
    return { status: response.status, headers: response.headers, text, feed, cursor, error }
  }

  body(params: object = {}, fields: object = {}): object {
    const named = { $type: impactParams, viewerDid: this.V, ...params }
    return { feedId: impactFeedId, params: named, limit: 50, ...fields }
  }

  ask(method: string, params: object = {}, fields: object = {}): Promise<Answer> {
    return this.call(method, this.body(params, fields))
  }

  /** The record keys of V's page, from the skeleton. */
  async keys(params: object = {}, fields: object = {}): Promise<string[]> {
    const { status, feed, text } = await this.ask(getFeedSkeleton, params, fields)
    if (status !== 200) throw new Error(`${status}: ${text}`)
    return feed.map(({ subject }) => subject.split('/').at(-1) ?? '')
  }

  /** V's page as it is shown. */
  async items(params: object = {}, fields: object = {}): Promise<readonly Item[]> {
    const { status, feed, text } = await this.ask(getFeed, params, fields)
    if (status !== 200) throw new Error(`${status}: ${text}`)
    return feed
  }

  /** Kind and record key of each entry that is shown. */
  async kinds(params: object = {}): Promise<string[]> {
    return (await this.items(params)).map(({ subject, view }) => `${view.kind} ${subject.split('/').at(-1)}`)
  }
}
