/**
 * Scenes that the latest seeds play besides: sources that lose messages or are read from another position, and a clock that is
 * ahead and is set right.
 */
import type { Random } from '@tributary/testkit/disk'
import { blow, end, wait } from './scenes.ts'
import type { Script, Step } from './script.ts'

/** Where a source is read from: its oldest message, what comes from now on, or after any message. */
export const positions = ['oldest', 'live', 'after'] as const

export function withSourceScenes(script: Script, random: Random): Script {
  const steps = [...script.steps]
  const put = (scene: readonly Step[]): void => void steps.splice(random.below(steps.length + 1), 0, ...scene)
  if (random.next() < 0.4) put(lost(random))
  if (random.next() < 0.4) put(readAgain(random))
  if (random.next() < 0.3) put(clockAhead(random))
  if (random.next() < 0.1) put(chatter(random))
  if (random.next() < 0.5) put(newcomer(random, script))
  const { quota = random.next() < 0.3 ? 1 + random.below(3) : undefined } = script
  if (quota === undefined) return { ...script, steps }
  put(slots(random, script))
  return { ...script, quota, steps }
}

/** Accounts of one host, which has few slots, come and go, move and are left out, and the relay ends. */
function slots(random: Random, { hosts, accounts }: Script): Step[] {
  const host = random.below(hosts)
  const steps: Step[] = []
  for (let count = 5 + random.below(8); count > 0; count--) {
    // Accounts are handed out to the hosts in turn.
    const account = host + hosts * random.below(Math.ceil(accounts / hosts))
    const status = (word: string): Step => ({ do: 'status', account, word })
    const move = {
      account,
      to: random.below(4),
      order: random.below(6),
      gapMs: 0,
      draw: random.below(2 ** 31),
    }
    const step = random.pick<Step>([
      status('active'),
      status('active'),
      status('deactivated'),
      status('deleted'),
      { do: 'exclude', account, status: 'takendown' },
      { do: 'exclude', account, status: undefined },
      { do: 'move', ...move },
      { do: 'recheck', account },
      { do: 'commit', account, times: 1, draw: random.below(2 ** 31) },
      { do: 'quota', more: 1 },
    ])
    steps.push(step, wait(random))
  }
  return [...steps, end(random)]
}

/** An account is made while its document cannot be read, or its host gives nothing, and its source is not read any more. */
function newcomer(random: Random, { identityWaitMs, relayed }: Script): Step[] {
  const source = random.below(4)
  const forMs = random.pick([2000, 10_000, identityWaitMs + 5000])
  const [part, manner] = random.pick([
    ['directory', 'silent'],
    ['directory', 'failing'],
    ['directory', 'missing'],
    ['answers', 'silent'],
    ['answers', 'failing'],
    ['threads', 'slow'],
  ] as const)
  const steps: Step[] = [
    { do: 'condition', part, of: undefined, manner, forMs },
    { do: 'newcomer' },
    wait(random),
  ]
  if (random.next() < 0.5) steps.push({ do: 'wait', ms: random.below(forMs + 5000) })
  const away = { source, forMs: random.pick([4000, 20_000, 60_000]) }
  // Another relay would speak for the accounts of a source that is paused.
  const how = relayed === undefined ? random.pick(['pause', 'ban'] as const) : 'ban'
  if (random.next() < 0.7) steps.push({ do: how, ...away }, wait(random))
  if (random.next() < 0.5) steps.push(end(random))
  return steps
}

/** A host tells of the documents of one account more often than anybody needs to know. */
function chatter(random: Random): Step[] {
  const account = random.below(8)
  const told = (): Step[] => [
    { do: 'identity', account },
    { do: 'wait', ms: random.below(3000) },
  ]
  return Array.from({ length: 26 }, told).flat()
}

/** Things that happen to accounts. Those with the number of a source are its own where it is a PDS. */
function blows(random: Random, source: number): Step[] {
  const steps: Step[] = []
  for (let count = 1 + random.below(5); count > 0; count--)
    steps.push(...blow(random, random.next() < 0.7 ? source : random.below(8)), wait(random))
  return steps
}

/** A source cannot be read for a while, and keeps little of what it sends meanwhile. */
function lost(random: Random): Step[] {
  const source = random.below(4)
  return [
    { do: 'condition', part: 'link', of: source, manner: 'down', forMs: random.pick([2000, 20_000]) },
    ...blows(random, source),
    { do: 'forget', source, kept: random.below(random.pick([1, 3, 10])) },
    ...(random.next() < 0.3 ? [end(random)] : []),
    { do: 'wait', ms: random.below(random.pick([3000, 30_000])) },
  ]
}

/** An operator has a source read from another position, while events of it are under way. */
function readAgain(random: Random): Step[] {
  const source = random.below(4)
  return [
    ...blows(random, source),
    { do: 'again', source, from: random.pick(positions), draw: random.below(2 ** 31) },
    wait(random),
    ...blows(random, source),
    ...(random.next() < 0.5 ? [end(random)] : []),
  ]
}

/** The clock of the machine is ahead while much happens, and is set right. */
function clockAhead(random: Random): Step[] {
  const account = random.below(8)
  const forMs = random.pick([500, 3000, 20_000])
  return [
    { do: 'clock', aheadMs: random.pick([60_000, 7_200_000, 30 * 86_400_000]), forMs },
    ...blows(random, account),
    ...(random.next() < 0.3 ? [end(random)] : []),
    { do: 'wait', ms: random.below(2 * forMs) },
    ...blows(random, account),
  ]
}
