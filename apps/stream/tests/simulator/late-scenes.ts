/**
 * Scenes that the latest seeds play besides: the process ends while the state of what was just shown is not saved, and is
 * told of it again only after a while, or after something else.
 */
import type { Random } from '@tributary/testkit/disk'
import { halfWritten, scene, scenes, some, type Scene } from './scenes.ts'
import { subscribersMax, type Step } from './step.ts'

/** The relay is away from just after a start, so that nothing is told again that a kill left unsaved. */
function killedAlone(random: Random, forMs: number): Step[] {
  const how = random.pick(['kill', 'kill', 'power'] as const)
  return [
    { do: 'wait', ms: random.pick([15, 40, 100, 300]) },
    { do: 'condition', part: 'link', manner: 'down', forMs },
    { do: 'restart', how, afterCalls: undefined, downMs: 0 },
  ]
}

/** The clock is ahead when the last records come before an end, and is right when the next process starts. */
const setRightMeanwhile = scene((cast, random) => [
  { do: 'clock', aheadMs: random.pick([60_000, 7_200_000]), forMs: 2000 },
  cast.commit(2),
  { do: 'wait', ms: random.pick([50, 1900]) },
  { do: 'restart', how: random.pick(['stop', 'kill', 'power']), afterCalls: undefined, downMs: 3000 },
  cast.commit(2),
  cast.wait(2000),
])

/** A collection that was added is half written when its account writes, and the process ends just then. */
const addedAmidCommits = scene((cast, random) => {
  const collection = random.below(8)
  return [
    cast.commit(6),
    { do: 'watch', collection, isWatched: false },
    { do: 'wait', ms: 1500 },
    { do: 'watch', collection, isWatched: true },
    ...some(
      random,
      [],
      [{ do: 'restart', at: 'refill-begins', how: 'kill', afterCalls: random.below(5), downMs: 0 }],
    ),
    ...some(random, [], [cast.odd('host', 'late', 6000)]),
    cast.commit(4),
    ...killedAlone(random, 9000),
    ...some(
      random,
      [{ do: 'wait', ms: 8000 }],
      [{ do: 'wait', ms: 400 }, cast.stop(), { do: 'wait', ms: 8000 }],
    ),
    cast.commit(1),
    cast.wait(2000),
  ]
})

/** A repository is half written and saved so, its account is taken down, and the process ends before it has saved that. */
const takenDownAmidRepository = scene((cast, random) => [
  ...some(random, [], [cast.commit(), { do: 'wait', ms: 1500 }]),
  cast.lose(5),
  cast.commit(1),
  { do: 'restart', at: 'refill-begins', how: 'kill', afterCalls: 1 + random.below(6), downMs: 0 },
  cast.odd('host', 'failing', 5000),
  { do: 'wait', ms: random.pick([1200, 1700, 2300]) },
  cast.status('takendown'),
  ...killedAlone(random, random.pick([200, 3000])),
  ...some(random, [], [cast.stop()], [{ do: 'seal' }, { do: 'compact' }]),
  { do: 'wait', ms: random.pick([500, 4000]) },
  { do: 'seal' },
  { do: 'compact' },
  { do: 'wait', ms: random.pick([100, 6000]) },
  cast.status('active'),
  ...some(random, [], [cast.commit(1)]),
  { do: 'wait', ms: 12_000 },
])

/** An account goes away and comes back within moments, and the process ends before it has saved either. */
const backUnsaved = scene((cast, random) => [
  ...some(random, [cast.commit(2), cast.wait(1500)], [cast.lose(2)], []),
  cast.status(random.pick(['takendown', 'deactivated'])),
  ...some(random, [], [cast.lose(2)], [cast.commit(1)]),
  cast.status('active'),
  ...some(random, [], [cast.commit(1)], [cast.status('deactivated'), cast.status('active')]),
  ...killedAlone(random, random.pick([100, 4000])),
  ...some(random, [], [cast.stop()], [cast.wait(500), cast.kill()]),
  { do: 'wait', ms: 6000 },
])

/** An account goes away while its events wait for a document, and the relay begins to number anew. */
const awayWhileNumbered = scene((cast, random) => [
  cast.commit(),
  { do: 'wait', ms: 1500 },
  cast.odd('directory', random.pick(['late', 'silent']), 4000),
  ...some(random, [cast.identity()], []),
  cast.status(random.pick(['takendown', 'deactivated'])),
  ...some(random, [], [cast.status('active')]),
  cast.wait(1500),
  { do: 'renumber', before: 5 + random.below(20) },
  ...some(random, [], [cast.kill()], [cast.wait(5000), cast.kill()]),
  { do: 'wait', ms: 5000 },
  cast.status('active'),
  cast.commit(1),
])

/** Many subscribers take little or nothing while much is written, and some are behind. */
const heldUp = scene((cast, random) => [
  ...Array.from({ length: subscribersMax }, (_, subscriber): Step => ({
    do: 'join',
    subscriber,
    cursor: random.pick(['start', 'start', 'none']),
    filter: random.below(2),
    pace: random.pick(['stuck', 'stuck', 'crawling', 'slow', 'fast']),
  })),
  cast.commit(8),
  cast.wait(3000),
  cast.commit(8),
  { do: 'wait', ms: random.pick([2000, 20_000]) },
  ...some(random, [], [{ do: 'leave', subscriber: random.below(subscribersMax) }]),
  cast.commit(4),
  { do: 'wait', ms: 3000 },
])

/** What scripts are drawn from. What came before is there, too. */
const own: readonly Scene[] = [
  setRightMeanwhile,
  addedAmidCommits,
  takenDownAmidRepository,
  takenDownAmidRepository,
  backUnsaved,
  awayWhileNumbered,
  heldUp,
  halfWritten,
]

export function lateScene(random: Random): Step[] {
  return random.pick(random.next() < 0.5 ? own : scenes)(random)
}
