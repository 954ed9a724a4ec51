/**
 * Scripts: what happens in a run, as a list of plain steps drawn from a seed. Every step can be left out: a step that
 * makes no sense without another does nothing.
 */
import { randomFrom, type Random } from '@tributary/testkit/disk'
import { manners } from './conditions.ts'
import { scenes } from './scenes.ts'
import { handles, type Step } from './step.ts'

export interface Script {
  seed: number
  /** Events that the stream gives at a time. */
  batchMax: number
  /** Milliseconds that pass between two looks at the time: transactions go over as many turns of the event loop. */
  lookMs: number
  /** How often the host of each account is asked. */
  checkEveryMs: number
  steps: readonly Step[]
}

/** Steps of a kind, and scenes of several, by how often they come. */
const weights: readonly [weight: number, make: (random: Random) => Step | Step[]][] = [
  [20, (random) => ({ do: 'wait', ms: random.below(random.pick([5, 500, 5000, 70_000, 1_000_000])) })],
  [30, events],
  [4, (random) => ({ do: 'status', account: random.below(8), word: random.pick(words) })],
  [5, identity],
  [5, (random) => ({ do: 'word', account: random.below(8), word: random.pick(words) })],
  [3, (random) => ({ do: 'move', account: random.below(8) })],
  [3, askedMeanwhile],
  [4, () => ({ do: 'rebuild' })],
  [8, (random) => ({ do: 'read', draw: draw(random) })],
  [12, condition],
  [3, (random) => ({ do: 'fail', afterCalls: random.below(random.pick([3, 100, 1000])) })],
  [
    9,
    (random) => ({
      do: 'restart',
      how: random.pick(['stop', 'kill', 'kill', 'power', 'power']),
      afterCalls: random.pick([undefined, 0, random.below(10), random.below(300), random.below(300)]),
      downMs: random.pick([0, 100, 3000, 90_000]),
    }),
  ],
]

function events(random: Random): Step {
  return { do: 'events', count: 1 + random.below(random.pick([1, 8, 60, 200])), draw: draw(random) }
}

function identity(random: Random): Step {
  return { do: 'identity', account: random.below(8), handle: random.pick(handles) }
}

/** The stream tells of an account, or the account changes, while somebody is slow to answer for it. */
function askedMeanwhile(random: Random): Step[] {
  const account = random.below(8)
  const word = (): string => random.pick(words)
  const part = random.pick(['hosts', 'directory', 'names'] as const)
  const change = random.pick<Step>([
    { do: 'status', account, word: word() },
    { do: 'identity', account, handle: random.pick(handles) },
    { do: 'move', account },
  ])
  return [
    { do: 'condition', part, manner: 'late', forMs: 300_000 },
    { do: 'word', account, word: word() },
    { ...identity(random), do: 'identity', account, handle: 'new' },
    { do: 'wait', ms: random.below(random.pick([3000, 70_000])) },
    change,
    { do: 'wait', ms: random.below(3000) },
  ]
}

const words = ['active', 'active', 'deactivated', 'takendown', 'deleted']
const total = weights.reduce((sum, [weight]) => sum + weight, 0)

/** From this seed on scripts have scenes, too. Those before stay what they were. */
const scenesFrom = 1_000_000

export function scriptOf(seed: number): Script {
  const script = drawnScript(seed)
  return seed < scenesFrom ? script : withScenes(script, randomFrom(seed ^ 0x5ce7e))
}

/**
 * Few other steps, and scenes in between. In half of the scripts the stream is compacted: no power is cut in those, because
 * an index that forgets what it had reads what is left.
 */
function withScenes(script: Script, random: Random): Script {
  const steps: Step[] = script.steps
    .slice(0, 8 + random.below(12))
    .map((step) =>
      step.do === 'events'
        ? { ...step, count: Math.min(step.count, 30), isDense: random.next() < 0.7 }
        : step,
    )
  for (let count = 2 + random.below(4); count > 0; count--)
    steps.splice(random.below(steps.length + 1), 0, ...random.pick(scenes)(random))
  const isCompacted = random.next() < 0.5
  return {
    ...script,
    steps: steps.filter((step) => (isCompacted ? !isPowerCut(step) : step.do !== 'compact')),
  }
}

function isPowerCut(step: Step): boolean {
  return step.do === 'restart' && step.how === 'power'
}

function drawnScript(seed: number): Script {
  const random = randomFrom(seed)
  return {
    seed,
    batchMax: random.pick([1, 10, 100]),
    lookMs: random.pick([0, 0.1, 1, 20]),
    checkEveryMs: random.pick([60_000, 600_000, 3_600_000]),
    steps: Array.from({ length: 10 + random.below(40) }, () => stepOf(random)).flat(),
  }
}

function stepOf(random: Random): Step | Step[] {
  let at = random.below(total)
  for (const [weight, make] of weights) {
    if (at < weight) return make(random)
    at -= weight
  }
  throw new Error('a number below the sum of the weights is below one of them')
}

function draw(random: Random): number {
  return random.below(2 ** 31)
}

function condition(random: Random): Step {
  const part = random.pick(['stream', 'stream', 'directory', 'hosts', 'names'] as const)
  const manner = random.pick<string>(manners[part])
  return { do: 'condition', part, manner, forMs: random.pick([200, 5000, 40_000, 1_000_000]) }
}
