/** The steps of which a script is made. */
import type { Ending, Pace } from '@tributary/testkit/simulation'
import type { Alteration } from './altered.ts'
import type { Part } from './conditions.ts'
import type { Point } from './stream-process.ts'

/** Numbers of accounts are taken modulo how many there are. `draw` seeds what else a step needs. */
export type Step =
  /** @param until the moment that ends it sooner, if it comes. */
  | { do: 'wait'; ms: number; until?: Point }
  | { do: 'commit'; account: number; times: number; draw: number }
  | { do: 'sync'; account: number }
  | { do: 'identity'; account: number }
  | { do: 'status'; account: number; word: string }
  /**
   * An account has another key: its document says so, and after a while its host signs with it. It tells of that first, or
   * does not. At times the former key was stolen, and whoever has it signs with it as soon as that is told.
   */
  | { do: 'rotate'; account: number; gapMs: number; how: 'told' | 'untold' | 'stolen'; draw: number }
  /** The relay passes on what somebody else has signed in the name of an account: with its former key, if it had one. */
  | { do: 'forge'; account: number; draw: number }
  /** The relay passes on a commit that the account has signed, and that is wrong in one way. */
  | { do: 'alter'; account: number; how: Alteration; draw: number }
  /** The clock of the machine is ahead for so long, and is set back then. */
  | { do: 'clock'; aheadMs: number; forMs: number }
  | { do: 'renumber'; before: number }
  /** The process ends, and the next one reads another relay, which has some of the events before the saved position. */
  | ({ do: 'relay'; before: number } & Ending)
  | { do: 'condition'; part: Part; manner: string; forMs: number }
  /** @param at the moment from which the calls of the disk are counted. Default: at once. */
  | ({ do: 'restart'; at?: Point } & Ending)
  /** A write fails after so many syncs. Later syncs do not bring to the disk what it was to. */
  | { do: 'fail-write'; syncs: number }
  | { do: 'lose'; account: number; times: number; draw: number }
  | { do: 'seal' }
  | { do: 'compact' }
  /**
   * An operator adds a collection, or removes it, if it is not so already.
   * @param at the moment that is waited for. Default: at once.
   */
  | { do: 'watch'; collection: number; isWatched: boolean; at?: Point }
  | { do: 'plan'; filter: number; after: number }
  | {
      do: 'join'
      subscriber: number
      cursor: (typeof cursors)[number] | (typeof edges)[number]
      filter: number
      pace: Pace
    }
  | { do: 'leave'; subscriber: number }
  | { do: 'pace'; subscriber: number; pace: Pace }

export const cursors = ['own', 'own', 'own', 'none', 'start', 'start', 'back', 'back', 'future'] as const
/** `time`: at, just before or just after a row was witnessed. `edge`: around the oldest or the newest seq. */
export const edges = ['time', 'edge'] as const
export const subscribersMax = 6
