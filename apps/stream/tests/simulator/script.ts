/**
 * Scripts: what happens in a run, as a list of plain steps drawn from a seed. Every step can be left out: a step that
 * makes no sense without another does nothing.
 */
import { randomFrom, type Random } from '@tributary/testkit/disk'
import type { Ending, Pace } from '@tributary/testkit/simulation'
import { manners, type Part } from './conditions.ts'
import type { Bounds, Point, Upkeep } from './stream-process.ts'

/** Numbers of accounts are taken modulo how many there are. `draw` seeds what else a step needs. */
export type Step =
  /** @param until the moment that ends it sooner, if it comes. */
  | { do: 'wait'; ms: number; until?: Point }
  | { do: 'commit'; account: number; times: number; draw: number }
  | { do: 'sync'; account: number }
  | { do: 'identity'; account: number }
  | { do: 'status'; account: number; word: string }
  /**
   * An account has another key: its document says so, and after a while its host signs with it. It tells of that first, or
   * does not. At times the former key was stolen, and whoever has it signs with it as soon as that is told.
   */
  | { do: 'rotate'; account: number; gapMs: number; how: 'told' | 'untold' | 'stolen'; draw: number }
  /** The relay passes on what somebody else has signed in the name of an account: with its former key, if it had one. */
  | { do: 'forge'; account: number; draw: number }
  | { do: 'renumber'; before: number }
  | { do: 'condition'; part: Part; manner: string; forMs: number }
  /** @param at the moment from which the calls of the disk are counted. Default: at once. */
  | ({ do: 'restart'; at?: Point } & Ending)
  /** A write fails after so many syncs. Later syncs do not bring to the disk what it was to. */
  | { do: 'fail-write'; syncs: number }
  | { do: 'lose'; account: number; times: number; draw: number }
  | { do: 'seal' }
  | { do: 'compact' }
  /**
   * An operator adds a collection, or removes it, if it is not so already.
   * @param at the moment that is waited for. Default: at once.
   */
  | { do: 'watch'; collection: number; isWatched: boolean; at?: Point }
  | { do: 'plan'; filter: number; after: number }
  | { do: 'join'; subscriber: number; cursor: (typeof cursors)[number]; filter: number; pace: Pace }
  | { do: 'leave'; subscriber: number }
  | { do: 'pace'; subscriber: number; pace: Pace }

const cursors = ['own', 'own', 'own', 'none', 'start', 'start', 'back', 'back', 'future'] as const
export const subscribersMax = 6

export interface Script {
  seed: number
  accounts: number
  bounds: Bounds
  /** Default: takedowns leave the archive, and nothing else does; repositories are read that are marked. */
  upkeep?: Upkeep
  steps: readonly Step[]
}

const paces: readonly Pace[] = ['fast', 'fast', 'fast', 'slow', 'slow', 'crawling', 'stuck', 'mute']

type Weights = readonly (readonly [weight: number, make: (random: Random) => Step | Step[]])[]

/** Steps of a kind, and scenes of several, by how often they come. */
const weights: Weights = [
  [24, (random) => ({ do: 'wait', ms: random.below(random.pick([5, 50, 500, 500, 5000, 40_000])) })],
  [30, (random) => ({ ...of(random, 'commit'), times: 1 + random.below(random.pick([1, 3, 20])) })],
  [3, (random) => ({ ...of(random, 'lose'), times: 1 + random.below(3) })],
  [3, (random) => of(random, 'sync')],
  [4, (random) => of(random, 'identity')],
  [4, (random) => ({ ...of(random, 'status'), word: random.pick(words) })],
  [2, (random) => ({ do: 'renumber', before: random.below(random.pick([1, 5, 30])) })],
  [10, condition],
  [
    9,
    (random) => ({
      do: 'restart',
      how: random.pick(['stop', 'kill', 'kill', 'power', 'power']),
      afterCalls: random.pick([undefined, 0, 1, 2, 3, random.below(30)]),
      downMs: random.pick([0, 100, 3000]),
    }),
  ],
  [3, (random) => killAt(random, random.pick(['takedown', 'block-written', 'rows-dropped']))],
  [4, halfWritten],
  [2, hiddenMeanwhile],
  [4, () => ({ do: 'seal' })],
  [3, () => ({ do: 'compact' })],
  [4, (random) => ({ do: 'plan', filter: random.below(8), after: random.pick([0, 0, random.below(100)]) })],
  [
    8,
    (random) => ({
      do: 'join',
      subscriber: random.below(subscribersMax),
      cursor: random.pick(cursors),
      filter: random.below(8),
      pace: random.pick(paces),
    }),
  ],
  [1, (random) => ({ do: 'leave', subscriber: random.below(subscribersMax) })],
  [3, (random) => ({ do: 'pace', subscriber: random.below(subscribersMax), pace: random.pick(paces) })],
]

/** What changes which collections are watched. Some scripts have none of it, because all rows have to come in those. */
const watchWeights: Weights = [
  [4, watch],
  [3, watchedAnew],
  [3, watchedWhileRead],
  [3, watchedAfterKill],
]

function watch(random: Random): Extract<Step, { do: 'watch' }> {
  const points = [undefined, undefined, 'refill-begins', 'refill-ends', 'takedown', 'block-written'] as const
  const at = random.pick(points)
  const isWatched = random.next() < 0.6
  return { do: 'watch', collection: random.below(8), isWatched, ...(at !== undefined && { at }) }
}

/** A collection is removed and added again, and accounts write meanwhile. */
function watchedAnew(random: Random): Step[] {
  const collection = random.below(8)
  const steps: Step[] = [{ do: 'watch', collection, isWatched: false }]
  for (let more = random.below(4); more > 0; more--) steps.push(commits(random), shortWait(random))
  return [...steps, { do: 'watch', collection, isWatched: true }]
}

/** Collections are added or removed while repositories are on their way, and their accounts write meanwhile. */
function watchedWhileRead(random: Random): Step[] {
  const { account } = of(random, 'sync')
  const read: Step[] = random.pick([
    [
      { ...of(random, 'lose'), account, times: 1 },
      { ...commits(random), account },
    ],
    [watch(random)],
  ])
  const steps: Step[] = [
    { do: 'condition', part: 'host', manner: 'late', forMs: 40_000 },
    ...read,
    { do: 'wait', ms: 20_000, until: 'repo-asked' },
  ]
  for (let more = 2 + random.below(5); more > 0; more--) {
    steps.push({ do: 'wait', ms: random.below(random.pick([50, 500, 5000])) })
    steps.push(random.next() < 0.4 ? watch(random) : commits(random))
  }
  return [...steps, { do: 'wait', ms: random.below(20_000) }]
}

/** The process ends just after rows came, and a collection is added or removed before their events come again. */
function watchedAfterKill(random: Random): Step[] {
  const kill: Step = {
    do: 'restart',
    how: random.pick(['kill', 'kill', 'power']),
    afterCalls: random.pick([undefined, random.below(12)]),
    downMs: 0,
  }
  return [commits(random), shortWait(random), kill, watch(random)]
}

function commits(random: Random): Extract<Step, { do: 'commit' }> {
  return { ...of(random, 'commit'), times: 1 + random.below(random.pick([1, 3])) }
}

function shortWait(random: Random): Step {
  return { do: 'wait', ms: random.below(random.pick([50, 500, 1500])) }
}

/** The process ends within some calls of a moment. */
function killAt(random: Random, at: Point): Step {
  const how = random.pick(['kill', 'kill', 'power'] as const)
  return { do: 'restart', at, how, afterCalls: random.below(random.pick([3, 12, 30])), downMs: 0 }
}

/** An account loses events and is written again, and the process ends meanwhile, at times again and again. */
function halfWritten(random: Random): Step[] {
  const { account } = of(random, 'sync')
  const more = (word: 'lose' | 'commit'): Step => ({
    ...of(random, word),
    do: word,
    account,
    times: 1 + random.below(4),
  })
  const kills = Array.from({ length: 1 + random.below(3) }, () => {
    const kill = killAt(random, random.pick(['refill-begins', 'refill-begins', 'refill-ends']))
    return random.next() < 0.4 ? [kill, more(random.pick(['lose', 'commit']))] : [kill]
  })
  return [more('lose'), more('commit'), ...kills.flat()]
}

/** An account that is written again goes away while its host is slow to answer. */
function hiddenMeanwhile(random: Random): Step[] {
  const { account } = of(random, 'sync')
  return [
    { do: 'condition', part: 'host', manner: 'late', forMs: 40_000 },
    { ...of(random, 'lose'), account, times: 1 },
    { ...of(random, 'commit'), account, times: 1 },
    { do: 'wait', ms: random.below(3000) },
    { ...of(random, 'status'), account, word: random.pick(['deactivated', 'takendown']) },
    { do: 'wait', ms: random.below(20_000) },
  ]
}

const words = ['deactivated', 'takendown', 'active', 'active']

export function scriptOf(seed: number): Script {
  return withKeys(drawnScript(seed), randomFrom(seed ^ 0x6e75))
}

/** Keys change, others write in the names of accounts, and threads that have much to verify are slow, or forget keys. */
function withKeys(script: Script, random: Random): Script {
  const steps = [...script.steps]
  for (let count = random.below(7); count > 0; count--) {
    const scene = random.pick<Step[]>([
      [{ ...of(random, 'rotate'), gapMs: random.pick([0, 50, 1500]), how: random.pick(['told', 'untold']) }],
      [{ ...of(random, 'rotate'), gapMs: 0, how: 'stolen' }],
      [of(random, 'forge')],
      [
        {
          do: 'condition',
          part: 'threads',
          manner: random.pick<string>(manners.threads),
          forMs: random.pick([2000, 10_000, 40_000]),
        },
        { ...of(random, 'commit'), times: 20 },
      ],
    ])
    steps.splice(random.below(steps.length + 1), 0, ...scene)
  }
  return { ...script, steps }
}

function drawnScript(seed: number): Script {
  const random = randomFrom(seed)
  const drawn = random.next() < 0.3 ? weights : [...weights, ...watchWeights]
  return {
    seed,
    accounts: 2 + random.below(6),
    bounds: {
      segmentBytes: random.pick([2000, 20_000, 2 ** 28]),
      logFileBytes: random.pick([1, 3000, 3000, 20_000]),
      blockAgeMs: random.pick([20, 1000, 30_000]),
      tailBytes: random.pick([3000, 20_000, 2 ** 20]),
      isTrusting: random.next() < 0.3,
      refillRows: random.pick([1, 3, 64]),
    },
    upkeep: {
      compactEveryMs: random.pick([0, 5000, 60_000]),
      compactBytesPerSecond: random.pick([2000, 2 ** 30]),
      listedAfterMs: random.pick([undefined, 0, 5000, 30_000]),
      quietAccounts: random.below(3),
    },
    steps: withFailedWrites(
      Array.from({ length: 15 + random.below(60) }, () => stepOf(random, drawn)).flat(),
      randomFrom(seed ^ 0xfa11),
    ),
  }
}

/** Has writes fail in some scripts, now and then. */
function withFailedWrites(steps: readonly Step[], random: Random): Step[] {
  if (random.next() < 0.7) return [...steps]
  const fail = (): Step => ({ do: 'fail-write', syncs: random.below(random.pick([1, 3, 10])) })
  return steps.flatMap((step) => (random.next() < 0.1 ? [fail(), step] : [step]))
}

function stepOf(random: Random, drawn: Weights): Step | Step[] {
  let at = random.below(drawn.reduce((sum, [weight]) => sum + weight, 0))
  for (const [weight, make] of drawn) {
    if (at < weight) return make(random)
    at -= weight
  }
  throw new Error('a number below the sum of the weights is below one of them')
}

function of<N extends string>(random: Random, name: N): { do: N; account: number; draw: number } {
  return { do: name, account: random.below(8), draw: random.below(2 ** 31) }
}

function condition(random: Random): Step {
  const part = random.pick(['directory', 'link', 'link', 'host', 'disk', 'disk', 'database'] as const)
  const manner = random.pick<string>(manners[part])
  return { do: 'condition', part, manner, forMs: random.pick([200, 2000, 10_000, 40_000]) }
}
