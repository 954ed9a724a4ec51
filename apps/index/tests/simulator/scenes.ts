/**
 * Scenes that scripts have from seed 1,000,000 on: situations of several steps in a row, which hardly come about when every
 * step is drawn by itself.
 */
import type { Random } from '@tributary/testkit/disk'
import type { Step } from './step.ts'

type Scene = (random: Random) => Step[]

/** Statuses that are none, or that a column cannot hold. */
const oddWords = ['constructor', 'x'.repeat(5000), 'with \u0000 in it', '\uD800', '']

function dense(random: Random, most = 30): Step {
  return { do: 'events', count: 1 + random.below(most), draw: random.below(2 ** 31), isDense: true }
}

function wait(random: Random, msMax: number): Step {
  return { do: 'wait', ms: random.below(msMax) }
}

function kill(random: Random): Step {
  const afterCalls = random.pick([undefined, random.below(30), random.below(300)])
  return { do: 'restart', how: 'kill', afterCalls, downMs: 0 }
}

/** Draws which of several courses a scene takes. */
function some(random: Random, ...courses: readonly Step[][]): Step[] {
  return random.pick(courses)
}

export const scenes: readonly Scene[] = [
  /** Records refer to each other while one of two accounts goes and comes back. */
  (random) => {
    const account = random.below(2)
    return [
      dense(random),
      { do: 'status', account, word: random.pick(['deactivated', 'takendown']) },
      dense(random, 8),
      wait(random, 3000),
      { do: 'status', account, word: 'active' },
      dense(random, 8),
      wait(random, 3000),
      { do: 'read', draw: random.below(2 ** 31) },
    ]
  },
  /** The stream is compacted, and the index builds itself again. */
  (random) => [
    dense(random),
    wait(random, 3000),
    ...some(random, [{ do: 'rebuild' }, wait(random, 100), dense(random, 12), wait(random, 500)], []),
    { do: 'compact' },
    ...some(random, [{ do: 'rebuild' }], [kill(random), { do: 'rebuild' }]),
    ...some(
      random,
      [],
      [dense(random, 10)],
      [{ do: 'condition', part: 'stream', manner: 'jumpy', forMs: 5000 }, dense(random)],
    ),
    wait(random, 5000),
    ...some(random, [], [{ do: 'compact' }], [kill(random)]),
    wait(random, 5000),
  ],
  /** A handle is given up while a new generation takes it over. */
  (random) => {
    const account = random.below(2)
    return [
      dense(random, 8),
      { do: 'identity', account, handle: 'new' },
      wait(random, 70_000),
      { do: 'rebuild' },
      wait(random, 500),
      ...some(random, [kill(random)], [{ do: 'condition', part: 'names', manner: 'late', forMs: 5000 }], []),
      { do: 'identity', account, handle: random.pick(['none', 'stolen', 'new']) },
      ...some(random, [kill(random)], [kill(random), kill(random)], []),
      wait(random, 70_000),
    ]
  },
  /** A status that nobody knows. */
  (random) => {
    const account = random.below(2)
    return [
      dense(random, 8),
      { do: random.pick(['status', 'word'] as const), account, word: random.pick(oddWords) },
      wait(random, 70_000),
      ...some(
        random,
        [],
        [{ do: 'rebuild' }],
        [dense(random, 8)],
        [{ do: 'status', account, word: 'active' }],
      ),
    ]
  },
]
