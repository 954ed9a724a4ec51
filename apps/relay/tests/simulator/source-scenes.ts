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
  return { ...script, steps }
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
