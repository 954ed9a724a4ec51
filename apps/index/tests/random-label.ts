/** Random labels of a few accounts: the same qualities again and again, with times that are equal, earlier and later. */
import { type Did, qualityLabels } from '@tributary/protocol'
import type { Random } from '@tributary/testkit'
import type { SaidLabel } from './expected-page.ts'

/** Longer than a round of histories takes, so that labels end before pages, between them and after them. */
const endsWithinMs = 20_000

export function randomLabel(
  labelers: readonly Did[],
  family: readonly Did[],
  random: Random,
  nowMs: number,
): SaidLabel {
  const minute = random.below(3)
  const [past, soon] = [new Date(nowMs - 60_000), new Date(nowMs + random.below(endsWithinMs))]
  return {
    labeler: random.pick(labelers),
    did: random.pick(family),
    val: random.pick(qualityLabels.slice(0, random.pick([2, 4]))),
    neg: random.below(3) === 0,
    // The same moment in two spellings, because labelers differ in them.
    cts: `2026-03-04T08:0${minute}:00${random.pick(['Z', '.000Z'])}`,
    exp: random.pick([undefined, undefined, past.toISOString(), soon.toISOString(), soon.toISOString()]),
  }
}
