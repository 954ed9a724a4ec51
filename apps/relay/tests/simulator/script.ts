/**
 * Scripts: what happens in a run, as a list of plain steps drawn from a seed. Every step can be left out: one that makes
 * no sense without another does nothing.
 */
import { randomFrom, type Random } from '@tributary/testkit/disk'
import { manners, type Part } from './conditions.ts'
import type { Pace } from '@tributary/testkit/simulation'
import { forgeries, lies } from './frames.ts'
import type { Retention } from './relay-process.ts'
import { withScenes } from './scenes.ts'
import { withSourceScenes, type positions } from './source-scenes.ts'

/** Numbers of accounts and hosts are taken modulo how many there are. `draw` seeds what else a step needs. */
export type Step =
  | { do: 'wait'; ms: number }
  | { do: 'commit'; account: number; times: number; draw: number }
  | { do: 'sync'; account: number }
  | { do: 'identity'; account: number }
  | { do: 'status'; account: number; word: string }
  | { do: 'rotate'; account: number; gapMs: number }
  | { do: 'move'; account: number; to: number; order: number; gapMs: number; draw: number }
  | { do: 'straggle'; account: number; kind: string; draw: number }
  | { do: 'forge'; account: number; victim: number; name: (typeof forgeries)[number]; draw: number }
  | { do: 'lie'; account: number; victim: number; name: (typeof lies)[number]; draw: number }
  | { do: 'spoil'; account: number; how: 'signature' | 'tree' | 'flag'; draw: number }
  | { do: 'flood'; host: number; how: 'documents' | 'answers'; count: number; forMs: number; draw: number }
  | { do: 'condition'; part: Part; of: number | undefined; manner: string; forMs: number }
  | { do: 'restart'; how: 'stop' | 'kill' | 'power'; afterCalls: number | undefined; downMs: number }
  /** A write of the log fails after so many syncs. Later syncs do not bring to the disk what it was to. */
  | { do: 'fail-write'; syncs: number }
  | { do: 'exclude'; account: number; status: 'takendown' | 'suspended' | undefined }
  | { do: 'recheck'; account: number }
  | { do: 'retention' }
  /** Each source may bring in so many accounts more. */
  | { do: 'quota'; more: number }
  /** An operator pauses a source. */
  | { do: 'pause'; source: number; forMs: number }
  | { do: 'ban'; source: number; forMs: number }
  /** An account is made, and writes. */
  | { do: 'newcomer' }
  /** An operator has a source read from another position. */
  | { do: 'again'; source: number; from: (typeof positions)[number]; draw: number }
  /** A source keeps only so many of its newest messages. */
  | { do: 'forget'; source: number; kept: number }
  /** The clock of the machine is ahead for a while, also when the relay is started again. */
  | { do: 'clock'; aheadMs: number; forMs: number }
  /** A host sends a commit that it takes back, and one that names the revision of that, and the tree from before. */
  | { do: 'fork'; account: number; draw: number }
  /** A host sends what is wrong in one way. */
  | { do: 'wrong'; account: number; name: string; draw: number }
  | { do: 'join'; consumer: number; cursor: CursorWish; framing: 'v0' | 'json'; pace: Pace }
  | { do: 'leave'; consumer: number }
  | { do: 'pace'; consumer: number; pace: Pace }
  | { do: 'chat'; consumer: number; how: 'little' | 'much' | 'wrong' }
  /** So many consumers are there that messages are gathered before they are sent. */
  | { do: 'crowd'; count: number; draw: number }

export const cursors = ['own', 'own', 'own', 'none', 'start', 'start', 'back', 'back', 'future'] as const
/** `edge`: around the newest record. `oldest`: around the newest that was deleted. */
export type CursorWish = (typeof cursors)[number] | 'edge' | 'oldest'
/** Consumers with numbers, and those that come and go together. */
export const consumersMax = { known: 4, crowd: 24 }

export interface Script {
  seed: number
  hosts: number
  /** So many of the hosts come by another relay, which forwards what the others send, too. Default: there is no relay. */
  relayed?: number
  accounts: number
  /** How many accounts of a source may be active at a time. Default: as many as there are. */
  quota?: number
  /** How long events wait for the identity of their account. */
  identityWaitMs: number
  /** Default: all is kept. */
  retention?: Retention
  /** Documents name more than what counts, and the end is looked at more closely. Default: false. */
  isLate?: boolean
  steps: Step[]
}

/** Steps of a kind, and scenes of several, by how often they come. */
const weights: readonly [weight: number, make: (random: Random) => Step | Step[]][] = [
  [30, (random) => ({ do: 'wait', ms: waitMs(random) })],
  [28, (random) => ({ ...of(random, 'commit'), times: 1 + random.below(random.pick([1, 3, 8])) })],
  [3, (random) => of(random, 'sync')],
  [3, (random) => of(random, 'identity')],
  [6, (random) => ({ ...of(random, 'status'), word: random.pick(words) })],
  [4, (random) => ({ ...of(random, 'rotate'), gapMs: random.pick([0, 0, 50, 1500]) })],
  [
    5,
    (random) => ({
      ...of(random, 'move'),
      to: random.below(4),
      order: random.below(6),
      gapMs: random.pick([0, 5, 200, 3000]),
    }),
  ],
  [
    4,
    (random) => ({ ...of(random, 'straggle'), kind: random.pick(['commit', 'sync', 'account', 'identity']) }),
  ],
  [6, (random) => ({ ...of(random, 'forge'), victim: random.below(8), name: random.pick(forgeries) })],
  [3, (random) => ({ ...of(random, 'spoil'), how: random.pick(['signature', 'tree', 'flag']) })],
  [
    2,
    (random) => ({
      do: 'flood',
      host: random.below(4),
      how: random.pick(['documents', 'answers']),
      count: random.pick([3, 20, 40]),
      forMs: random.pick([5000, 40_000, 150_000]),
      draw: random.below(2 ** 31),
    }),
  ],
  [14, condition],
  [
    7,
    (random) => ({
      do: 'restart',
      how: random.pick(['stop', 'kill', 'kill', 'power', 'power']),
      afterCalls: random.pick([undefined, 0, 1, 2, 3, random.below(12)]),
      downMs: random.pick([0, 100, 3000, 90_000]),
    }),
  ],
  [
    5,
    (random) => ({
      ...of(random, 'exclude'),
      status: random.pick(['takendown', 'suspended', undefined, undefined]),
    }),
  ],
  [1, (random) => of(random, 'recheck')],
  [1, () => ({ do: 'retention' })],
  [1, starving],
  [2, restored],
]

/** Accounts of a silent host wait to be made whole, and one of another host, too. */
function starving(random: Random): Step[] {
  const flood: Step = {
    do: 'flood',
    host: random.below(4),
    how: 'answers',
    count: 20,
    forMs: 150_000,
    draw: random.below(2 ** 31),
  }
  const spoil = (): Step => ({ ...of(random, 'spoil'), how: 'flag' })
  return [flood, { do: 'wait', ms: 3000 }, spoil(), spoil(), { do: 'wait', ms: 60_000 }]
}

/** An account is left out while it writes, and the relay ends just after it is let in again. */
function restored(random: Random): Step[] {
  const { account } = of(random, 'sync')
  const exclude = (status: 'takendown' | undefined): Step => ({ do: 'exclude', account, status })
  const commit: Step = { do: 'commit', account, times: 2, draw: random.below(2 ** 31) }
  const kill: Step = { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 }
  const waits = [2000, 2000, random.below(40)].map((ms): Step => ({ do: 'wait', ms }))
  return [
    exclude('takendown'),
    ...waits.slice(0, 1),
    commit,
    ...waits.slice(1, 2),
    exclude(undefined),
    ...waits.slice(2),
    kill,
  ]
}

const words = [
  'deactivated',
  'deactivated',
  'suspended',
  'takendown',
  'deleted',
  'active',
  'active',
  'active',
]
const total = weights.reduce((sum, [weight]) => sum + weight, 0)

export function scriptOf(seed: number): Script {
  const random = randomFrom(seed)
  const steps = Array.from({ length: 15 + random.below(50) }, () => stepOf(random)).flat()
  const script = {
    seed,
    hosts: 2 + random.below(3),
    accounts: 3 + random.below(6),
    identityWaitMs: random.pick([15_000, 60_000, 600_000]),
    ...withConsumers(steps, randomFrom(seed ^ 0xfa0)),
  }
  const whole = withQuota(withRelay(script, randomFrom(seed ^ 0x4e1a)), randomFrom(seed ^ 0x9a07))
  if (seed < firstWith.pauses) return whole
  const paused = withPauses(whole, randomFrom(seed ^ 0xa05e))
  if (seed < firstWith.scenes) return paused
  const scenes = withScenes(paused, randomFrom(seed ^ 0x5ce0e))
  if (seed < firstWith.sourceScenes) return scenes
  const ofSources = withSourceScenes(scenes, randomFrom(seed ^ 0x105e))
  return seed < firstWith.failedWrites ? ofSources : withFailedWrites(ofSources, randomFrom(seed ^ 0xfa11))
}

/** Seeds below play what they played before there were pauses, scenes, scenes of sources, and writes that fail. */
const firstWith = { pauses: 1_000_000, scenes: 2_000_000, sourceScenes: 3_000_000, failedWrites: 4_000_000 }

/** In half of the runs writes fail now and then. */
function withFailedWrites(script: Script, random: Random): Script {
  if (random.next() < 0.5) return script
  const fail = (): Step => ({ do: 'fail-write', syncs: random.below(random.pick([1, 3, 10])) })
  const steps = script.steps.flatMap((step) => (random.next() < 0.08 ? [fail(), step] : [step]))
  return { ...script, steps }
}

/** In some runs sources are paused for a while. A relay would speak for the accounts of a paused PDS from then on. */
function withPauses(script: Script, random: Random): Script {
  if (script.relayed !== undefined || random.next() < 0.5) return script
  const steps = [...script.steps]
  for (let count = 1 + random.below(3); count > 0; count--) {
    const pause: Step = {
      do: 'pause',
      source: random.below(4),
      forMs: random.pick([100, 2000, 8000, 20_000]),
    }
    steps.splice(random.below(steps.length + 1), 0, pause)
  }
  return { ...script, steps }
}

/** In some runs sources have more accounts than slots, and get more of these. */
function withQuota(script: Script, random: Random): Script {
  if (random.next() >= 0.15) return script
  const steps = [...script.steps]
  for (let count = random.below(4); count > 0; count--)
    steps.splice(random.below(steps.length + 1), 0, { do: 'quota', more: 1 + random.below(2) })
  return { ...script, quota: 1 + random.below(3), steps }
}

/** In some runs hosts come by another relay, which also says what nobody has sent. */
function withRelay(script: Script, random: Random): Script {
  if (random.next() >= 0.25) return script
  const steps = [...script.steps]
  for (let count = random.below(8); count > 0; count--) {
    const lie: Step = { ...of(random, 'lie'), victim: random.below(8), name: random.pick(lies) }
    steps.splice(random.below(steps.length + 1), 0, lie)
  }
  return { ...script, relayed: 1 + random.below(script.hosts), steps }
}

/** Consumers that come and go at any moment, and how long they find what they missed. */
function withConsumers(steps: readonly Step[], random: Random): Pick<Script, 'steps' | 'retention'> {
  const paces: Pace[] = ['fast', 'fast', 'fast', 'slow', 'slow', 'crawling', 'stuck', 'mute']
  const isShort = random.next() < 0.5
  const retention = isShort ? { keepMs: random.pick([31_000, 60_000]), fileBytes: 8000 } : undefined
  const all = [...steps]
  for (let count = 2 + random.below(12); count > 0; count--) {
    const consumer = random.below(consumersMax.known)
    const pace = random.pick(paces)
    const framing = random.next() < 0.25 ? 'json' : 'v0'
    const step = random.pick<Step>([
      { do: 'join', consumer, cursor: random.pick(cursors), framing, pace },
      { do: 'join', consumer, cursor: random.pick(cursors), framing, pace },
      { do: 'pace', consumer, pace },
      isShort ? { do: 'retention' } : { do: 'leave', consumer },
      { do: 'chat', consumer, how: random.pick(['little', 'little', 'much', 'wrong']) },
    ])
    all.splice(random.below(all.length + 1), 0, step)
  }
  for (let count = random.below(3); count > 0; count--) {
    const step: Step = {
      do: 'crowd',
      count: random.pick([0, 10, consumersMax.crowd]),
      draw: random.below(2 ** 31),
    }
    all.splice(random.below(all.length + 1), 0, step)
  }
  return { steps: all, ...(retention && { retention }) }
}

function stepOf(random: Random): Step | Step[] {
  let at = random.below(total)
  for (const [weight, make] of weights) {
    if (at < weight) return make(random)
    at -= weight
  }
  throw new Error('a number below the sum of the weights is below one of them')
}

function of<N extends string>(random: Random, name: N): { do: N; account: number; draw: number } {
  return { do: name, account: random.below(8), draw: random.below(2 ** 31) }
}

function waitMs(random: Random): number {
  return random.below(random.pick([5, 50, 50, 500, 500, 5000, 5000, 70_000]))
}

function condition(random: Random): Step {
  const part = random.pick([
    'directory',
    'directory',
    'answers',
    'link',
    'threads',
    'disk',
    'database',
  ] as const)
  const isNarrow = part === 'directory' || part === 'answers' || part === 'link'
  return {
    do: 'condition',
    part,
    of: isNarrow && random.next() < 0.7 ? random.below(8) : undefined,
    manner: random.pick<string>(manners[part]),
    forMs: random.pick([200, 2000, 10_000, 40_000, 100_000]),
  }
}

/** In which order an old host, a new one and the directory tell of a move. */
export const moveOrders: readonly (readonly ('old' | 'new' | 'directory')[])[] = [
  ['directory', 'new', 'old'],
  ['directory', 'old', 'new'],
  ['new', 'directory', 'old'],
  ['new', 'old', 'directory'],
  ['old', 'directory', 'new'],
  ['old', 'new', 'directory'],
]
