/**
 * Scenes: situations of several steps in a row, which hardly come about when every step is drawn by itself. Most have one
 * account to which all of it happens.
 */
import type { Random } from '@tributary/testkit/disk'
import { alterations } from './altered.ts'
import { subscribersMax, type Step } from './step.ts'
import type { Point } from './stream-process.ts'

export type Scene = (random: Random) => Step[]

/** An account, and steps that happen to it. */
export class Cast {
  readonly #random: Random
  readonly account: number

  constructor(random: Random, account = random.below(8)) {
    this.#random = random
    this.account = account
  }

  commit(timesMax = 3): Step {
    return this.#writing('commit', timesMax)
  }

  lose(timesMax = 3): Step {
    return this.#writing('lose', timesMax)
  }

  status(word: string): Step {
    return { do: 'status', account: this.account, word }
  }

  identity(): Step {
    return { do: 'identity', account: this.account }
  }

  wait(msMax: number): Step {
    return { do: 'wait', ms: this.#random.below(msMax) }
  }

  odd(
    part: 'directory' | 'link' | 'host' | 'disk' | 'database' | 'threads',
    manner: string,
    forMs: number,
  ): Step {
    return { do: 'condition', part, manner, forMs }
  }

  /** The process ends within some calls of the disk. */
  kill(callsMax = 12, at?: Point): Step {
    const how = this.#random.pick(['kill', 'kill', 'power'] as const)
    const afterCalls = this.#random.pick([undefined, this.#random.below(callsMax)])
    return { do: 'restart', ...(at && { at }), how, afterCalls, downMs: 0 }
  }

  stop(): Step {
    return { do: 'restart', how: 'stop', afterCalls: undefined, downMs: 0 }
  }

  #writing(name: 'commit' | 'lose', timesMax: number): Step {
    return {
      do: name,
      account: this.account,
      times: 1 + this.#random.below(timesMax),
      draw: this.#random.below(2 ** 31),
    }
  }
}

/** Draws which of several courses a scene takes. */
export function some(random: Random, ...courses: readonly Step[][]): Step[] {
  return random.pick(courses)
}

export const scene =
  (play: (cast: Cast, random: Random) => Step[]): Scene =>
  (random) =>
    play(new Cast(random), random)

/**
 * With what scripts begin at times: the first account is one of which the relay has not told, and its repository is written
 * piece by piece.
 */
export function quiet(random: Random): Step[] {
  const cast = new Cast(random, 0)
  const steps: Step[] = []
  for (let more = 1 + random.below(3); more > 0; more--)
    steps.push(
      cast.kill(10, 'refill-begins'),
      ...some(
        random,
        [],
        [cast.lose(2)],
        [cast.odd('host', 'failing', 5000), cast.wait(2000)],
        [cast.status('takendown'), cast.wait(500), cast.kill(4), cast.status('active')],
        [cast.commit(2), cast.wait(500), cast.kill()],
      ),
    )
  return [...steps, cast.wait(3000), ...some(random, [], [cast.commit(2)])]
}

/** Those that scripts have from seed 1,000,000 on. */
export const scenes: readonly Scene[] = [
  /** The process ends again before the relay has told again what the first end left unsaved. */
  scene((cast, random) => [
    cast.commit(),
    ...some(random, [], [cast.status('takendown')], [cast.identity()], [cast.lose(1), cast.commit(1)]),
    cast.wait(1500),
    cast.kill(),
    cast.odd('link', 'down', 5000),
    ...some(random, [cast.wait(3000)], [cast.wait(50)]),
    ...some(random, [cast.stop()], [cast.kill()], [cast.stop(), cast.stop()]),
    ...some(random, [], [cast.odd('link', 'down', 3000), cast.wait(2000), cast.kill()]),
    cast.wait(8000),
  ]),
  /** The relay numbers anew while events of its old numbers wait for a document. */
  scene((cast, random) => [
    cast.odd('directory', random.pick(['late', 'silent']), 4000),
    cast.identity(),
    cast.commit(),
    cast.wait(1500),
    { do: 'renumber', before: 5 + random.below(20) },
    { do: 'commit', account: random.below(8), times: 3, draw: random.below(2 ** 31) },
    cast.commit(),
    cast.wait(7000),
    cast.kill(),
  ]),
  /** The host has given what the relay has not told yet, and the process ends within the repository. */
  scene((cast, random) => [
    cast.lose(),
    cast.commit(1),
    cast.wait(300),
    cast.odd('link', 'down', 20_000),
    cast.commit(),
    cast.kill(8, 'refill-begins'),
    ...some(random, [], [cast.kill(8, 'refill-begins')], [cast.commit(1), cast.kill(8, 'refill-begins')]),
    cast.wait(3000),
  ]),
  /** An account goes away, and comes back, while its repository is half written. */
  scene((cast, random) => [
    cast.lose(),
    cast.commit(2),
    cast.kill(8, 'refill-begins'),
    ...some(random, [], [cast.lose(1), cast.commit(1)]),
    cast.status(random.pick(['takendown', 'deactivated'])),
    cast.wait(random.pick([50, 1500])),
    ...some(random, [], [cast.kill()], [cast.kill(12, 'saving')], [{ do: 'seal' }, { do: 'compact' }]),
    cast.wait(random.pick([50, 12_000])),
    ...some(random, [cast.status('active')], [cast.status('active'), cast.commit(2)]),
    ...some(random, [cast.wait(1500)], [cast.kill(8, 'refill-begins')], [cast.kill()]),
  ]),
  /** A repository stays half written until the account is taken down, and is written on when the account is back. */
  scene((cast, random) => [
    cast.commit(),
    cast.lose(),
    cast.commit(1),
    { do: 'restart', at: 'refill-begins', how: 'kill', afterCalls: random.below(5), downMs: 0 },
    cast.odd('host', 'failing', 6000),
    { do: 'wait', ms: random.pick([50, 1500, 2500]) },
    cast.status('takendown'),
    { do: 'wait', ms: random.pick([100, 300, 600]) },
    { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 },
    ...some(
      random,
      [],
      [{ do: 'seal' }, { do: 'wait', ms: 15_000 }],
      [{ do: 'seal' }, { do: 'compact' }, { do: 'wait', ms: 5000 }],
    ),
    cast.status('active'),
    cast.wait(15_000),
  ]),
  /** Rows of an account that is taken down leave the archive, and its repository comes back. */
  scene((cast, random) => [
    cast.commit(),
    ...some(random, [], [{ do: 'seal' }], [cast.wait(1500), { do: 'seal' }]),
    cast.status('takendown'),
    cast.wait(random.pick([100, 3000, 15_000])),
    ...some(random, [], [cast.kill(30, 'takedown')], [{ do: 'seal' }], [cast.kill(30, 'rows-dropped')]),
    cast.status('active'),
    cast.commit(),
    cast.wait(random.pick([100, 15_000])),
    ...some(random, [{ do: 'compact' }], [{ do: 'compact' }, cast.kill(40)], [{ do: 'seal' }, cast.kill()]),
  ]),
  /** The process ends around a save, and events come meanwhile. */
  scene((cast, random) => [
    ...some(random, [], [cast.odd('database', 'slow', 5000)], [cast.odd('disk', 'slow', 5000)]),
    cast.commit(),
    { do: 'wait', ms: 3000, until: 'saving' },
    cast.commit(),
    cast.wait(50),
    ...some(random, [cast.identity()], [cast.status('deactivated'), cast.status('active')], []),
    cast.kill(8, random.pick(['saving', 'saved', 'block-written'])),
    ...some(random, [], [cast.commit(1), cast.kill(8, 'saved')]),
  ]),
  /** A segment is sealed while rows are on their way to the disk, and the process ends while it is sealed or compacted. */
  scene((cast, random) => [
    ...some(random, [], [cast.odd('disk', 'slow', 3000)]),
    cast.commit(),
    cast.commit(),
    cast.wait(40),
    { do: 'seal' },
    ...some(
      random,
      [cast.wait(3000)],
      [cast.kill(16)],
      [cast.commit(), cast.wait(40), { do: 'seal' }, cast.kill(16)],
      [{ do: 'compact' }, cast.kill(40)],
    ),
    cast.commit(1),
    cast.wait(30),
    { do: 'seal' },
    { do: 'plan', filter: random.below(16), after: random.below(40) },
  ]),
  /** The power is lost again and again, each time within some calls of new rows. */
  scene((cast, random) => {
    const steps: Step[] = []
    for (let more = 3 + random.below(3); more > 0; more--)
      steps.push(cast.commit(random.pick([1, 6])), cast.wait(random.pick([15, 60, 1500])), {
        do: 'restart',
        how: 'power',
        afterCalls: random.below(random.pick([3, 10])),
        downMs: 0,
      })
    return steps
  }),
  /** Another relay is read. It tells all over again. */
  scene((cast, random) => [
    ...some(
      random,
      [cast.commit()],
      [cast.commit(), cast.status('takendown')],
      [cast.identity(), cast.commit()],
    ),
    cast.wait(random.pick([50, 1500])),
    {
      do: 'relay',
      before: random.below(20),
      how: random.pick(['stop', 'kill']),
      afterCalls: undefined,
      downMs: 0,
    },
    ...some(random, [], [cast.wait(1000), cast.kill()]),
    cast.commit(),
    cast.wait(3000),
  ]),
  /** The clock of the machine is set back. */
  scene((cast, random) => [
    { do: 'clock', aheadMs: random.pick([60_000, 7_200_000, 30 * 86_400_000]), forMs: random.below(10_000) },
    cast.commit(),
    ...some(
      random,
      [],
      [cast.lose(1), cast.commit(1)],
      [cast.identity(), cast.commit(1)],
      [cast.status('takendown')],
    ),
    cast.wait(random.pick([500, 5000])),
    ...some(random, [], [cast.kill()], [cast.stop()], [{ do: 'seal' }, { do: 'compact' }]),
    cast.commit(1),
    cast.wait(12_000),
    ...some(random, [], [cast.kill()], [cast.stop()], [{ do: 'seal' }, { do: 'compact' }]),
    cast.commit(1),
  ]),
  /** Commits come that are wrong, among others that are right. */
  scene((cast, random) => {
    const steps: Step[] = [cast.wait(500), cast.commit(2)]
    for (let more = 2 + random.below(4); more > 0; more--)
      steps.push({
        do: 'alter',
        account: cast.account,
        how: random.pick(alterations),
        draw: random.below(2 ** 31),
      })
    return [...steps, cast.commit(1), cast.wait(500)]
  }),
  /** A key changes while the document is being read that names the one before. */
  scene((cast, random) => [
    cast.odd('directory', random.pick(['late', 'late', 'mixed-up']), random.pick([500, 5000])),
    ...some(random, [cast.identity()], []),
    cast.commit(1),
    cast.wait(2000),
    {
      do: 'rotate',
      account: cast.account,
      gapMs: random.pick([0, 50, 1500]),
      how: random.pick(['told', 'untold', 'stolen']),
      draw: random.below(2 ** 31),
    },
    cast.commit(2),
    cast.wait(6000),
    cast.commit(1),
  ]),
  /** Nobody has the repository of an account that a backfill reads. */
  scene((cast, random) => [
    cast.status(random.pick(['takendown', 'deactivated'])),
    { do: 'watch', collection: random.below(8), isWatched: false },
    { do: 'watch', collection: random.below(8), isWatched: true },
    cast.wait(10_000),
    ...some(random, [], [cast.status('active')], [cast.status('active'), cast.commit(1)]),
  ]),
  /** Nothing is watched for a while. */
  scene((cast, random) => [
    ...[0, 1, 2, 8].map((collection): Step => ({ do: 'watch', collection, isWatched: false })),
    cast.commit(1),
    ...some(random, [cast.stop()], [cast.kill()], [cast.wait(1000), cast.stop()]),
    { do: 'watch', collection: 8, isWatched: true },
    cast.commit(1),
    { do: 'watch', collection: random.below(3), isWatched: true },
  ]),
  halfWritten,
  hiddenMeanwhile,
  watchedAnew,
  watchedAfterKill,
  watchedWhileRead,
  /** Subscribers come with all kinds of filters, and their accounts write, are hidden and come back. */
  scene((cast, random) => {
    const join = (): Extract<Step, { do: 'join' }> => ({
      do: 'join',
      subscriber: random.below(subscribersMax),
      cursor: random.pick(['none', 'start', 'back', 'own']),
      filter: random.below(16),
      pace: random.pick(['fast', 'fast', 'slow']),
    })
    return [
      join(),
      join(),
      cast.commit(2),
      ...some(random, [], [cast.status('takendown'), join(), cast.wait(300), cast.commit(1)]),
      cast.status('active'),
      cast.identity(),
      cast.commit(2),
      join(),
      cast.wait(2000),
    ]
  }),
]

export function watch(random: Random): Extract<Step, { do: 'watch' }> {
  const points = [undefined, undefined, 'refill-begins', 'refill-ends', 'takedown', 'block-written'] as const
  const at = random.pick(points)
  const isWatched = random.next() < 0.6
  return { do: 'watch', collection: random.below(8), isWatched, ...(at !== undefined && { at }) }
}

/** A collection is removed and added again, and accounts write meanwhile. */
export function watchedAnew(random: Random): Step[] {
  const collection = random.below(8)
  const steps: Step[] = [{ do: 'watch', collection, isWatched: false }]
  for (let more = random.below(4); more > 0; more--) steps.push(commits(random), shortWait(random))
  return [...steps, { do: 'watch', collection, isWatched: true }]
}

/** Collections are added or removed while repositories are on their way, and their accounts write meanwhile. */
export function watchedWhileRead(random: Random): Step[] {
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
export function watchedAfterKill(random: Random): Step[] {
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
export function killAt(random: Random, at: Point): Step {
  const how = random.pick(['kill', 'kill', 'power'] as const)
  return { do: 'restart', at, how, afterCalls: random.below(random.pick([3, 12, 30])), downMs: 0 }
}

/** An account loses events and is written again, and the process ends meanwhile, at times again and again. */
export function halfWritten(random: Random): Step[] {
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
export function hiddenMeanwhile(random: Random): Step[] {
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

export function of<N extends string>(random: Random, name: N): { do: N; account: number; draw: number } {
  return { do: name, account: random.below(8), draw: random.below(2 ** 31) }
}
