/** Random events of a few accounts whose records refer to each other: references hit, miss and hit again. */
import type { StreamEvent } from '@tributary/protocol'
import type { Random } from '@tributary/testkit'
import { collections } from '../src/fold/record-facts.ts'
import { accountEvent, cidOf, deleteEvent, did, putEvent, syncEvent } from './scenario.ts'

const names = ['x', 'y', 'z'] as const
/** An account that never leaves. */
export const keeper = 'keeper'

type Content = readonly [collection: string, record: Record<string, unknown>]

export function randomEvent(seq: number, random: Random): StreamEvent {
  const time = timeOf(seq * 20)
  const name = random.below(10) === 0 ? keeper : random.pick(names)
  const [collection, record] = randomContent(name, random)
  const rkey = referred.includes(collection) ? 'k1' : random.pick(['self', 'k1', 'k2'])
  const what = random.below(24)
  if (what === 0 && name !== keeper) {
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

/** Records that others refer to have one key. */
const referred: readonly string[] = [collections.activity, collections.definition, collections.award]

function randomContent(name: string, random: Random): Content {
  const kind = random.pick([0, 0, 0, 1])
  const other = random.pick(names)
  const createdAt = timeOf(random.below(100))
  const contents: readonly Content[] = [
    [collections.activity, activityOf(kind)],
    [
      collections.collection,
      { items: [{ itemIdentifier: ref(name, collections.activity, activityOf(kind)) }] },
    ],
    [collections.definition, definitionOf(kind)],
    [collections.award, awardOf(other, kind, random.pick(names))],
    [
      collections.response,
      {
        badgeAward: ref(other, collections.award, awardOf(random.pick(names), kind, name)),
        response: random.pick(['accepted', 'rejected']),
        createdAt,
      },
    ],
    [collections.evaluation, random.below(3) === 0 ? { kind } : { createdAt }],
    ...[...names, keeper].map((followed): Content => [collections.follow, { subject: did(followed) }]),
    [collections.organization, {}],
  ]
  return random.pick(contents)
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
  const badge = ref(owner, collections.definition, definitionOf(kind))
  return { badge, subject: { $type: 'app.attested.defs#did', did: did(subject) } }
}
