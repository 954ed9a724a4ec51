/**
 * Scripts: what happens in a run, as a list of plain steps drawn from a seed. Every step can be left out: a step that
 * makes no sense without another does nothing.
 */
import { randomFrom, type Random } from '@tributary/testkit/disk'
import type { Pace } from '@tributary/testkit/simulation'
import { manners } from './conditions.ts'
import {
  halfWritten,
  hiddenMeanwhile,
  killAt,
  of,
  quiet,
  scenes,
  type Scene,
  watch,
  watchedAfterKill,
  watchedAnew,
  watchedWhileRead,
} from './scenes.ts'
import { killScene, olderAnswer } from './kill-scenes.ts'
import { lateScene } from './late-scenes.ts'
import { cursors, edges, type Step, subscribersMax } from './step.ts'
import type { Bounds, Upkeep } from './stream-process.ts'

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

const words = ['deactivated', 'takendown', 'active', 'active']

/** From these seeds on scripts have scenes, and hardly anything else. Those before stay what they were. */
const firstWith = { scenes: 1_000_000, scenesAlone: 2_000_000, edges: 3_000_000 }

export function scriptOf(seed: number): Script {
  const script = withKeys(drawnScript(seed), randomFrom(seed ^ 0x6e75))
  if (seed < firstWith.scenes) return script
  const random = randomFrom(seed ^ 0x5ce7e)
  if (seed < firstWith.scenesAlone) return withScenes(script, random)
  if (seed < firstWith.edges) return ofScenes(script, random)
  return atEdges(seed % 2 === 0 ? ofScenes(script, random) : ofKillScenes(script, random), random)
}

/** Some subscribers come with cursors at edges, and cursors reach back for seconds only, at times. */
function atEdges(script: Script, random: Random): Script {
  const lookBackMs = random.pick([undefined, undefined, 1000, 20_000])
  return {
    ...script,
    bounds: { ...script.bounds, ...(lookBackMs !== undefined && { lookBackMs }) },
    steps: script.steps.map((step) =>
      step.do === 'join' && random.next() < 0.3 ? { ...step, cursor: random.pick(edges) } : step,
    ),
  }
}

/**
 * One or two accounts whose repositories are read, and the end of a process. What comes after a scene may mend what it
 * broke, so nothing comes after the last one.
 */
function ofKillScenes(script: Script, random: Random): Script {
  const steps = script.steps.slice(0, random.below(8))
  for (let count = 1 + random.below(3); count > 0; count--) steps.push(...killScene(random))
  const quietAccounts = random.below(2)
  return {
    ...script,
    accounts: 1 + random.below(2),
    bounds: { ...script.bounds, refillRows: 1, logFileBytes: random.pick([1, 3000]) },
    upkeep: {
      compactEveryMs: 0,
      compactBytesPerSecond: 2 ** 30,
      listedAfterMs: random.pick([0, 0, 3000]),
      quietAccounts,
    },
    steps: quietAccounts > 0 ? [...random.pick([quiet, olderAnswer])(random), ...steps] : steps,
  }
}

/** Little but scenes, keys with long prefixes that they share at times, and little memory for subscribers. */
function ofScenes(script: Script, random: Random): Script {
  const listedAfterMs = random.pick([0, 0, 5000])
  const steps = script.steps.slice(0, 3 + random.below(6))
  const upkeep = script.upkeep && { ...script.upkeep, listedAfterMs }
  const whole = withScenes({ ...script, ...(upkeep && { upkeep }), steps }, random, lateScene)
  const areKeysLong = random.next() < 0.2
  const heldBytes = random.pick([8000, 2 ** 28])
  return { ...whole, bounds: { ...whole.bounds, areKeysLong, heldBytes } }
}

/** Few accounts and few other steps, so that as much happens to each, and scenes in between. */
function withScenes(script: Script, random: Random, draw: Scene = drawnScene): Script {
  const isQuiet = random.next() < 0.5
  const steps = script.steps.slice(0, 16 + random.below(16))
  for (let count = 3 + random.below(5); count > 0; count--)
    steps.splice(random.below(steps.length + 1), 0, ...draw(random))
  return {
    ...script,
    accounts: 1 + random.below(3),
    bounds: {
      ...script.bounds,
      refillRows: random.pick([1, 1, 3]),
      logFileBytes: random.pick([1, 1, 3000]),
    },
    ...(isQuiet && script.upkeep && { upkeep: { ...script.upkeep, listedAfterMs: 0, quietAccounts: 1 } }),
    steps: isQuiet ? [...quiet(random), ...steps] : steps,
  }
}

function drawnScene(random: Random): Step[] {
  return random.pick(scenes)(random)
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

function condition(random: Random): Step {
  const part = random.pick(['directory', 'link', 'link', 'host', 'disk', 'disk', 'database'] as const)
  const manner = random.pick<string>(manners[part])
  return { do: 'condition', part, manner, forMs: random.pick([200, 2000, 10_000, 40_000]) }
}
