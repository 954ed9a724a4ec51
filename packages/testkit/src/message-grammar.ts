/**
 * A grammar of messages of `subscribeRepos`: every kind, right in what it says or wrong in any number of ways. Each
 * starts as what a careful host would send, and changes are then drawn on its fields and bytes.
 */
import { encode } from '@atcute/cbor'
import { blockOfBytes } from './cid.ts'
import { cborHead, cborMap, cborText, fieldsOf, inOrder, oddKeys, randomCbor } from './cbor-grammar.ts'
import type { CborField, CborItem } from './cbor-grammar.ts'
import { commitBody, encodeCar, syncBody } from './commit-event.ts'
import type { EventBody } from './commit-event.ts'
import { hostileKinds, hostileMessage } from './hostile-message.ts'
import type { Random } from './random.ts'
import { sampleRecord } from './sample-record.ts'
import type { SignedRepo } from './signed-repo.ts'
import { nextTid } from './tid.ts'

/** Who takes part in the messages. */
export interface MessageActors {
  /** Whose events these are: the sender has its key. Commits that are drawn are not applied to it. */
  own: SignedRepo
  /** Accounts of others that a message may name. */
  others: readonly SignedRepo[]
  /** DIDs of others that a message may name. */
  otherDids: readonly string[]
}

export interface MessageOptions {
  seq: number
  /** Most changes that are made to what a careful host would send. Default 3. */
  changesMax?: number
  /** How often a value that is put in is one that DAG-CBOR forbids. Default 0.3. */
  forbiddenShare?: number
}

/** A message in parts that can be changed. */
interface Draft {
  header: CborField[]
  body: CborField[]
  /** Which DIDs may be written where an account is named. */
  dids: readonly string[]
  forbiddenShare: number
  /** What is done to the bytes at the end. */
  finish: ((message: Uint8Array) => Uint8Array)[]
  isOrdered: boolean
}

export const messageTypes = [
  '#commit',
  '#sync',
  '#identity',
  '#account',
  '#info',
  'error',
  'unknown',
] as const
export type MessageType = (typeof messageTypes)[number]

/** A message with up to `changesMax` things wrong or odd. */
export function randomMessage(random: Random, actors: MessageActors, options: MessageOptions): Uint8Array {
  const { own, others, otherDids } = actors
  const { seq, changesMax = 3, forbiddenShare = 0.3 } = options
  const other = others[random.below(others.length)]
  if (other && random.next() < 0.15) {
    const kind = random.pick(
      hostileKinds.filter((each) => each !== 'oversized-message' && each !== 'blocks-too-large'),
    )
    return hostileMessage(kind, { account: own, other, seq })
  }
  const draft = careful(random, random.pick(messageTypes), own, seq)
  const dids = [own.did, ...otherDids, ...others.map(({ did }) => did)]
  const changed: Draft = { ...draft, dids, forbiddenShare, finish: [], isOrdered: true }
  for (let left = random.below(changesMax + 1); left > 0; left--) random.pick(changes)(random, changed)
  const { header, body, isOrdered } = changed
  const parts = isOrdered ? [inOrder(header), inOrder(body)] : [header, body]
  const message: Uint8Array = Buffer.concat(parts.map(cborMap))
  return changed.finish.reduce((bytes, finish) => finish(bytes), message)
}

/** A right event with fields that nobody knows, whose values every decoder can read. */
export function oddlyExtended(random: Random, type: MessageType, own: SignedRepo, seq: number): Uint8Array {
  const { header, body } = careful(random, type, own, seq)
  const known = new Set(body.map(([key]) => key))
  const names = new Set(Array.from({ length: 1 + random.below(3) }, () => random.pick(oddKeys)))
  const extra = [...names].filter((name) => !known.has(name))
  const fields = extra.map((name): CborField => [name, randomCbor(random, { forbiddenShare: 0 })])
  return Buffer.concat([cborMap(inOrder(header)), cborMap(inOrder([...body, ...fields]))])
}

/** What a careful host sends. */
function careful(
  random: Random,
  type: MessageType,
  own: SignedRepo,
  seq: number,
): { header: CborField[]; body: CborField[] } {
  const header = fieldsOf(type === 'error' ? { op: -1 } : { op: 1, t: type === 'unknown' ? '#other' : type })
  const common = { seq, time: new Date().toISOString() }
  const bodies: Record<MessageType, () => EventBody> = {
    '#commit': () => ({ ...common, ...commitBody(draftCommit(random, own)) }),
    '#sync': () => ({ ...common, ...syncBody(own.did, own.rev ?? '', own.head) }),
    '#identity': () => ({ ...common, did: own.did }),
    '#account': () =>
      random.next() < 0.8
        ? { ...common, did: own.did, active: true }
        : {
            ...common,
            did: own.did,
            active: false,
            status: random.pick(['deactivated', 'constructor', 'x y']),
          },
    '#info': () => ({ name: 'OutdatedCursor', message: 'a notice' }),
    error: () => ({ error: 'Other', message: 'an error' }),
    unknown: () => ({ ...common, did: own.did, anything: [1, 'two'] }),
  }
  return { header, body: fieldsOf(bodies[type]()) }
}

const collection = 'org.impact.collection'

function draftCommit(random: Random, own: SignedRepo) {
  const record = sampleRecord(collection, { title: `drawn ${random.below(1e6)}` })
  return own.draft([{ action: 'create', collection, rkey: nextTid(), record }])
}

type Change = (random: Random, draft: Draft) => void

const changes: readonly Change[] = [
  // A field that nobody knows.
  (random, { body, forbiddenShare }) =>
    body.push([random.pick(oddKeys), randomCbor(random, { forbiddenShare })]),
  (random, { header, forbiddenShare }) =>
    header.push([random.pick(oddKeys), randomCbor(random, { forbiddenShare })]),
  // Another account beside the one that belongs there, before it or after it.
  (random, { body, dids }) => body.unshift([random.pick(['repo', 'did']), cborText(random.pick(dids))]),
  (random, { body, dids }) => body.push([random.pick(['repo', 'did']), cborText(random.pick(dids))]),
  (random, draft) => {
    draft.isOrdered = false
    draft.body.unshift([random.pick(['repo', 'did']), cborText(random.pick(draft.dids))])
  },
  // Another value, or none.
  (random, { body, forbiddenShare }) =>
    replaceOne(random, body, () => randomCbor(random, { forbiddenShare })),
  (random, { body, dids }) =>
    replaceNamed(body, random.pick(['repo', 'did']), () => cborText(random.pick(dids))),
  (random, { header, forbiddenShare }) =>
    replaceOne(random, header, () => randomCbor(random, { forbiddenShare })),
  (random, { body }) => void body.splice(random.below(body.length), 1),
  (random, { header }) => void header.splice(random.below(header.length), 1),
  // A field twice.
  (random, { body }) => void body.push(body[random.below(body.length)] ?? ['seq', Uint8Array.of(1)]),
  // Another order.
  (random, draft) => {
    draft.isOrdered = false
    shuffle(random, random.next() < 0.5 ? draft.body : draft.header)
  },
  // Numbers of the wrong size or form.
  (random, { body }) =>
    replaceNamed(body, 'seq', () =>
      random.pick([
        cborHead(0, 0),
        cborHead(0, 2n ** 53n),
        cborHead(0, 2n ** 64n - 1n),
        cborHead(0, 7, 8),
        cborHead(1, 4),
        encode('7').slice(),
      ]),
    ),
  (random, { body }) =>
    replaceNamed(body, 'time', () =>
      cborText(random.pick(['', 'yesterday', '2026-02-31T00:00:00Z', '\u{1F552}', 'x'.repeat(10_000)])),
    ),
  // A large field, a deep one.
  (random, { body }) => body.push(['padding', encode('x'.repeat(random.below(100_000))).slice()]),
  // Another header.
  (random, { header }) =>
    replaceNamed(header, 'op', () => random.pick([cborHead(0, 2), cborHead(1, 0), cborHead(0, 1, 1)])),
  (random, { header }) =>
    replaceNamed(header, 't', () =>
      cborText(random.pick(['', '#handle', '#tombstone', 'commit', 'constructor', '#sync'])),
    ),
  // A CAR with something else in it.
  (random, { body, forbiddenShare }) => {
    const block = blockOfBytes(randomCbor(random, { forbiddenShare }))
    replaceNamed(body, 'blocks', () => {
      const car = encodeCar(block.cid, [block])
      return Buffer.concat([cborHead(2, car.length), car])
    })
  },
  // The bytes at the end.
  (random, { finish }) =>
    finish.push((message) => Buffer.concat([message, random.bytes(1 + random.below(8))])),
  (random, { finish }) => finish.push((message) => message.subarray(0, random.below(message.length + 1))),
  (_, { finish }) => finish.push((message) => Buffer.concat([message, Uint8Array.of(0xa0)])),
  (random, { finish }) =>
    finish.push((message) => {
      const flipped = Buffer.from(message)
      const at = random.below(message.length)
      if (message.length > 0) flipped[at] = (flipped[at] ?? 0) ^ (1 << random.below(8))
      return flipped
    }),
]

function replaceOne(random: Random, fields: CborField[], value: () => CborItem): void {
  const at = random.below(fields.length)
  const [key] = fields[at] ?? []
  if (key !== undefined) fields[at] = [key, value()]
}

function replaceNamed(fields: CborField[], name: string, value: () => CborItem): void {
  const at = fields.findIndex(([key]) => key === name)
  if (at >= 0) fields[at] = [name, value()]
}

function shuffle(random: Random, fields: CborField[]): void {
  for (let at = fields.length - 1; at > 0; at--) {
    const other = random.below(at + 1)
    const [left, right] = [fields[at], fields[other]]
    if (left && right) [fields[at], fields[other]] = [right, left]
  }
}
