/**
 * Scenes around the end of a process, which scripts have from seed 3,000,000 on: what the disk has is one step ahead of the
 * saved states, and a repository is half written or its rows have left the archive. All of it happens to one account.
 */
import type { Random } from '@tributary/testkit/disk'
import { type Cast, scene, some } from './scenes.ts'
import type { Step } from './step.ts'
import type { Point } from './stream-process.ts'

type Course = (cast: Cast, random: Random) => Step[]

/** States are saved each second. What came within this is not saved as a rule. */
const unsavedMs = [15, 40, 100, 300] as const
/** What came before this is saved. */
const savedMs = [1100, 1600, 2500] as const

const wait = (ms: number, until?: Point): Step => ({ do: 'wait', ms, ...(until && { until }) })
const killed: Step = { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 }
/** The process ends while a repository is written. */
const killedWithin = (random: Random): Step => ({
  do: 'restart',
  at: 'refill-begins',
  how: 'kill',
  afterCalls: random.below(6),
  downMs: 0,
})

/** An event is missing, so the repository is read, and the process ends while it is written. */
function halfWritten(cast: Cast, random: Random): Step[] {
  return [cast.commit(), cast.lose(), cast.commit(1), killedWithin(random)]
}

/** What was taken down leaves the files, and the account is back without anything new. */
function leavesAndReturns(cast: Cast, random: Random): Step[] {
  return [
    { do: 'seal' },
    ...some(random, [], [{ do: 'compact' }]),
    wait(random.pick([500, 5000])),
    cast.status('active'),
    ...some(random, [wait(6000)], [wait(random.pick(unsavedMs)), killed, wait(6000)]),
  ]
}

const courses: readonly Course[] = [
  /** A takedown comes to a half written repository, and is not saved. */
  (cast, random) => [
    ...halfWritten(cast, random),
    cast.odd('host', 'failing', 4000),
    wait(random.pick(savedMs)),
    cast.status('takendown'),
    wait(random.pick(unsavedMs)),
    ...some(random, [], [killed], [killed]),
    ...leavesAndReturns(cast, random),
  ],
  /** Neither what was written of a repository nor the takedown after it is saved. */
  (cast, random) => [
    cast.commit(),
    cast.lose(),
    cast.commit(1),
    wait(5000, random.pick(['refill-begins', 'refill-ends'])),
    cast.status('takendown'),
    wait(random.pick(unsavedMs)),
    killed,
    ...leavesAndReturns(cast, random),
  ],
  /** After a kill, a host gives a repository that is older than what was written. */
  (cast, random) => [
    cast.commit(),
    cast.lose(),
    ...halfWritten(cast, random),
    cast.odd('host', 'older', 6000),
    ...some(random, [wait(4000)], [killedWithin(random), wait(4000)]),
    wait(4000),
  ],
  /** Before a kill there are rows of live events that are not saved, and a repository is read meanwhile. */
  (cast, random) => [
    ...some(random, [cast.lose(1)], [{ do: 'watch', collection: random.below(8), isWatched: true }], []),
    cast.odd('host', random.pick(['late', 'older']), 5000),
    wait(random.pick([50, 500])),
    cast.commit(),
    ...some(random, [], [cast.commit(1)]),
    wait(random.pick(unsavedMs)),
    killed,
    cast.odd('link', 'down', random.pick([3000, 12_000])),
    wait(random.pick([3000, 14_000])),
    ...some(random, [], [killed], [cast.stop()]),
  ],
  /** An account goes and comes back, and the process ends before one of it is saved. */
  (cast, random) => [
    ...some(random, [], [cast.commit(), wait(random.pick(savedMs))]),
    cast.status(random.pick(['takendown', 'takendown', 'deactivated'])),
    wait(random.pick([...unsavedMs, ...savedMs])),
    ...some(random, [], [{ do: 'seal' }, { do: 'compact' }, wait(600)]),
    ...some(random, [], [cast.commit(1)]),
    cast.status('active'),
    ...some(random, [], [cast.commit(1)]),
    wait(random.pick(unsavedMs)),
    killed,
    ...some(random, [], [{ do: 'seal' }, { do: 'compact' }]),
    ...some(random, [], [cast.odd('link', 'down', 4000), wait(2000), cast.stop()]),
    wait(3000),
  ],
  /** Events of an account wait for its document while the relay begins to number anew, and it goes or comes back then. */
  (cast, random) => [
    cast.odd('directory', 'late', 4000),
    cast.identity(),
    cast.commit(1),
    cast.status(random.pick(['deactivated', 'active'])),
    wait(random.pick([50, 1000])),
    { do: 'renumber', before: random.below(3) },
    wait(random.pick([500, 6000])),
    cast.status(random.pick(['takendown', 'active'])),
    cast.commit(1),
    wait(6000),
    ...some(random, [], [killed]),
  ],
  /** A write fails while the newest file of the archive is sealed, on which more rows wait. */
  (cast, random) => [
    cast.commit(),
    ...some(random, [], [wait(random.pick(unsavedMs))]),
    { do: 'fail-write', syncs: random.below(4) },
    { do: 'seal' },
    ...some(random, [], [cast.commit(1)]),
    wait(12_000),
  ],
]

/** The first account is one of which the relay has not told. After a kill, its host gives an older repository. */
export function olderAnswer(random: Random): Step[] {
  return [
    killedWithin(random),
    { do: 'condition', part: 'host', manner: 'older', forMs: 6000 },
    ...some(random, [wait(5000)], [wait(2000), killed, wait(5000)]),
  ]
}

export function killScene(random: Random): Step[] {
  return scene(random.pick(courses))(random)
}
