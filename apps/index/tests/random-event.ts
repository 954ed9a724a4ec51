/** Random events of a few accounts whose records refer to each other: references hit, miss and hit again. */
import { type Did, feedCollections, type StreamEvent } from '@tributary/protocol'
import type { Random } from '@tributary/testkit'
import { accountEvent, cidOf, deleteEvent, did, putEvent, syncEvent } from './scenario.ts'

const firstNames = ['x', 'y', 'z'] as const
/** An account that never leaves. */
export const keeper = 'keeper'

/** So many of the contents refer to others, are referred to, or have a time of their own. */
const referring = 6

type Content = readonly [collection: string, record: Record<string, unknown>]

/** The accounts of a family. Their records refer to each other, and to no other family's. */
export function familyOf(family: number): Did[] {
  const { names, keeperName } = namesOf(family)
  return [...names, keeperName].map(did)
}

function namesOf(family: number | undefined): { names: string[]; keeperName: string } {
  // Digits that a DID of the PLC method has.
  const suffix =
    family === undefined ? '' : family.toString(6).replaceAll(/./g, (digit) => `${Number(digit) + 2}`)
  return { names: firstNames.map((name) => name + suffix), keeperName: keeper + suffix }
}

/** @param family number of the family whose event it is, where there are several */
export function randomEvent(seq: number, random: Random, family?: number): StreamEvent {
  const time = timeOf(seq * 20)
  const { names, keeperName } = namesOf(family)
  const name = random.below(10) === 0 ? keeperName : random.pick(names)
  const [collection, record] = randomContent(name, random, family)
  const rkey = referred.includes(collection) ? 'k1' : random.pick(['self', 'k1', 'k2'])
  const what = random.below(24)
  if (what === 0 && name !== keeperName) {
    const status = random.pick([
      ...Array(6).fill('active'),
      'deactivated',
      'takendown',
      'deleted',
    ] as string[])
    return accountEvent(seq, time, name, status === 'active', status)
  }
  if (what === 1) return syncEvent(seq, time, name, random.pick(['stream', 'upstream']))
  if (what < 5) return deleteEvent(seq, time, name, collection, rkey)
  return putEvent(seq, time, name, collection, rkey, record).event
}

/** An account of a family says that it is an organization. */
export function organizationEvent(seq: number, random: Random, family: number): StreamEvent {
  const { names, keeperName } = namesOf(family)
  const name = random.pick([...names, keeperName])
  return putEvent(seq, timeOf(seq * 20), name, feedCollections.organization, 'self', {}).event
}

/** An event of two accounts that do little else than refer to each other's records, go away and come back. */
export function denseEvent(seq: number, random: Random): StreamEvent {
  const time = timeOf(seq * 20)
  const name = random.pick(['x', 'y'])
  const [collection, record] = randomContent(name, random, undefined, true)
  const rkey = referred.includes(collection) ? 'k1' : random.pick(['k1', 'k2'])
  const what = random.below(14)
  if (what === 0) {
    const status = random.pick(['active', 'active', 'deactivated', 'takendown', 'deleted'])
    return accountEvent(seq, time, name, status === 'active', status)
  }
  if (what === 1) return syncEvent(seq, time, name, random.pick(['stream', 'stream', 'upstream']))
  if (what < 5) return deleteEvent(seq, time, name, collection, rkey)
  return putEvent(seq, time, name, collection, rkey, record).event
}

/** Records that others refer to have one key. */
const referred: readonly string[] = [
  feedCollections.activity,
  feedCollections.definition,
  feedCollections.award,
]

function randomContent(name: string, random: Random, family: number | undefined, isDense = false): Content {
  const { keeperName, names: all } = namesOf(family)
  const names = isDense ? all.slice(0, 2) : all
  const kind = random.pick([0, 0, 0, 1])
  const other = random.pick(names)
  const createdAt = timeOf(random.below(100))
  const item = { itemIdentifier: ref(name, feedCollections.activity, activityOf(kind)) }
  const contents: readonly Content[] = [
    [feedCollections.activity, activityOf(kind)],
    [feedCollections.collection, { items: random.below(4) === 0 ? [item, item] : [item] }],
    [feedCollections.definition, definitionOf(kind)],
    [feedCollections.award, awardOf(other, kind, random.pick(names))],
    [
      feedCollections.response,
      {
        badgeAward: ref(other, feedCollections.award, awardOf(random.pick(names), kind, name)),
        response: random.pick(['accepted', 'rejected']),
        createdAt,
      },
    ],
    [feedCollections.evaluation, random.below(3) === 0 ? { kind } : { createdAt }],
    ...[...names, keeperName].map((followed): Content => [
      feedCollections.follow,
      { subject: did(followed) },
    ]),
    [feedCollections.organization, {}],
  ]
  return random.pick(isDense ? contents.slice(0, referring) : contents)
}

/** The time of the stream, so long after its beginning. */
export function timeOf(seconds: number): string {
  return new Date(Date.UTC(2026, 2, 4) + seconds * 1000).toISOString().replace('Z', '000Z')
}

function ref(
  owner: string,
  collection: string,
  record: Record<string, unknown>,
): { uri: string; cid: string } {
  return { uri: `at://${did(owner)}/${collection}/k1`, cid: cidOf({ $type: collection, ...record }) }
}

function activityOf(kind: number): Record<string, unknown> {
  return { title: `t${kind}`, createdAt: timeOf(kind * 45) }
}

function definitionOf(kind: number): Record<string, unknown> {
  return { badgeType: kind === 1 ? 'recognition' : 'endorsement' }
}

function awardOf(owner: string, kind: number, subject: string): Record<string, unknown> {
  const badge = ref(owner, feedCollections.definition, definitionOf(kind))
  return { badge, subject: { $type: 'app.attested.defs#did', did: did(subject) } }
}
