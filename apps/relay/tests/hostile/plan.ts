/** Which acts a campaign plays, in which order. All of it follows from the seed and the names of the strategies. */
import { randomFrom, type Random } from '@tributary/testkit'
import type { Act } from './act.ts'
import { failedOnce } from './failed-once.ts'
import { strategies } from './strategies/index.ts'

export interface PlanOptions {
  seed: number
  actMs: number
  /** Strategies to play, all of them together. None: every one, alone or with others. */
  named: readonly string[]
  /** Play each alone. */
  isAlone: boolean
}

const togetherMax = 4
const failedOnceMs = 3000

/** The acts without end. Each strategy comes once before any comes again. */
export function* plan({ seed, actMs, named, isAlone }: PlanOptions): Generator<Act, never> {
  const random = randomFrom(seed)
  const chosen = named.length > 0 ? named : Object.keys(strategies)
  if (named.length === 0) for (const { names, seed } of failedOnce) yield { names, seed, ms: failedOnceMs }
  for (let index = 0; ; index++) {
    // What is named is played with the very seed, so that an act can be played again.
    if (named.length > 0 && !isAlone) {
      yield { names: named, seed: seed + index, ms: actMs }
      continue
    }
    const left = shuffled(random, chosen)
    while (left.length > 0) {
      const together = isAlone ? 1 : 1 + random.below(togetherMax)
      yield { names: left.splice(0, together), seed: random.below(2 ** 31), ms: actMs }
    }
  }
}

function shuffled<T>(random: Random, items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, key: random.next() }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ item }) => item)
}
