/**
 * Scenes that later seeds play besides: much that happens to one account within moments, hosts that are banned, messages
 * that are wrong in one way each, consumers at the edges of the log. Races are found where draws fall together.
 */
import type { Random } from '@tributary/testkit/disk'
import type { Script, Step } from './script.ts'
import { wrongs } from './wrong-messages.ts'

/** What consumers do, and operators. */
const alwaysKept = new Set<Step['do']>([
  'join',
  'leave',
  'pace',
  'chat',
  'crowd',
  'retention',
  'quota',
  'pause',
])

function isKept(step: Step): boolean {
  return alwaysKept.has(step.do)
}

/** What of the other steps of other seeds is played. The scenes take about the time of the rest. */
const keptMax = { least: 6, more: 22 }

export function withScenes(script: Script, random: Random): Script {
  const kept = keptMax.least + random.below(keptMax.more)
  const steps = script.steps.filter((step, at) => at < kept || isKept(step))
  const put = (scene: readonly Step[]): void => void steps.splice(random.below(steps.length + 1), 0, ...scene)
  for (let count = 2 + random.below(2); count > 0; count--) put(burst(random))
  if (random.next() < 0.4) put(ban(random, script))
  if (random.next() < 0.5) put(marked(random, script))
  if (random.next() < 0.2) put(lateWord(random, script))
  if (random.next() < 0.2) put(markedAmidWrite(random, script))
  const isWrong = random.next() < 0.6
  for (let count = isWrong ? 4 + random.below(10) : 0; count > 0; count--)
    put([{ do: 'wrong', account: random.below(8), name: random.pick(wrongs), draw: draw(random) }])
  for (let count = 1 + random.below(3); count > 0; count--) {
    const cursor = random.pick(['edge', 'edge', 'oldest'] as const)
    put([{ do: 'join', consumer: random.below(4), cursor, framing: 'v0', pace: 'fast' }])
  }
  for (let count = random.below(3); count > 0; count--) put([oddAnswers(random)])
  return { ...script, ...quota(random, script, put), steps, isLate: true }
}

/** More runs than before have sources with more accounts than slots. */
function quota(random: Random, script: Script, put: (scene: readonly Step[]) => void): Pick<Script, 'quota'> {
  if (script.quota !== undefined || random.next() >= 0.2) return {}
  for (let count = random.below(4); count > 0; count--)
    put([{ do: 'quota', more: 1 }, wait(random), ...(random.next() < 0.5 ? [end(random)] : [])])
  return { quota: 1 + random.below(3) }
}

/** The relay ends, some moments before or after its disk has something. */
export function end(random: Random): Step {
  return {
    do: 'restart',
    how: random.pick(['stop', 'kill', 'kill', 'kill', 'power']),
    afterCalls: random.pick([undefined, undefined, 0, 1, 2, random.below(6)]),
    downMs: random.pick([0, 0, 100]),
  }
}

function draw(random: Random): number {
  return random.below(2 ** 31)
}

/** Short waits are near to what is under way, long ones near to what is due. */
export function wait(random: Random): Step {
  return { do: 'wait', ms: random.below(random.pick([2, 20, 20, 80, 80, 400, 1500, 4000])) }
}

/** Hosts and the directory answer in ways that others do not. */
function oddAnswers(random: Random): Step {
  const forMs = random.pick([5000, 20_000, 60_000])
  const of = random.next() < 0.5 ? undefined : random.below(8)
  if (random.next() < 0.3) return { do: 'condition', part: 'directory', of, manner: 'of another', forMs }
  return { do: 'condition', part: 'answers', of, manner: random.pick(['forged', 'forged', 'pieces']), forMs }
}

/** Much happens to one account, and something to another one, while something is slow; and then the relay ends. */
function burst(random: Random): Step[] {
  const [first, second] = [random.below(8), random.below(8)]
  const steps: Step[] = random.next() < 0.6 ? [delay(random, first)] : []
  for (let count = 4 + random.below(6); count > 0; count--)
    steps.push(...blow(random, random.next() < 0.8 ? first : second), wait(random))
  if (random.next() < 0.6) steps.push(end(random))
  return steps
}

function delay(random: Random, account: number): Step {
  const forMs = random.pick([2000, 5000, 12_000])
  const [part, manner] = random.pick([
    ['answers', 'late'],
    ['answers', 'late'],
    ['directory', 'late'],
    ['directory', 'late'],
    ['directory', 'silent'],
    ['threads', 'slow'],
    ['threads', 'slow'],
    ['disk', 'slow'],
    ['disk', 'stuck'],
    ['database', 'slow'],
  ] as const)
  const of = part === 'directory' ? account : undefined
  return { do: 'condition', part, of, manner, forMs }
}

/** Something that happens to an account. */
export function blow(random: Random, account: number): Step[] {
  const draws = { account, draw: draw(random) }
  const exclude = (status: 'takendown' | 'suspended' | undefined): Step => ({
    do: 'exclude',
    account,
    status,
  })
  const status = (word: string): Step => ({ do: 'status', account, word })
  return random.pick<() => Step[]>([
    () => [{ do: 'commit', ...draws, times: 1 + random.below(3) }],
    () => [{ do: 'commit', ...draws, times: 1 }],
    () => [{ do: 'spoil', ...draws, how: 'flag' }],
    () => [{ do: 'fork', ...draws }],
    () => [{ do: 'spoil', ...draws, how: random.pick(['flag', 'tree', 'signature']) }],
    () => [exclude(random.pick(['takendown', 'suspended']))],
    () => [exclude(undefined)],
    () => [exclude('takendown'), wait(random), exclude(undefined)],
    () => [status('active')],
    () => [
      status(random.pick(['deactivated', 'deactivated', 'suspended', 'takendown', 'deleted'])),
      wait(random),
      status('active'),
    ],
    () => [status(random.pick(['deactivated', 'suspended'])), wait(random)],
    () => [{ do: 'recheck', account }],
    () => [{ do: 'sync', account }],
    () => [{ do: 'identity', account }],
    () => [{ do: 'rotate', account, gapMs: random.pick([0, 0, 50]) }],
    () => [
      { do: 'move', ...draws, to: random.below(4), order: random.below(6), gapMs: random.pick([0, 5, 200]) },
    ],
    () => [{ do: 'straggle', ...draws, kind: random.pick(['commit', 'sync', 'account', 'identity']) }],
  ])()
}

/**
 * An operator bans a source while something of it is under way: an event, or the answer about an account of which its events
 * tell later.
 */
function ban(random: Random, { hosts }: Script): Step[] {
  const account = random.below(3)
  const source = account % hosts
  const steps: Step[] = [delay(random, account)]
  if (random.next() < 0.5) {
    const word = random.pick(['deactivated', 'suspended', 'takendown'])
    steps.push(
      { do: 'condition', part: 'answers', of: source, manner: 'late', forMs: 8000 },
      { do: 'condition', part: 'link', of: source, manner: 'down', forMs: 8000 },
      { do: 'wait', ms: 1200 },
      { do: 'status', account, word },
      { do: 'recheck', account },
      { do: 'wait', ms: random.below(2000) },
    )
  } else
    for (let count = 1 + random.below(4); count > 0; count--)
      steps.push(...blow(random, account), wait(random))
  steps.push({ do: 'ban', source, forMs: random.pick([500, 4000, 20_000]) })
  for (let count = 1 + random.below(3); count > 0; count--) steps.push(...blow(random, account), wait(random))
  return steps
}

/** Two accounts of one host, or of two when no host has two. Accounts are handed out to the hosts in turn. */
function neighbours(random: Random, { hosts, accounts }: Script): [first: number, second: number] {
  const first = random.below(Math.max(1, accounts - hosts))
  return random.next() < 0.5 ? [first, (first + hosts) % accounts] : [(first + hosts) % accounts, first]
}

/**
 * An account misses something, and is not made whole before the relay ends, while an event of another account of its host
 * may keep the cursor where it is.
 */
function marked(random: Random, script: Script): Step[] {
  const [open, missing] = neighbours(random, script)
  const forMs = 20_000
  const steps: Step[] = []
  if (random.next() < 0.6)
    steps.push(
      {
        do: 'condition',
        part: 'directory',
        of: open,
        manner: random.pick(['silent', 'late', 'failing']),
        forMs,
      },
      { do: 'status', account: open, word: 'deactivated' },
      wait(random),
    )
  if (random.next() < 0.5)
    steps.push({
      do: 'condition',
      part: random.pick(['disk', 'database']),
      of: undefined,
      manner: 'slow',
      forMs,
    })
  steps.push({
    do: 'condition',
    part: 'answers',
    of: undefined,
    manner: random.pick(['silent', 'failing', 'late']),
    forMs,
  })
  for (let count = 1 + random.below(4); count > 0; count--) {
    const account = random.next() < 0.7 ? missing : random.below(8)
    const how = random.pick(['flag', 'flag', 'tree'] as const)
    const isSpoilt = random.next() < 0.6
    steps.push(
      isSpoilt
        ? { do: 'spoil', account: missing, draw: draw(random), how }
        : { do: 'commit', account, draw: draw(random), times: 1 + random.below(2) },
      wait(random),
    )
  }
  if (random.next() < 0.25) return steps
  const how = random.pick(['kill', 'kill', 'power', 'stop'] as const)
  steps.push({ do: 'restart', how, afterCalls: random.pick([undefined, undefined, 0, 1, 2]), downMs: 0 })
  return steps
}

/**
 * The state is cut while the disk is stuck, and an account is marked before the cut can be written. The relay ends before the
 * next one.
 */
function markedAmidWrite(random: Random, script: Script): Step[] {
  const [open, missing] = neighbours(random, script)
  const pass = (ms: number): Step => ({ do: 'wait', ms })
  const isHeld = random.next() < 0.5
  return [
    pass(5000),
    ...(isHeld
      ? ([
          { do: 'condition', part: 'directory', of: open, manner: 'silent', forMs: 30_000 },
          { do: 'status', account: open, word: 'deactivated' },
          pass(300),
        ] satisfies Step[])
      : []),
    { do: 'condition', part: 'answers', of: undefined, manner: 'silent', forMs: 30_000 },
    { do: 'condition', part: 'disk', of: undefined, manner: 'stuck', forMs: 1000 },
    { do: 'commit', account: missing, draw: draw(random), times: 1 },
    pass(300 + random.below(500)),
    { do: 'spoil', account: missing, draw: draw(random), how: 'flag' },
    pass(1500 + random.below(7000)),
    { do: 'restart', how: random.pick(['kill', 'kill', 'power']), afterCalls: undefined, downMs: 0 },
  ]
}

/**
 * The host of an account says that it is back, twice within a minute, before the event that says so comes; and when it is
 * asked for the second time, the account goes away again.
 */
function lateWord(random: Random, { hosts }: Script): Step[] {
  const account = random.below(3)
  const status = (word: string): Step => ({ do: 'status', account, word })
  const pass = (ms: number): Step => ({ do: 'wait', ms })
  return [
    { do: 'condition', part: 'answers', of: account % hosts, manner: 'late', forMs: 75_000 },
    status('deactivated'),
    pass(20 + random.below(60)),
    {
      do: 'condition',
      part: 'link',
      of: account % hosts,
      manner: 'down',
      forMs: 60_000 + random.below(8000),
    },
    pass(random.below(200)),
    status('active'),
    pass(59_000 + random.below(7000)),
    status('suspended'),
    pass(5000),
  ]
}
